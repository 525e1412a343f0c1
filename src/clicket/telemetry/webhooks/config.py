"""The endpoints of the settings: `[[webhooks]]` with `url`, `secret`, `events`, and more if wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.model.notice import NOTICE_TYPES
from clicket.telemetry.webhooks.signature import key_of

__all__ = ["INCLUDES", "LINK_ALLOWS", "RETRY", "Endpoint", "endpoints_of", "secrets_of"]

RETRY = (5.0, 60.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0)
"""Seconds between attempts: over 18 hours in all."""
INCLUDES = ("arguments",)
LINK_ALLOWS = ("edit", "respond")
"""What the holder of a link may do beside approve and deny, if the endpoint's settings say so."""
_NAMES = ("url", "secret", "events", "name", "include", "link", "link_allows", "allow_private", "timeout", "retry")
_MAX_WAIT = 7 * 24 * 3600.0
_MAX_TIMEOUT = 60.0
"""Seconds; the claim of a notice lasts longer."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`name` stands for it on record: the URL may hold a token, so it is never stored or shown."""

    name: str
    url: str
    secrets: tuple[str, ...]
    events: frozenset[str]
    include: frozenset[str] = frozenset()
    link: bool = True
    """`approval.requested` carries a link to the approver page, if the settings have `public_url`."""
    link_allows: frozenset[str] = frozenset()
    """What the holder of a link may do beside approve and deny: `edit` the arguments, `respond` in the tool's place."""
    allow_private: bool = False
    timeout: float = 15.0
    retry: tuple[float, ...] = RETRY

    def __repr__(self) -> str:
        return f"<endpoint {self.name}>"

    @property
    def mark(self) -> str:
        """Changes with the URL, and does not give it away."""
        return sha256(b"clicket webhook " + self.url.encode()).hexdigest()[:16]


def endpoints_of(given: Sequence[Mapping[str, Any]], origin: str = "Settings") -> tuple[Endpoint, ...]:
    """The endpoints; `UsageError` names the one that is wrong, and shows neither URL nor secret."""
    made: list[Endpoint] = []
    for number, each in enumerate(given, start=1):
        try:
            made.append(_endpoint(each))
        except UsageError as error:
            raise UsageError(f"setting webhooks (from {origin}), number {number}: {error.message}") from None
    names = [each.name for each in made]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"setting webhooks (from {origin}): two have the name {name!r}. Give each a name of its own."
            )
    return tuple(made)


def secrets_of(given: Sequence[Any]) -> list[str]:
    """Every text in the settings that must not be shown; they need not be valid."""
    found: list[str] = []
    for each in given:
        if isinstance(each, Mapping):
            found += [text for text in (each.get("url"), *_texts(each.get("secret"))) if isinstance(text, str)]
    return found


def _endpoint(given: Any) -> Endpoint:
    if not isinstance(given, Mapping):
        raise UsageError("it must be a table with url, secret and events.")
    for name in given:
        if name not in _NAMES:
            raise UsageError(
                f"there is no option {name!r}.{did_you_mean(str(name), _NAMES)} Known: {', '.join(_NAMES)}."
            )
    url = given.get("url")
    host = _host(url)
    secrets = tuple(_texts(given.get("secret")))
    if not secrets:
        raise UsageError("it needs a secret (whsec_…), or a list of them while you replace one.")
    for secret in secrets:
        key_of(secret)
    timeout, retry = given.get("timeout", 15.0), given.get("retry", RETRY)
    waits = [timeout, *(retry if isinstance(retry, list | tuple) else [None])]
    if (
        not all(
            isinstance(each, int | float) and not isinstance(each, bool) and isfinite(each) and 0 < each <= _MAX_WAIT
            for each in waits
        )
        or timeout > _MAX_TIMEOUT
    ):
        raise UsageError(
            f"timeout is a number of seconds above 0, at most {_MAX_TIMEOUT:g}, and retry a list of seconds, each at most a week."
        )
    for flag in ("link", "allow_private"):
        if not isinstance(given.get(flag, False), bool):
            raise UsageError(f"{flag} is true or false.")
    name = given.get("name", f"{host}-{sha256(str(url).encode()).hexdigest()[:6]}")
    if not isinstance(name, str) or not 0 < len(name) <= 100 or not name.isprintable():
        raise UsageError("name is a text of 1 to 100 characters.")
    return Endpoint(
        name=name,
        url=str(url),
        secrets=secrets,
        events=_chosen("events", given.get("events"), NOTICE_TYPES) or frozenset(NOTICE_TYPES),
        include=_chosen("include", given.get("include"), INCLUDES),
        link=given.get("link", True),
        link_allows=_chosen("link_allows", given.get("link_allows"), LINK_ALLOWS),
        allow_private=given.get("allow_private", False),
        timeout=float(timeout),
        retry=tuple(float(each) for each in retry),
    )


def _host(url: Any) -> str:
    parts = None
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if parts is None or not fits:
        raise UsageError("url must be an address like https://example.org/hook: http or https, and a host.")
    if parts.username is not None or parts.password is not None:
        raise UsageError("url must not hold a user or a password: requests are signed instead.")
    return str(parts.hostname)


def _texts(value: Any) -> list[str]:
    given = value if isinstance(value, list | tuple) else [value]
    return [each for each in given if isinstance(each, str) and each]


def _chosen(name: str, value: Any, known: Sequence[str]) -> frozenset[str]:
    if value is None:
        return frozenset()
    if not isinstance(value, list | tuple):
        raise UsageError(f"{name} is a list of: {', '.join(known)}.")
    for each in value:
        if each not in known:
            raise UsageError(f"{name} has no {each!r}.{did_you_mean(str(each), known)} Known: {', '.join(known)}.")
    return frozenset(value)
