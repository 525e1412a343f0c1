"""Why a token is not accepted: it is not valid here (401), or nothing can be said about it now (503)."""

from __future__ import annotations

from clicket.errors import ClicketError

__all__ = ["IssuerUnavailable", "TokenRefused"]


class TokenRefused(ClicketError):
    """The token is not valid here. The message never has a part of the token."""

    code = "unauthorized"


class IssuerUnavailable(ClicketError):
    """The authorization server did not answer, or not with what it should; a token can be neither accepted nor refused."""

    code = "issuer_unavailable"
