"""What a caller of the server may do. API keys have these scopes; those of access tokens are mapped to them."""

from __future__ import annotations

__all__ = ["SCOPES"]

SCOPES = ("read", "call", "approve", "admin")
