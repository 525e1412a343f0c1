"""Calls that end elsewhere: what a body returns to leave its call open, and the token that ends it.

A token names its call and holds 256 random bits. The store has only the hash of the token, so reading the store completes nothing.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

from clicket import system

__all__ = ["Pending", "digest_of", "fits", "id_in", "new_token"]

_PREFIX = "ckx_"
_BYTES = 32
_SECRET = 43
"""Characters of a token's random part."""
_MAX_TOKEN = 2_000


class Pending:
    """Returned by a body whose call goes on elsewhere. `token` completes or fails the call, once; send it to the system that does."""

    __slots__ = ("token",)

    def __init__(self, token: str) -> None:
        self.token: str = token

    def __repr__(self) -> str:
        return "<pending: its token is not shown>"


def new_token(call_id: str) -> str:
    """A token for a call. It consists of letters, digits, `_` and `-`, so it fits into a URL as it is."""
    name = urlsafe_b64encode(call_id.encode()).decode().rstrip("=")
    return f"{_PREFIX}{system.random_text(_BYTES)}-{name}"


def id_in(token: str) -> str | None:
    """The id of the call that a token names; None: it is not a token."""
    start = len(_PREFIX) + _SECRET
    if not isinstance(token, str) or len(token) > _MAX_TOKEN or not token.startswith(_PREFIX):
        return None
    if token[start : start + 1] != "-":
        return None
    name = token[start + 1 :]
    try:
        return urlsafe_b64decode((name + "=" * (-len(name) % 4)).encode("ascii")).decode()
    except ValueError:
        return None


def digest_of(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def fits(token: str, digest: str) -> bool:
    """Is this the token with that hash? The comparison takes the same time for every wrong one."""
    return hmac.compare_digest(digest_of(token).encode(), digest.encode())
