"""Units on their way to the server: some by one script, all of a group in one round trip, over a connection of their own."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from redis.exceptions import NoScriptError, ResponseError

from clicket.errors import ClicketError
from clicket.model.ports import Append, CacheUse, Duplicate, OutcomeStats, Stale, Unstorable
from clicket.stores.announcing import Announcer, Enclosure, Outbox
from clicket.stores.redis.connection import Command, Connection, refusal
from clicket.stores.redis.script_client import ScriptClient
from clicket.stores.redis.scripts import script
from clicket.stores.remote import Lost, Unit

__all__ = ["Units"]

logger = logging.getLogger("clicket.stores")
_MAX_BODY = 256 * 1024 * 1024
_MAX_BYTES = 8 * 1024 * 1024
"""Of one round trip: more would not be answered in time over a slow connection."""
_MAX_UNITS = 20
"""Of one run of the script: other processes wait while it runs."""
_FOR_ALL = frozenset({b"lost", b"old"})
_HEADER = 3
"""Bytes in front of the values of a unit, which say how many there are. The script unpacks the values one after the other."""
_MAX_EXACT = 2**53
_SLACK = 60_000
"""Milliseconds that a cached result stays beyond its time: clocks differ, and readers look at its date themselves."""


class _Request(msgspec.Struct, frozen=True, gc=False):
    """One unit, as the script gets it."""

    values: bytes
    body: bytes
    item: bytes | None
    """The result for the cache; empty, if the unit only counts a use of the cache; None: it has nothing to do with the cache."""
    is_new: bool
    """It creates a call."""


class _Group(msgspec.Struct, frozen=True, gc=False):
    """Units of one run of the script."""

    places: list[int]
    """Where they are among all units."""
    requests: list[_Request]
    enclosures: list[Enclosure]


class Units:
    """The backend of the group writer. `channel(to)`: the name of the channel of a process; None: a bus carries messages."""

    def __init__(
        self,
        client: ScriptClient,
        connection: Connection,
        bus: Outbox,
        channel: Callable[[int], bytes] | None,
        *,
        keep: int | None,
    ) -> None:
        self._client = client
        self._connection = connection
        self._bus = bus
        self._channel = channel
        self._announcer = Announcer(bus, encloses=channel is not None)
        self._keep = None if keep is None else str(keep)
        self._hour = -math.inf

    async def apply(self, units: Sequence[Unit], *, again: bool) -> Sequence[ClicketError | None]:
        outcomes: list[ClicketError | None] = []
        try:
            for part in _parts(units):
                outcomes += await self._apply(part, again)
        except Lost as lost:
            self._client.response_lost(lost)
            raise
        except ClicketError as error:
            outcomes += [error] * (len(units) - len(outcomes))
        return outcomes

    async def _apply(self, units: Sequence[Unit], again: bool) -> list[ClicketError | None]:
        outcomes: list[ClicketError | None] = [None] * len(units)
        sent: list[tuple[int, _Request]] = []
        for place, (change, body) in enumerate(units):
            try:
                sent.append((place, self._request(change, body)))
            except Unstorable as error:
                outcomes[place] = error
        if sent:
            signature = self._client.identified({"again": True} if again else {})
            groups = [self._group(units, sent[at : at + _MAX_UNITS]) for at in range(0, len(sent), _MAX_UNITS)]
            try:
                for group, answers in zip(groups, await self._answers(groups, signature), strict=True):
                    self._take(units, group, answers, outcomes)
            except BaseException:
                for group in groups:
                    self._announcer.give_back(group.enclosures)
                raise
            self._client.renewed(signature)
        return outcomes

    def _group(self, units: Sequence[Unit], sent: Sequence[tuple[int, _Request]]) -> _Group:
        places = [place for place, _ in sent]
        enclosures = self._announcer.enclose([units[place] for place in places])
        return _Group(places, [request for _, request in sent], enclosures)

    async def _answers(self, groups: Sequence[_Group], signature: dict[str, Any]) -> list[list[Any]]:
        """The answers of the script, one for each unit of each group."""
        commands = [self._command(group.requests, signature, group.enclosures) for group in groups]
        answers = [
            _each(answer, len(group.requests))
            for group, answer in zip(groups, await self._connection.execute(commands), strict=True)
        ]
        flat = [(g, n) for g, group in enumerate(answers) for n in range(len(group))]
        missing = next((at for at, (g, n) in enumerate(flat) if isinstance(answers[g][n], NoScriptError)), None)
        if missing is not None:
            # From the first one that was not run on, all that were refused are asked again: they may have built on it. Their messages are
            # posted afterwards.
            rest = [(g, n) for g, n in flat[missing:] if not isinstance(answers[g][n], int | list)]
            again = await self._run([groups[g].requests[n] for g, n in rest], signature)
            for (g, n), answer in zip(rest, again, strict=True):
                answers[g][n] = answer
                self._announcer.give_back(groups[g].enclosures)
                groups[g].enclosures.clear()
        return answers

    async def _run(self, requests: Sequence[_Request], signature: dict[str, Any]) -> list[Any]:
        """The answers of a script that the server has to be given first."""
        groups = [requests[at : at + _MAX_UNITS] for at in range(0, len(requests), _MAX_UNITS)]
        commands = [script("append").load, *(self._command(group, signature) for group in groups)]
        _, *answers = await self._connection.execute(commands)
        return [each for group, answer in zip(groups, answers, strict=True) for each in _each(answer, len(group))]

    def _command(
        self,
        requests: Sequence[_Request],
        signature: dict[str, Any],
        enclosures: Sequence[Enclosure] = (),
    ) -> Command:
        arguments = {**signature, "count": len(requests), "new": sum(request.is_new for request in requests)}
        units = [part for request in requests for part in (request.values, request.body)]
        items = [request.item for request in requests if request.item is not None]
        texts = []
        if self._keep is not None:
            arguments["keep"] = self._keep
        if enclosures:
            assert self._channel is not None
            arguments["tell"] = tell = []
            for enclosure in enclosures:
                tell.append(
                    {"channel": self._channel(enclosure.to).decode(), "units": enclosure.units, "new": enclosure.new}
                )
                texts.append(enclosure.text)
        return self._client.command("append", arguments, *units, *items, *texts)

    def _take(
        self, units: Sequence[Unit], group: _Group, answers: Sequence[Any], outcomes: list[ClicketError | None]
    ) -> None:
        """The outcomes of a group, and what others are told of it."""
        its_units = [units[place] for place in group.places]
        givers = [answer[1] if isinstance(answer, list) else 0 for answer in answers]
        applied = [isinstance(answer, int | list) for answer in answers]
        for place, (change, _), answer in zip(group.places, its_units, answers, strict=True):
            outcomes[place] = self._outcome(change, answer)
        self._announcer.announce(its_units, applied, givers, group.enclosures)

    def _outcome(self, change: Append, answer: Any) -> ClicketError | None:
        if isinstance(answer, int | list):
            change.key, _, watched = (answer, 0, 0) if isinstance(answer, int) else answer
            if change.expect == 0:
                self._hour = change.call.created_at // 3600
            if watched and change.unit is not None:
                self._bus.post("events", change.key)
            return None
        if answer == b"stale":
            return Stale(f"call {change.id} was changed by another writer")
        if answer == b"duplicate":
            return Duplicate(f"the id {change.id!r} is taken in thread {change.call.thread!r}")
        if isinstance(answer, ResponseError):
            trouble = refusal(self._client.url, answer)
            if isinstance(trouble, Lost):
                raise trouble
            return trouble
        if answer == b"lost":
            return self._client.lost_data()
        raise self._client.superseded()

    def _request(self, change: Append, body: bytes) -> _Request:
        """What is asked of the script. Raises `Unstorable`."""
        if len(body) > _MAX_BODY:
            raise Unstorable(f"call {change.id} has {len(body)} bytes of events in one unit; Redis takes {_MAX_BODY}.")
        call = change.call
        ended_at = change.ended_at
        stats = change.stats
        hour = None
        size = len(body)
        is_new = change.expect == 0
        if is_new and call.created_at // 3600 != self._hour:
            hour = str(int(call.created_at // 3600))  # it is the first one of that hour here
        artifacts = None
        cache = None
        item = None
        unless = change.unless if is_new else None
        maker = change.maker and [str(number) for number in change.maker] if is_new else None
        if change.artifacts:
            artifacts = [name for name, _ in change.artifacts]
            size += sum(size for _, size in change.artifacts)
        if change.cache is not None:
            cache, item = _use(change.cache, ended_at or call.created_at)
        # Numbers that the script only stores are texts: Lua would format them as floats.
        values: tuple[Any, ...] = (
            call.id, call.thread, call.caller, call.tool, change.state, change.expect, change.fence, str(change.last),
            repr(float(call.created_at)), size, str(change.key), max(min(call.priority, _MAX_EXACT), -_MAX_EXACT), change.owned,
            change.claim, change.signal, None if change.unit is None else str(change.expect + 1),
            None if ended_at is None else repr(ended_at), change.waiting_for, change.queue or None, hour, artifacts, cache, unless,
            maker,
        )  # fmt: skip
        if stats is not None and ended_at is not None:
            values += (
                stats.tool, stats.outcome, stats.error, stats.bucket, stats.seconds, stats.effect, stats.at, stats.cause,
                stats.tool_version, stats.shared,
            )  # fmt: skip
        return _Request(self._client.encoded(values)[_HEADER:], body, item, is_new)

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
                await self._client.once("erase", arguments, body)


def _each(answer: Any, count: int) -> list[Any]:
    """The answers for this many units: `int` or `[int, int, int]` if it was applied. The script may have given one reason for all; if one
    unit failed, each answer comes by itself."""
    if isinstance(answer, bytes) and answer not in _FOR_ALL:
        return [_parsed(each) for each in answer.split(b" ")]
    if isinstance(answer, list):
        return [_parsed(each) if isinstance(each, bytes) else each for each in answer]
    return [answer] * count


def _parsed(answer: bytes) -> Any:
    if answer.isdigit():
        return int(answer)
    return [int(part) for part in answer.split(b",")] if b"," in answer else answer


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
