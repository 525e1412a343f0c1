"""A caller's credential for a provider, as every reader may see it: without the secret."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Credential", "CredentialKind", "CredentialLink", "CredentialStatus"]

CredentialKind = Literal["token", "oauth"]
"""`token`: a secret that its holder gave. `oauth`: tokens of an authorization server, which are refreshed."""
CredentialStatus = Literal["ready", "expired"]


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """The secret is in the store alone, encrypted, and nothing shows it."""

    id: str
    """Changes when the credential is replaced, not when it is refreshed."""
    caller: str
    provider: str
    kind: CredentialKind
    status: CredentialStatus
    scopes: tuple[str, ...] = ()
    refreshable: bool = False
    created_at: float
    updated_at: float
    expires_at: float | None = None
    """When the present token ends; one that is refreshable gets a new one before that."""
    reason: str = ""
    """Why it is expired."""


class CredentialLink(msgspec.Struct, frozen=True, kw_only=True):
    """A page on which its holder connects an account. It works once, until `expires_at`."""

    provider: str
    caller: str
    url: str
    expires_at: float
