"""A grant: an approval that also answers later questions about calls of the same tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, isfinite
from typing import Any, Literal, TypedDict

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.model.codec import clean

__all__ = ["ANY_CALLER", "Grant", "GrantState", "GrantTerms", "StoredGrant", "narrowest", "read_terms"]

ANY_CALLER = "*"
GrantState = Literal["active", "used_up", "expired", "revoked"]
_MAX_USES = 1_000_000
_MAX_SECONDS = 10 * 366 * 86_400.0
_MAX_NAME = 512
_MAX_SCHEMA = 16 * 1024


class GrantTerms(TypedDict, total=False):
    """Which later calls a grant lets run. A key that is left out sets no limit; without `caller` it holds for the call's own caller."""

    uses: int
    """How many calls."""
    seconds: float
    """For how long."""
    thread: str
    """Only calls in this thread."""
    arguments: dict[str, Any]
    """Only calls whose arguments fit this JSON Schema. An argument that was not sent counts with its default."""
    caller: str
    """Only calls of this caller; `*`: of every caller."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """An approval for later calls of one tool. Times are seconds since the epoch."""

    id: str
    tool: str
    caller: str
    """Calls of this caller; empty: of the program itself; `*`: of every caller."""
    by: str
    """The approver that gave it."""
    call: str
    """The id of the call with whose approval it was given."""
    given_at: float
    reason: str = ""
    version: str | None = None
    """Calls of this version of the tool: the one that the approver was asked about. None: of every version."""
    thread: str | None = None
    """Calls in this thread; None: in every thread."""
    arguments: dict[str, Any] | None = None
    """The JSON Schema that their arguments fit; None: all do."""
    uses: int | None = None
    """How many calls it lets run; None: no limit."""
    used: int = 0
    expires_at: float | None = None
    last_used_at: float | None = None
    revoked_at: float | None = None
    revoked_by: str = ""
    state: GrantState = "active"

    def state_at(self, now: float) -> GrantState:
        if self.revoked_at is not None:
            return "revoked"
        if self.uses is not None and self.used >= self.uses:
            return "used_up"
        return "expired" if self.expires_at is not None and now >= self.expires_at else "active"

    def covers(self, tool: str, caller: str, thread: str) -> bool:
        """Does it hold for calls of this tool, caller and thread?"""
        return self.tool == tool and self.caller in (caller, ANY_CALLER) and self.thread in (thread, None)

    def covers_version(self, version: str) -> bool:
        return self.version in (version, None)


class StoredGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A grant as it is stored, with what only the engine needs."""

    grant: Grant
    rule: str
    """The policy's rule that asked when it was given. It answers questions of this rule only."""
    identities: tuple[str, ...]
    """The names of the approver. It lets none of their own calls run, unless `self_approval`."""
    self_approval: bool = False
    thread: str
    """The thread and the caller of the call with whose approval it was given."""
    caller: str
    confirmed: bool = False
    """The approval is on record. Until then it lets no call run: the process may have ended before it wrote the approval."""


def narrowest(grants: Iterable[StoredGrant]) -> list[StoredGrant]:
    """In the order in which they are used: the one with more limits first. Limits on arguments weigh more than one on the thread, then
    come the caller, the number of uses, and the time. Of equal ones that comes first which has fewer uses left, or ends sooner."""
    return sorted(grants, key=_width)


def _width(stored: StoredGrant) -> tuple[Any, ...]:
    grant = stored.grant
    left = inf if grant.uses is None else grant.uses - grant.used
    ends = inf if grant.expires_at is None else grant.expires_at
    wide = (grant.arguments is None, grant.thread is None, grant.caller == ANY_CALLER, left == inf, ends == inf)
    return (*wide, left, ends, grant.given_at, grant.id)


def read_terms(given: Mapping[str, Any]) -> GrantTerms:
    """The terms of a grant, checked; `UsageError` if they are no terms. The schema is compiled elsewhere."""
    known = GrantTerms.__annotations__
    if not isinstance(given, Mapping):
        raise UsageError(f"a grant is a table with some of the keys {', '.join(known)}, not {given!r:.100}.")
    for name in given:
        if name not in known:
            raise UsageError(
                f"grant: there is no key {name!r:.100}.{did_you_mean(str(name), known)} Known: {', '.join(known)}."
            )
    terms = {name: value for name, value in given.items() if value is not None}
    uses, seconds, schema = terms.get("uses"), terms.get("seconds"), terms.get("arguments")
    if uses is not None and (type(uses) is not int or not 1 <= uses <= _MAX_USES):
        raise UsageError(f"grant: uses must be a number from 1 to {_MAX_USES:,}, not {uses!r:.100}.")
    if seconds is not None:
        number = type(seconds) in (int, float) and isfinite(seconds)
        if not number or not 0 < seconds <= _MAX_SECONDS:
            raise UsageError(f"grant: seconds must be a number above 0 and up to ten years, not {seconds!r:.100}.")
    for name in ("thread", "caller"):
        text = terms.get(name, "x")
        if type(text) is not str or len(text) > _MAX_NAME or clean(text) != text or (name == "thread" and not text):
            raise UsageError(f"grant: {name} must be a name of up to {_MAX_NAME} characters, not {text!r:.100}.")
    if schema is not None:
        if not isinstance(schema, Mapping):
            raise UsageError(f"grant: arguments must be a JSON Schema, which is an object, not {schema!r:.100}.")
        terms["arguments"] = _plain(schema)
    return terms  # type: ignore[return-value]  # its keys and types are those


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    try:
        body = msgspec.json.encode(dict(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"grant: arguments is not JSON: {error}.") from None
    if len(body) > _MAX_SCHEMA:
        raise UsageError(
            f"grant: the schema of the arguments has {len(body):,} bytes; at most {_MAX_SCHEMA:,} are kept."
        )
    plain: dict[str, Any] = msgspec.json.decode(body)
    return plain
