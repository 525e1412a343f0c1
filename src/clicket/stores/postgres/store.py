"""`postgresql://`: the journal, artifacts and cached results in one schema of a database that many processes share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from clicket.errors import ClicketError, StoreUnavailable
from clicket.model import Event
from clicket.model.figures import Figure
from clicket.model.ports import (
    Append,
    Audited,
    Backlog,
    Bus,
    CacheEntry,
    CacheStats,
    CallPlace,
    DocumentWrite,
    Done,
    Found,
    Keep,
    NoBus,
    OnHint,
    OnRemove,
    Owner,
    Presence,
    Query,
    ScanEnd,
    Stored,
    StoredDocument,
    Sweep,
    TakenTokens,
    ThreadCounts,
    ThreadName,
    ToolHealth,
)
from clicket.stores.bus import Carrier, Channel, bus_secret, space_of
from clicket.stores.postgres.address import Address
from clicket.stores.postgres.artifacts import Artifacts
from clicket.stores.postgres.cache import Cache
from clicket.stores.postgres.calls import Calls, storable
from clicket.stores.postgres.channel import NotifyCarrier
from clicket.stores.postgres.connection import Hopeless
from clicket.stores.postgres.membership import Membership
from clicket.stores.postgres.ownership import Ownership
from clicket.stores.postgres.pool import Pool, Server
from clicket.stores.postgres.queues import Queues
from clicket.stores.postgres.records import Records
from clicket.stores.postgres.retention import Retention
from clicket.stores.postgres.schema import prepare
from clicket.stores.postgres.writer import Appender
from clicket.stores.remote import GroupWriter, retry_while_lost

__all__ = ["PostgresStore"]


class PostgresStore:
    """`timeout`: seconds that a statement may take, and that an unreachable server is waited for. `pool`: connections beside
    the one that writes and the one that listens. `carrier`: what carries messages of the bus; None: the server does."""

    def __init__(
        self,
        url: str,
        *,
        durability: str = "process",
        timeout: float = 5.0,
        pool: int = 4,
        carrier: Carrier | None = None,
    ) -> None:
        self._server = Server(Address(url, timeout=timeout), timeout=timeout)
        self.url = self._server.name
        self.durability = durability
        self.on_hint: OnHint = _ignore_hint
        self.risks: list[str] = []
        """What the server's settings put at risk, as sentences; known once the store is open."""
        self.bus: Bus = NoBus()
        self._carrier = carrier
        self._pool_size = pool
        self._parts: _Parts | None = None

    async def open(self, owner: Owner) -> None:
        pool = Pool(self._server, self._pool_size)
        try:
            self.risks = await retry_while_lost(self.url, self._server.timeout, lambda: self._prepare(pool))
            membership = Membership(pool, owner)
            await membership.join()
        except BaseException:
            pool.close()
            raise
        own = NotifyCarrier(self._server)
        channel = Channel(self._carrier or own, self._tell)
        sends = own.channel if self._carrier is None else None
        parts = _Parts(self._server, pool, membership, channel, sends, self._tell)
        try:
            secret = await bus_secret(parts.records)
        except BaseException:
            pool.close()
            raise
        channel.open(space_of(secret), membership.id, secret)
        self._parts, self.bus = parts, channel

    def _tell(self, kind: str, key: int) -> None:
        self.on_hint(kind, key)  # which may be set at any time

    async def _prepare(self, pool: Pool) -> list[str]:
        try:
            connection = await self._server.connect()
        except Hopeless as lost:
            raise _no_entry(self.url, lost) from lost
        try:
            risks = await prepare(self._server, connection, self.durability)
        except BaseException:
            connection.close()
            raise
        pool.adopt(connection)
        return risks

    async def close(self) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.close()

    @property
    def _open(self) -> _Parts:
        if self._parts is None:
            raise StoreUnavailable(f"{self.url} is closed.", url=self.url)
        return self._parts

    def append(self, change: Append, done: Done) -> None:
        if self._parts is None:
            done(change, StoreUnavailable(f"{self.url} is closed.", url=self.url))
        else:
            self._parts.writer.append(change, done)

    # Reading.

    async def load(self, id: str, thread: str | None = None, caller: str | None = None) -> list[Stored]:
        return await self._open.calls.load(id, thread, caller)

    async def events(self, key: int, call_id: str, after: int) -> list[Event]:
        return await self._open.calls.events(key, call_id, after, self._open.membership.id)

    async def history(self, query: Query) -> list[Stored]:
        return await self._open.calls.history(query)

    async def scan_end(self, query: Query, calls: int) -> ScanEnd | None:
        return await self._open.calls.scan_end(query, calls)

    async def places(self, before: int | None, limit: int) -> list[CallPlace]:
        return await self._open.calls.places(before, limit)

    async def thread_counts(self, threads: Sequence[ThreadName], limit: int) -> list[ThreadCounts]:
        return await self._open.calls.thread_counts(threads, limit)

    async def news(self, known: Mapping[int, tuple[str, int]]) -> dict[int, list[Event]]:
        return await self._open.calls.news(known, self._open.membership.id)

    # Ownership.

    async def renew(self) -> None:
        parts = self._open
        await parts.writer.erase_uncertain()
        await parts.pool.patiently(parts.membership.renew)

    async def owners(self) -> list[Presence]:
        return await self._open.ownership.owners()

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        return await self._open.ownership.claim_orphans(tools, limit)

    async def claim_waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        parts = self._open
        if tools:
            parts.appender.warm_up()  # what is claimed will be started
        return await parts.ownership.claim_waiting(tools, limit)

    async def claim(self, key: int) -> Stored | None:
        return await self._open.ownership.claim(key)

    async def owned(self) -> list[int]:
        return await self._open.ownership.owned()

    async def hand_back(self, keys: Sequence[int]) -> None:
        await self._open.ownership.hand_back(keys)

    async def signals(self) -> list[int]:
        return await self._open.ownership.signals()

    async def hold(self, name: str, count: int, capacity: int) -> bool:
        return await self._open.ownership.hold(name, count, capacity)

    async def take(self, name: str, rate: float, burst: int, count: int) -> TakenTokens:
        return await self._open.queues.take(name, rate, burst, count)

    async def backlog(self) -> list[Backlog]:
        return await self._open.queues.backlog()

    # Artifacts.

    async def put_artifact(self, name: str, chunks: Sequence[bytes], *, keep_until: float | None = None) -> None:
        await self._open.artifacts.put(name, chunks, keep_until)

    async def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        return await self._open.artifacts.read(name, start, end)

    # Cached results.

    def cache_get(self, key: str, now: float, found: Found) -> None:
        if self._parts is None:
            found(None, StoreUnavailable(f"{self.url} is closed.", url=self.url))
        else:
            self._parts.cache.get(key, now, found)

    async def cache_clear(self, tag: str | None) -> int:
        return await self._open.cache.clear(tag)

    async def cache_items(self, after: tuple[float, str], limit: int) -> list[CacheEntry]:
        return await self._open.cache.items(after, limit)

    async def cache_remove(self, keys: Sequence[str]) -> int:
        return await self._open.cache.remove(keys)

    async def cache_stats(self) -> CacheStats:
        return await self._open.cache.stats()

    async def cache_sweep(self, now: float, max_bytes: int, limit: int) -> Sweep:
        return await self._open.cache.sweep(now, max_bytes, limit)

    # Retention.

    async def sweep(self, keep: Keep, limit: int, *, dry: bool = False, on_remove: OnRemove | None = None) -> Sweep:
        parts = self._open
        if keep.health_since is not None and not dry:
            await parts.records.forget_health(keep.health_since)
        return await parts.retention.sweep(keep, limit, dry=dry, on_remove=on_remove)

    async def release(self, caller: str, thread: str) -> None:
        if storable(caller) and storable(thread):
            await self._open.retention.release(caller, thread)

    async def remove(self, keys: Sequence[int]) -> Sweep:
        return await self._open.retention.remove(keys)

    async def unpin(self, names: Sequence[str]) -> None:
        await self._open.pool.query("UPDATE pins SET until = 0 WHERE name = ANY ($1::text[])", list(names))

    async def size(self) -> int:
        sql = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
            WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'"""
        return int((await self._open.pool.query(sql))[0][0])

    # What is kept beside calls.

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        return await self._open.records.tool_health(caller, thread)

    def tool_health_now(self, caller: str, thread: str, tool: str | None = None) -> list[ToolHealth] | None:
        return None  # the server must be asked

    def health_stamp(self) -> int | None:
        return None

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        return await self._open.records.put_tool_health(caller, thread, health, expect)

    async def figures(self, caller: str | None = None) -> list[Figure]:
        return await self._open.records.figures(caller)

    async def document(self, kind: str, key: str) -> StoredDocument | None:
        return await self._open.records.document(kind, key)

    def document_now(self, kind: str, key: str) -> tuple[StoredDocument | None] | None:
        return None

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        return await self._open.records.put_document(kind, key, body, expect)

    async def time(self) -> float:
        return await self._open.records.time()

    async def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        return await self._open.records.put_documents(writes)

    async def delete_document(self, kind: str, key: str) -> bool:
        return await self._open.records.delete_document(kind, key)

    async def documents(self, kind: str, *, after: str = "", limit: int = 1_000) -> list[StoredDocument]:
        return await self._open.records.documents(kind, after, limit)

    async def audit(self, bodies: Sequence[bytes]) -> None:
        await self._open.records.audit(bodies)

    async def audited(self, *, before: int | None = None, limit: int = 100) -> list[Audited]:
        return await self._open.records.audited(before, limit)


class _Parts:
    """All that an open store has."""

    def __init__(
        self,
        server: Server,
        pool: Pool,
        membership: Membership,
        bus: Channel,
        channel: Callable[[int], str] | None,
        on_hint: OnHint,
    ) -> None:
        self.pool = pool
        self.membership = membership
        self.bus = bus
        self.calls = Calls(pool)
        self.ownership = Ownership(pool, membership, self.calls, bus, on_hint)
        self.appender = Appender(server, membership, bus, channel, self.ownership.look_later)
        self.writer = GroupWriter(server.name, self.appender, patience=server.timeout)
        self.queues = Queues(pool)
        self.artifacts = Artifacts(pool, membership)
        self.cache = Cache(pool, membership)
        self.retention = Retention(pool, self.calls.of_keys)
        self.records = Records(pool, membership, bus)

    async def close(self) -> None:
        try:
            await self.writer.drain()
            await self.cache.drain()
            with contextlib.suppress(ClicketError):
                await self.ownership.sign_off()
        finally:
            self.ownership.close()
            await self.bus.close()
            self.appender.close()
            self.pool.close()


def _ignore_hint(kind: str, key: int) -> None:
    """The default: no engine is attached."""


def _no_entry(url: str, lost: Hopeless) -> StoreUnavailable:
    text = str(lost)
    if "database" in text and "does not exist" in text:
        advice = "Create it first (createdb), or name another."
    elif "password" in text or "authentication" in text or "role" in text:
        advice = "Check user and password in the URL, in PGPASSWORD or in ~/.pgpass."
    else:
        advice = "Check what the server's pg_hba.conf lets in, and the TLS options of the URL."
    return StoreUnavailable(f"{url} accepts no connection: {text}. {advice}", url=url)
