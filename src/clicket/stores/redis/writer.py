"""Units on their way to the server: one script for each, all of a group in one round trip, over a connection of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
from redis.exceptions import NoScriptError, ResponseError

from clicket.errors import ClicketError
from clicket.ports import Append, CacheUse, Duplicate, Notices, OutcomeStats, Stale, Unstorable
from clicket.stores.announcing import announce
from clicket.stores.redis.connection import Command, Connection, refusal
from clicket.stores.redis.scripts import script
from clicket.stores.redis.session import Session
from clicket.stores.remote import Lost, Unit

__all__ = ["Units"]

_MAX_BODY = 256 * 1024 * 1024
_MAX_BYTES = 8 * 1024 * 1024
"""Of one round trip: more would not be answered in time over a slow connection."""
_MAX_EXACT = 2**53
_SLACK = 60_000
"""Milliseconds that a cached result stays beyond its time: clocks differ, and readers look at its date themselves."""


class Units:
    """The backend of the group writer."""

    def __init__(self, session: Session, connection: Connection, notices: Notices, *, keep: int | None) -> None:
        self._session = session
        self._connection = connection
        self._notices = notices
        self._keep = keep
        self._hour = -math.inf

    async def apply(self, units: Sequence[Unit], *, again: bool) -> Sequence[ClicketError | None]:
        outcomes: list[ClicketError | None] = []
        try:
            for part in _parts(units):
                outcomes += await self._apply(part, again)
        except Lost as lost:
            self._session.response_lost(lost)
            raise
        except ClicketError as error:
            outcomes += [error] * (len(units) - len(outcomes))
        return outcomes

    async def _apply(self, units: Sequence[Unit], again: bool) -> list[ClicketError | None]:
        commands: list[Command] = []
        outcomes: list[ClicketError | None] = [None] * len(units)
        sent: list[int] = []
        signature = self._session.identified({})
        unsigned = {name: value for name, value in signature.items() if name != "owner"}  # it is enough to say it once
        for place, (change, body) in enumerate(units):
            try:
                commands.append(self._command(change, body, signature if not commands else unsigned, again=again))
            except Unstorable as error:
                outcomes[place] = error
            else:
                sent.append(place)
        if commands:
            answers = await self._answers(commands)
            for place, answer in zip(sent, answers, strict=True):
                outcomes[place] = self._outcome(*units[place], answer)
            self._session.renewed(signature)
        return outcomes

    async def _answers(self, commands: list[Command]) -> list[Any]:
        answers = await self._connection.execute(commands)
        missing = next((n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)), None)
        if missing is not None:
            # From the first one that was not run on, all that were refused are asked again: they may have built on it.
            rest = [n for n in range(missing, len(answers)) if not isinstance(answers[n], int | list)]
            _, *later = await self._connection.execute([script("append").load, *(commands[n] for n in rest)])
            for n, answer in zip(rest, later, strict=True):
                answers[n] = answer
        return answers

    def _outcome(self, change: Append, body: bytes, answer: Any) -> ClicketError | None:
        if isinstance(answer, int | list):
            change.key, giver, watched = (answer, 0, 0) if isinstance(answer, int) else answer
            if change.expect == 0:
                self._hour = change.call.created_at // 3600
            if watched and change.unit is not None:
                self._notices.post("events", change.key)
            announce(self._notices, change, body, giver)
            return None
        if answer == b"stale":
            return Stale(f"call {change.id} was changed by another writer")
        if answer == b"duplicate":
            return Duplicate(f"the id {change.id!r} is taken in thread {change.call.thread!r}")
        if isinstance(answer, ResponseError):
            trouble = refusal(self._session.url, answer)
            if isinstance(trouble, Lost):
                raise trouble
            return trouble
        if answer == b"lost":
            return self._session.lost_data()
        raise self._session.superseded()

    def _command(self, change: Append, body: bytes, signature: dict[str, Any], *, again: bool) -> Command:
        if len(body) > _MAX_BODY:
            raise Unstorable(f"call {change.id} has {len(body)} bytes of events in one unit; Redis takes {_MAX_BODY}.")
        arguments: dict[str, Any] = {
            **signature,
            "id": change.id,
            "thread": change.call.thread,
            "caller": change.call.caller,
            "tool": change.call.tool,
            "state": change.state.value,
            "expect": change.expect,
            "fence": change.fence,
            "last": change.last,
            "created": repr(float(change.call.created_at)),
            "owned": change.owned,
            "priority": max(min(change.call.priority, _MAX_EXACT), -_MAX_EXACT),
            "bytes": len(body),
            "key": change.key,
        }
        if change.expect == 0 and change.call.created_at // 3600 != self._hour:
            arguments["hour"] = str(int(change.call.created_at // 3600))
        if change.unit is not None:
            arguments["first"] = change.expect + 1
        if again:
            arguments["again"] = True
        if change.claim:
            arguments["claim"] = True
        if change.request:
            arguments["request"] = True
        if change.ended_at is not None:
            arguments["ended"] = repr(change.ended_at)
        if self._keep is not None:
            arguments["keep"] = self._keep
        if change.artifacts:
            arguments["artifacts"] = [name for name, _ in change.artifacts]
            arguments["bytes"] += sum(size for _, size in change.artifacts)
        if change.queue:
            arguments["queue"] = change.queue
        if change.waiting_for is not None:
            arguments["waiting"] = change.waiting_for
        if change.stats is not None and change.ended_at is not None:
            arguments["stats"] = _as_request(change.stats)
        if change.cache is None:
            return self._session.command("append", arguments, body)
        arguments["cache"], item = _use(change.cache, change.ended_at or change.call.created_at)
        return self._session.command("append", arguments, body, item)

    async def erase(self, creations: Sequence[Unit]) -> None:
        for change, body in creations:
            if change.unit is not None:
                arguments: dict[str, Any] = {
                    "id": change.id,
                    "thread": change.call.thread,
                    "caller": change.call.caller,
                }
                arguments |= {"last": change.last, "created": repr(float(change.call.created_at))}
                if change.stats is not None and change.ended_at is not None:
                    arguments["stats"] = _as_request(change.stats)
                await self._session.once("erase", arguments, body)


def _use(use: CacheUse, now: float) -> tuple[dict[str, Any], bytes]:
    request: dict[str, Any] = {"key": use.key, "hit": use.hit, "now": repr(now)}
    item = use.item
    if item is None or use.hit:
        return request, b""
    request |= {
        "tags": item.tags,
        "tags_text": msgspec.json.encode(item.tags).decode(),
        "created": repr(item.created_at),
        "expires": repr(item.expires_at),
        "accessed": repr(item.accessed_at),
        "ttl": max(math.ceil((item.expires_at - item.created_at) * 1000), 0) + _SLACK,
    }
    return request, item.body


def _as_request(stats: OutcomeStats) -> dict[str, Any]:
    request = msgspec.structs.asdict(stats)
    if stats.bucket is None:
        del request["bucket"]
    return request


def _parts(units: Sequence[Unit]) -> list[Sequence[Unit]]:
    """Runs of units of a bounded size."""
    parts: list[list[Unit]] = [[]]
    size = 0
    for unit in units:
        size += len(unit[1])
        if size > _MAX_BYTES and parts[-1]:
            parts.append([])
            size = len(unit[1])
        parts[-1].append(unit)
    return [part for part in parts if part]
