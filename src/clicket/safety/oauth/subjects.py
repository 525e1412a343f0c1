"""The caller that a token's subject becomes: `oauth:ISSUER:SUBJECT`, where ISSUER is a short hash of the issuer's URL.

Neither ids of API keys nor names of keys in the settings can have a colon, so that no key is the caller of a subject. The same
subject of the same issuer is always the same caller, whatever client got the token.
"""

from __future__ import annotations

from hashlib import sha256

__all__ = ["MAX_SUBJECT", "caller_of", "subject_of"]

MAX_SUBJECT = 255
"""Characters, as OpenID Connect has it."""
_PREFIX = "oauth:"


def caller_of(issuer: str, subject: str) -> str:
    return f"{_PREFIX}{sha256(issuer.encode()).hexdigest()[:12]}:{subject}"


def subject_of(caller: str) -> str:
    """The subject behind a caller; empty unless the caller was authenticated by a token."""
    return caller.removeprefix(_PREFIX).partition(":")[2] if caller.startswith(_PREFIX) else ""
