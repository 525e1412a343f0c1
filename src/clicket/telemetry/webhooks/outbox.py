"""Notices on record: small documents of the store, one for each fact and endpoint.

A notice lies under one of two kinds: `notice.pending` until it is delivered or given up, `notice.ended` then. Its id follows from
the fact and the endpoint, so a fact that is recorded twice is one notice. A process that sends a notice claims it first, by writing
over the version that it knows; a claim ends by itself after `LEASE` seconds. An ended notice is written under its new kind before the
old one is removed: a process that dies between the two leaves a notice that is sent again under the same id.
"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import msgspec

from clicket.errors import Conflict, NotFound, UsageError
from clicket.model.codec import canonical, encode
from clicket.model.notice import NOTICE_TYPES, DeliveryAttempt, Notice, NoticeFigures, NoticePage, NoticeState
from clicket.model.ports import Records, StoredDocument
from clicket.safety.vault import hide
from clicket.telemetry.webhooks.config import Endpoint
from clicket.telemetry.webhooks.facts import Fact, Question

__all__ = ["LEASE", "Claimed", "Health", "Outbox", "StoredNotice"]

PENDING, ENDED = "notice.pending", "notice.ended"
LEASE = 120.0
"""Seconds for which a process has a notice to itself: longer than an attempt takes, and than clocks of hosts differ."""
MAX_ATTEMPTS_KEPT = 10
_MAX_ARGUMENTS = 16 * 1024
_MAX_DATA = 64 * 1024
_LAST_MS = (1 << 48) - 1
PAGE = 500
"""Documents that are read at once."""
_MAX_COUNTED = 20_000
_TRIES = 10


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """For a change of a tool's status: recorded before the status is, and sent once the status is on record."""

    caller: str
    thread: str
    tool: str
    after: str


class StoredNotice(msgspec.Struct, frozen=True, kw_only=True):
    notice: Notice
    claimed_by: str = ""
    question: Question | None = None
    """Where its approval link leads. The link itself is made when it is sent: it is a secret."""
    link_until: float | None = None
    held: Health | None = None


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A notice that this process may send. `version`: of its document."""

    stored: StoredNotice
    version: int


class Outbox:
    """`me`: a name of this process. `links`: notices of approvals have links to the approver page, which work for `link_seconds`.
    `retention`: seconds for which ended notices are kept.

    `ready(endpoint)`: may this process send one more notice to it now? Then a new notice is claimed as it is recorded, and
    `send(claimed)` is called. Both are set by `Delivery`.
    """

    def __init__(
        self,
        store: Records,
        now: Callable[[], float],
        endpoints: Sequence[Endpoint] = (),
        *,
        me: str = "",
        links: bool = False,
        link_seconds: float = 24 * 3600.0,
        retention: float = 7 * 24 * 3600.0,
    ) -> None:
        self._store = store
        self._now = now
        self.endpoints: dict[str, Endpoint] = {endpoint.name: endpoint for endpoint in endpoints}
        self.wanted: frozenset[str] = frozenset().union(*(endpoint.events for endpoint in endpoints))
        """The types that an endpoint wants."""
        self._me = me
        self._links = links
        self._link_seconds = link_seconds
        self._retention = retention
        self.ready: Callable[[str], bool] = lambda endpoint: False
        self.send: Callable[[Claimed], None] = lambda claimed: None
        self.delivered = 0
        self.failed = 0
        self._known: dict[str, None] = {}

    # Recording.

    async def emit(self, kind: str, data: dict[str, Any], *, key: Sequence[Any], at: float) -> None:
        """Record a fact for every endpoint that wants it; it is durable when this returns. For any part of clicket.

        `kind`: one of `NOTICE_TYPES`. `key` and `at` (seconds since the epoch) name the fact: a second one with the same is the
        same notice, so this may be repeated after a crash. `data` is JSON; it is masked here. No endpoint wants it: nothing is done.
        """
        if kind not in NOTICE_TYPES:
            raise UsageError(f"there is no notice {kind!r}. Known: {', '.join(NOTICE_TYPES)}.")
        if kind in self.wanted:
            await self.record(Fact(type=kind, key=list(key), at=at, data=data), late=True)

    async def record(self, fact: Fact, *, late: bool = False) -> None:
        """`late`: it may be on record already, also as delivered."""
        for endpoint in self.endpoints.values():
            if fact.type in endpoint.events:
                await self._record(fact, endpoint, late)

    async def _record(self, fact: Fact, endpoint: Endpoint, late: bool, held: Health | None = None) -> None:
        id = _id(fact, endpoint.name)
        if id in self._known or (late and await self._store.document(ENDED, id) is not None):
            return
        now = self._now()
        mine = held is not None or self.ready(endpoint.name)
        linked = self._links and endpoint.link and fact.question is not None
        until = fact.at + self._link_seconds
        if fact.question is not None and fact.question.deadline is not None:
            until = min(until, fact.question.deadline)
        stored = StoredNotice(
            notice=Notice(
                id=id,
                type=fact.type,  # type: ignore[arg-type]  # checked
                endpoint=endpoint.name,
                created_at=fact.at,
                next_at=now + LEASE if mine else now,
                payload=_payload(fact, endpoint),
            ),
            claimed_by=self._me if mine else "",
            question=fact.question if linked else None,
            link_until=until if linked else None,
            held=held,
        )
        made = await self._store.put_document(PENDING, id, encode(stored), 0)
        self._remember(id)
        if made and mine and held is None:
            self.send(Claimed(stored=stored, version=1))

    def _remember(self, id: str) -> None:
        self._known[id] = None
        if len(self._known) > _MAX_COUNTED:
            self._known.pop(next(iter(self._known)))

    # A change of a tool's status: the notice is on record before the status is.

    async def hold(self, fact: Fact, health: Health) -> None:
        """Record notices that are sent only once the status is on record: `release` or `drop` them."""
        for endpoint in self.endpoints.values():
            if fact.type in endpoint.events:
                await self._record(fact, endpoint, True, health)

    async def release(self, fact: Fact) -> None:
        """The status is on record: send them."""
        for endpoint in self.endpoints.values():
            if fact.type not in endpoint.events:
                continue
            id = _id(fact, endpoint.name)
            document = await self._store.document(PENDING, id)
            stored = None if document is None else _read(document)
            if document is None:  # this process paused for longer than the claim, and another one dropped the notice
                self._known.pop(id, None)
                await self._record(fact, endpoint, True)
            elif stored is not None and stored.held is not None:
                await self._release(stored, document.version)

    async def _release(self, stored: StoredNotice, version: int) -> None:
        now = self._now()
        mine = self.ready(stored.notice.endpoint)
        notice = msgspec.structs.replace(stored.notice, next_at=now + LEASE if mine else now)
        free = msgspec.structs.replace(stored, notice=notice, held=None, claimed_by=self._me if mine else "")
        if await self._store.put_document(PENDING, notice.id, encode(free), version) and mine:
            self.send(Claimed(stored=free, version=version + 1))

    async def drop(self, fact: Fact) -> None:
        """The status was not written: there is nothing to send."""
        for endpoint in self.endpoints.values():
            if fact.type in endpoint.events:
                await self._drop(_id(fact, endpoint.name))

    async def _drop(self, id: str) -> None:
        self._known.pop(id, None)
        await self._store.delete_document(PENDING, id)

    # Claiming and ending.

    async def claim(self, document: StoredDocument, confirm: Callable[[Health], Awaitable[bool]]) -> Claimed | None:
        """Claim a notice that is due. None: it is not, or another process has it. `confirm`: is the status of a held notice on
        record? Its process died before it said so."""
        stored = _read(document)
        now = self._now()
        if stored is None or (stored.notice.next_at or 0.0) > now:
            return None
        if stored.held is not None and not await confirm(stored.held):
            await self._drop(document.key)
            return None
        notice = msgspec.structs.replace(stored.notice, next_at=now + LEASE)
        mine = msgspec.structs.replace(stored, notice=notice, claimed_by=self._me, held=None)
        if not await self._store.put_document(PENDING, notice.id, encode(mine), document.version):
            return None
        return Claimed(stored=mine, version=document.version + 1)

    async def renewed(self, claimed: Claimed, seconds: float) -> Claimed | None:
        """The claim, for at least this many seconds. None: it ended, and another process has the notice."""
        notice = claimed.stored.notice
        now = self._now()
        if (notice.next_at or 0.0) - now >= seconds:
            return claimed
        stored = msgspec.structs.replace(claimed.stored, notice=msgspec.structs.replace(notice, next_at=now + LEASE))
        if not await self._store.put_document(PENDING, notice.id, encode(stored), claimed.version):
            return None
        return Claimed(stored=stored, version=claimed.version + 1)

    async def unclaim(self, claimed: Claimed, next_at: float) -> None:
        """Give a notice back that was not sent: any process may send it from `next_at` on."""
        notice = msgspec.structs.replace(claimed.stored.notice, next_at=next_at)
        stored = msgspec.structs.replace(claimed.stored, notice=notice, claimed_by="")
        await self._store.put_document(PENDING, notice.id, encode(stored), claimed.version)

    async def postpone(self, claimed: Claimed, attempt: DeliveryAttempt, next_at: float) -> None:
        """An attempt failed; the next one is at `next_at`. If another process has the notice by now, it stays as it is."""
        notice = _after(claimed.stored.notice, attempt, "pending", next_at)
        stored = msgspec.structs.replace(claimed.stored, notice=notice, claimed_by="")
        await self._store.put_document(PENDING, notice.id, encode(stored), claimed.version)

    async def end(self, claimed: Claimed, attempt: DeliveryAttempt, state: NoticeState) -> None:
        """The notice was delivered, or is given up."""
        notice = msgspec.structs.replace(_after(claimed.stored.notice, attempt, state, None), ended_at=self._now())
        stored = msgspec.structs.replace(claimed.stored, notice=notice, claimed_by="")
        await self._store.put_document(ENDED, notice.id, encode(stored), None)
        await self._store.delete_document(PENDING, notice.id)
        if state == "delivered":
            self.delivered += 1
        else:
            self.failed += 1

    async def pending(self, after: str, limit: int = PAGE) -> list[StoredDocument]:
        return await self._store.documents(PENDING, after=after, limit=limit)

    # Reading and replaying.

    async def get(self, id: str) -> Notice:
        """`NotFound`: there is none, or it is older than `notice_retention`."""
        for kind in (PENDING, ENDED):
            document = await self._store.document(kind, id) if _is_id(id) else None
            stored = None if document is None else _read(document)
            if stored is not None:
                return stored.notice
        raise NotFound(f"there is no notice {id!r:.200}. `clicket notices` lists them.")

    async def page(
        self, *, state: str | None = None, type: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> NoticePage:
        """The newest first, without payloads. `cursor`: that of the page before."""
        kinds = {None: (PENDING, ENDED), "pending": (PENDING,), "delivered": (ENDED,), "failed": (ENDED,)}.get(state)
        if kinds is None:
            raise UsageError(f"state must be pending, delivered or failed, not {state!r:.100}.")
        if type is not None and type not in NOTICE_TYPES:
            raise UsageError(f"there is no notice {type!r:.100}. Known: {', '.join(NOTICE_TYPES)}.")
        if builtins.type(limit) is not int or not 1 <= limit <= 1_000:
            raise UsageError(f"limit must be a number from 1 to 1,000, not {limit!r}.")
        after = cursor or ""
        found: list[Notice] = []
        while len(found) <= limit:
            pages = [await self._store.documents(kind, after=after, limit=PAGE) for kind in kinds]
            # Full pages of the two kinds end at different keys. Beyond the nearer end, one of them was not read.
            end = min((page[-1].key for page in pages if len(page) == PAGE), default="")
            some = {each.key: each for page in reversed(pages) for each in page if not end or each.key <= end}
            for key in sorted(some):
                stored = _read(some[key])
                if stored is not None and _fits(stored.notice, state, type):
                    found.append(msgspec.structs.replace(stored.notice, payload=None))
            if not end:
                break
            after = end
        return NoticePage(items=found[:limit], cursor=found[limit - 1].id if len(found) > limit else None)

    async def replay(self, id: str) -> Notice:
        """Send a notice again, under the same id, with all its attempts. `Conflict`: it is being sent, or waits to be."""
        document = await self._store.document(ENDED, id) if _is_id(id) else None
        stored = None if document is None else _read(document)
        if stored is None:
            await self.get(id)
            raise Conflict(f"notice {id!r} was not given up: it is sent when its time comes.")
        now = self._now()
        notice = stored.notice
        mine = self.ready(notice.endpoint)
        notice = msgspec.structs.replace(
            notice,
            state="pending",
            tries=0,
            replays=notice.replays + 1,
            ended_at=None,
            next_at=now + LEASE if mine else now,
        )
        again = msgspec.structs.replace(stored, notice=notice, claimed_by=self._me if mine else "")
        if not await self._store.put_document(PENDING, id, encode(again), 0):
            raise Conflict(f"notice {id!r} is being replayed already.")
        if mine:
            self.send(Claimed(stored=again, version=1))
        return notice

    async def figures(self) -> NoticeFigures:
        after, pending, oldest = "", 0, None
        while pending < _MAX_COUNTED:
            page = await self.pending(after)
            pending += len(page)
            oldest = page[-1] if page else oldest
            if len(page) < PAGE:
                break
            after = page[-1].key
        age = 0.0 if oldest is None else max(self._now() - _time_in(oldest.key), 0.0)
        return NoticeFigures(delivered=self.delivered, failed=self.failed, pending=pending, oldest_seconds=age)

    async def sweep(self) -> int:
        """Remove ended notices that are older than the retention; how many."""
        removed = 0
        after = _prefix(self._now() - self._retention)
        while True:
            page = await self._store.documents(ENDED, after=after, limit=PAGE)
            for document in page:
                removed += await self._store.delete_document(ENDED, document.key)
            if len(page) < PAGE:
                return removed


def _after(notice: Notice, attempt: DeliveryAttempt, state: NoticeState, next_at: float | None) -> Notice:
    attempts = [*notice.attempts, attempt][-MAX_ATTEMPTS_KEPT:]
    return msgspec.structs.replace(notice, state=state, tries=notice.tries + 1, next_at=next_at, attempts=attempts)


def _fits(notice: Notice, state: str | None, type: str | None) -> bool:
    return (state is None or notice.state == state) and (type is None or notice.type == type)


def _read(document: StoredDocument) -> StoredNotice | None:
    """None: it was damaged, or another version of clicket wrote it in another form."""
    try:
        return msgspec.json.decode(document.body, type=StoredNotice)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _prefix(at: float) -> str:
    """Ids of newer notices come before those of older ones, so that lists begin with the newest."""
    return f"msg_{_LAST_MS - min(max(int(at * 1000), 0), _LAST_MS):012x}"


def _time_in(id: str) -> float:
    return (_LAST_MS - int(id[4:16], 16)) / 1000


def _id(fact: Fact, endpoint: str) -> str:
    name = blake2b(canonical([endpoint, fact.type, fact.key]), digest_size=10).hexdigest()
    return f"{_prefix(fact.at)}{name}"


def _is_id(id: str) -> bool:
    return len(id) == 36 and id.startswith("msg_") and all(each in "0123456789abcdef" for each in id[4:])


def _payload(fact: Fact, endpoint: Endpoint) -> dict[str, Any]:
    data = dict(fact.data)
    if "arguments" in endpoint.include and fact.arguments is not None:
        size = len(encode(fact.arguments))
        fits = size <= _MAX_ARGUMENTS
        data["arguments"] = fact.arguments if fits else {"omitted": True, "size": size}
    data = hide(data)
    if (size := len(encode(data))) > _MAX_DATA:
        data = {"omitted": True, "size": size}
    at = datetime.fromtimestamp(fact.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"type": fact.type, "timestamp": at, "data": data}
