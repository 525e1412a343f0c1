"""The endpoints of the settings: `[[webhooks]]` with `url`, `secret`, `events`, and more if wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from clicket.errors import UsageError
from clicket.model.notice import NOTICE_TYPES, NoticeType
from clicket.model.tables import SECRET, tables
from clicket.telemetry.webhooks.signature import key_of

__all__ = ["RETRY", "Endpoint", "endpoints_of"]

RETRY = (5.0, 60.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0)
"""Seconds between attempts: over 18 hours in all."""
LinkAllows = Literal["edit", "respond"]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`name` stands for it on record: the URL may hold a token, so it is never stored or shown."""

    url: Annotated[str, SECRET]
    """Where notices are sent. Never shown."""
    secret: Annotated[str | tuple[str, ...], SECRET]
    """`whsec_…`, or a list of them while you replace one. Never shown."""
    events: frozenset[NoticeType] = frozenset(NOTICE_TYPES)
    """What is sent; all unless given."""
    name: str = ""
    """Its name on record; made of the address unless given."""
    include: frozenset[Literal["arguments"]] = frozenset()
    """What notices carry beside the facts."""
    link: bool = True
    """`approval.requested` carries a link to the approver page, if the settings have `public_url`."""
    link_allows: frozenset[LinkAllows] = frozenset()
    """What the holder of a link may do beside approve and deny: `edit` the arguments, `respond` in the tool's place."""
    allow_private: bool = False
    """The address may be a private one."""
    timeout: Annotated[float, Meta(gt=0, le=60)] = 15.0
    """Seconds of one attempt; the claim of a notice lasts longer."""
    retry: tuple[Annotated[float, Meta(gt=0, le=7 * 24 * 3600)], ...] = RETRY
    """Seconds between attempts, each at most a week."""

    def __post_init__(self) -> None:
        host = _host(self.url)
        if not self.secrets:
            raise UsageError("it needs a secret (whsec_…), or a list of them while you replace one.")
        for secret in self.secrets:
            key_of(secret)
        if not self.events:
            msgspec.structs.force_setattr(self, "events", frozenset(NOTICE_TYPES))
        if not self.name:
            name = f"{host}-{sha256(self.url.encode()).hexdigest()[:6]}"
            msgspec.structs.force_setattr(self, "name", name)
        if len(self.name) > 100 or not self.name.isprintable():
            raise UsageError("name is a text of 1 to 100 characters.")

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.secret,) if isinstance(self.secret, str) else self.secret

    def __repr__(self) -> str:
        return f"<endpoint {self.name}>"

    @property
    def mark(self) -> str:
        """Changes with the URL, and does not give it away."""
        return sha256(b"clicket webhook " + self.url.encode()).hexdigest()[:16]


def endpoints_of(given: Sequence[Mapping[str, Any]], where: str = "[[webhooks]]") -> tuple[Endpoint, ...]:
    """The endpoints; `UsageError` names the one that is wrong, and shows neither URL nor secret."""
    return tables(Endpoint, given, where, lambda endpoint: endpoint.name)


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
