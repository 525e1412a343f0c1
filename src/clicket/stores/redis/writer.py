"""Units on their way to the server: some by one script, all of a group in one round trip, over a connection of their own."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from redis.exceptions import NoScriptError, ResponseError

from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import State
from clicket.ports import Append, CacheUse, Duplicate, OutcomeStats, Stale, Unstorable
from clicket.stores.announcing import Announcer, Enclosure, Outbox
from clicket.stores.redis.connection import Command, Connection, packed, refusal
from clicket.stores.redis.scripts import script
from clicket.stores.redis.session import Session
from clicket.stores.remote import Answered, Lost, Unit

__all__ = ["Units"]

logger = logging.getLogger("clicket.stores")
_MAX_BODY = 256 * 1024 * 1024
_MAX_BYTES = 8 * 1024 * 1024
"""Of one round trip: more would not be answered in time over a slow connection."""
_MAX_UNITS = 20
"""Of one run of the script: other processes wait while it runs."""
_FIRST = packed(b"PING")
"""In front of a script that publishes. The server writes to its connections in the reverse of the order in which each got something to
write: without it, to ours before those that wait for the message."""
_MAX_EXACT = 2**53
_SLACK = 60_000
"""Milliseconds that a cached result stays beyond its time: clocks differ, and readers look at its date themselves."""


class _Unit(msgspec.Struct, gc=False, omit_defaults=True):
    """What the script is asked to do with one unit. Numbers that it only stores are texts: Lua would format them as floats."""

    id: str
    thread: str
    caller: str
    tool: str
    state: State
    expect: int
    fence: int
    last: str
    created: str
    bytes: int
    key: str
    priority: int
    owned: bool = False
    claim: bool = False
    request: bool = False
    first: str | None = None
    """The number of its first event, if it has events."""
    ended: str | None = None
    stats: OutcomeStats | None = None
    waiting: str | None = None
    queue: str | None = None
    hour: str | None = None
    """The hour in which the call was made, if it is the first one of that hour here."""
    artifacts: list[str] | None = None
    cache: dict[str, Any] | None = None


class _Request(msgspec.Struct, frozen=True, gc=False):
    asked: msgspec.Raw
    body: bytes
    item: bytes | None
    """The result for the cache; empty, if the unit only counts a use of the cache."""


class _Group(msgspec.Struct, frozen=True, gc=False):
    """Units of one run of the script."""

    places: list[int]
    """Where they are among all units."""
    requests: list[_Request]
    enclosures: list[Enclosure]


class Units:
    """The backend of the group writer. `channel(to)`: the name of the channel of a process; None: a bus carries notices."""

    def __init__(
        self,
        session: Session,
        connection: Connection,
        notices: Outbox,
        channel: Callable[[int], bytes] | None,
        *,
        keep: int | None,
    ) -> None:
        self._session = session
        self._connection = connection
        self._notices = notices
        self._channel = channel
        self._announcer = Announcer(notices, encloses=channel is not None)
        self._keep = None if keep is None else str(keep)
        self._hour = -math.inf
        self._knows_live = True
        """The server has the script for units of calls that do not end; else the one for all units is used."""

    def begin(self, unit: Unit, answered: Answered) -> bool:
        """Send one unit at once; `answered` gets its outcome. False: it was not sent."""
        change, body = unit
        if len(body) > _MAX_BYTES:
            return False
        signature = self._session.identified({})
        enclosures = self._announcer.enclose((unit,))
        try:
            asked, item = self._asked(change, body)
            whole = change.ended_at is not None or item is not None or not self._knows_live
            name, items = "append" if whole else "append_live", () if item is None else (item,)
            command = self._command(name, (asked,), (body,), items, signature, enclosures)
        except Unstorable:
            sent = False
        else:
            on_answer = partial(self._on_answer, unit, enclosures, signature, answered)
            if enclosures:
                sent = self._connection.begin(_FIRST + command, on_answer, count=2)
            else:
                sent = self._connection.begin(command, on_answer)
        if not sent:
            self._announcer.give_back(enclosures)
        return sent

    def _on_answer(
        self,
        unit: Unit,
        enclosures: list[Enclosure],
        signature: dict[str, Any],
        answered: Answered,
        replies: list[Any],
        error: Exception | None,
    ) -> None:
        """The server has answered for a unit that was sent alone; `error`: it has not."""
        outcome: ClicketError | Lost | None
        try:
            if error is not None:
                raise Lost(str(error) or type(error).__name__)
            reply = replies[-1]
            answer = reply[0] if isinstance(reply, list) else reply
            if isinstance(answer, NoScriptError):
                self._knows_live = False
                self._announcer.give_back(enclosures)
                outcome = Lost("the server does not have the script")
            else:
                outcome = self._outcome(unit[0], answer)
                self._session.renewed(signature)
                giver = answer[1] if isinstance(answer, list) else 0
                self._announcer.announce((unit,), (outcome is None,), (giver,), enclosures)
        except Lost as lost:
            self._session.response_lost(lost)
            self._announcer.give_back(enclosures)
            outcome = lost
        except Exception as trouble:
            logger.exception("%s: the answer to an append cannot be used", self._session.url)
            outcome = StoreUnavailable(f"{self._session.url}: the write failed: {trouble!r}.")
        answered(outcome)

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
        outcomes: list[ClicketError | None] = [None] * len(units)
        sent: list[tuple[int, _Request]] = []
        for place, (change, body) in enumerate(units):
            try:
                sent.append((place, self._request(change, body)))
            except Unstorable as error:
                outcomes[place] = error
        if sent:
            signature = self._session.identified({"again": True} if again else {})
            groups = [self._group(units, sent[at : at + _MAX_UNITS]) for at in range(0, len(sent), _MAX_UNITS)]
            try:
                for group, answers in zip(groups, await self._answers(groups, signature), strict=True):
                    self._take(units, group, answers, outcomes)
            except BaseException:
                for group in groups:
                    self._announcer.give_back(group.enclosures)
                raise
            self._session.renewed(signature)
        return outcomes

    def _group(self, units: Sequence[Unit], sent: Sequence[tuple[int, _Request]]) -> _Group:
        places = [place for place, _ in sent]
        enclosures = self._announcer.enclose([units[place] for place in places])
        return _Group(places, [request for _, request in sent], enclosures)

    async def _answers(self, groups: Sequence[_Group], signature: dict[str, Any]) -> list[list[Any]]:
        """The answers of the script, one for each unit of each group."""
        commands = [self._commands_of(group.requests, signature, group.enclosures) for group in groups]
        answers = [
            _each(answer, group.requests)
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
        commands = [script("append").load, *(self._commands_of(group, signature) for group in groups)]
        _, *answers = await self._connection.execute(commands)
        return [each for group, answer in zip(groups, answers, strict=True) for each in _each(answer, group)]

    def _commands_of(
        self, requests: Sequence[_Request], signature: dict[str, Any], enclosures: Sequence[Enclosure] = ()
    ) -> Command:
        asked, bodies = [request.asked for request in requests], [request.body for request in requests]
        items = [request.item for request in requests if request.item is not None]
        return self._command("append", asked, bodies, items, signature, enclosures)

    def _command(
        self,
        name: str,
        asked: Sequence[_Unit | msgspec.Raw],
        bodies: Sequence[bytes],
        items: Sequence[bytes],
        signature: dict[str, Any],
        enclosures: Sequence[Enclosure],
    ) -> Command:
        arguments = {**signature, "units": asked}
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
        return self._session.command(name, arguments, *bodies, *items, *texts)

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
                self._notices.post("events", change.key)
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

    def _request(self, change: Append, body: bytes) -> _Request:
        asked, item = self._asked(change, body)
        return _Request(msgspec.Raw(self._session.encoded(asked)), body, item)

    def _asked(self, change: Append, body: bytes) -> tuple[_Unit, bytes | None]:
        """What is asked of the script, and the result for the cache."""
        if len(body) > _MAX_BODY:
            raise Unstorable(f"call {change.id} has {len(body)} bytes of events in one unit; Redis takes {_MAX_BODY}.")
        call, ended_at = change.call, change.ended_at
        asked = _Unit(
            call.id,
            call.thread,
            call.caller,
            call.tool,
            change.state,
            change.expect,
            change.fence,
            str(change.last),
            repr(float(call.created_at)),
            len(body),
            str(change.key),
            max(min(call.priority, _MAX_EXACT), -_MAX_EXACT),
            change.owned,
            change.claim,
            change.request,
        )
        if change.expect == 0 and call.created_at // 3600 != self._hour:
            asked.hour = str(int(call.created_at // 3600))
        if change.unit is not None:
            asked.first = str(change.expect + 1)
        if ended_at is not None:
            asked.ended, asked.stats = repr(ended_at), change.stats
        if change.artifacts:
            asked.artifacts = [name for name, _ in change.artifacts]
            asked.bytes += sum(size for _, size in change.artifacts)
        if change.queue:
            asked.queue = change.queue
        asked.waiting = change.waiting_for
        item = None
        if change.cache is not None:
            asked.cache, item = _use(change.cache, ended_at or call.created_at)
        return asked, item

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


def _each(answer: Any, requests: Sequence[_Request]) -> list[Any]:
    """The answer for each unit; the script may have given one for all."""
    return answer if isinstance(answer, list) else [answer] * len(requests)


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
