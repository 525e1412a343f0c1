"""What a token says, signed (RFC 9068) or introspected (RFC 7662), and the one judge of both."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

import msgspec

from clicket.safety.oauth.refusals import TokenRefused
from clicket.safety.oauth.subjects import MAX_SUBJECT

__all__ = ["Claims", "check_audience", "check_claims", "check_times", "decode_claims"]

_Texts = str | list[str]


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """Times are seconds since the epoch. Fields of another type than these make the whole token invalid."""

    iss: str | None = None
    sub: str | None = None
    aud: _Texts | None = None
    exp: float | None = None
    nbf: float | None = None
    iat: float | None = None
    scope: _Texts | None = None
    scp: _Texts | None = None
    token_type: str | None = None
    active: bool | None = None
    cnf: Any = None

    @property
    def audiences(self) -> tuple[str, ...]:
        return _texts(self.aud)

    @property
    def scopes(self) -> frozenset[str]:
        """`scope` has spaces between them (RFC 8693); some servers have a list, or call it `scp`."""
        return frozenset(part for text in (*_texts(self.scope), *_texts(self.scp)) for part in text.split())


def _texts(value: _Texts | None) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def decode_claims(payload: bytes | dict[str, Any]) -> Claims:
    """Raises `TokenRefused` if it is not a JSON object with claims of the right types."""
    try:
        if isinstance(payload, bytes):
            return msgspec.json.decode(payload, type=Claims)
        return msgspec.convert(payload, Claims)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise TokenRefused("the token's claims are malformed.") from None


def check_claims(claims: Claims, issuer: str) -> None:
    """Raise unless the token is of this issuer, for a subject that can be a caller, and not bound to a key of its client."""
    if claims.iss != issuer:
        raise TokenRefused("the token is of another issuer.")
    subject = claims.sub or ""
    if not 0 < len(subject) <= MAX_SUBJECT or not subject.isprintable() or subject != subject.strip():
        raise TokenRefused(
            f"the token's subject is missing, or is not a printable text of at most {MAX_SUBJECT} characters."
        )
    if claims.cnf is not None:  # without the proof, a stolen token would work
        raise TokenRefused("the token is bound to a key of its client (`cnf`), which this server cannot check.")


def check_times(claims: Claims, now: float, leeway: float) -> None:
    times = [each for each in (claims.exp, claims.nbf, claims.iat) if each is not None]
    if not all(isfinite(each) for each in times):
        raise TokenRefused("the token's times are no numbers.")
    if claims.exp is not None and now >= claims.exp + leeway:
        raise TokenRefused("the token has expired. Get a new one.")
    if any(each is not None and now < each - leeway for each in (claims.nbf, claims.iat)):
        raise TokenRefused("the token is not valid yet.")


def check_audience(claims: Claims, accepted: Iterable[str]) -> None:
    """Raise unless the token was issued for this server (RFC 8707). A slash at the end makes no difference."""
    if not {each.removesuffix("/") for each in claims.audiences} & {each.removesuffix("/") for each in accepted}:
        raise TokenRefused(
            "the token is for another audience. Ask the authorization server for one with this server as its resource."
        )
