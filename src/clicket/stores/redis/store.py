"""`redis://`: the journal in a Redis server. Streams hold events, every change is a script, and nothing is ever scanned.

All keys begin with `{prefix}:`; the scripts say which there are. Keys of ended calls and of cached results also expire by
themselves, some time after a sweep should have come by.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis.exceptions import ResponseError

from clicket import system
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
    Unstorable,
)
from clicket.stores.bus import Carrier, Channel, bus_secret, space_of
from clicket.stores.redis import retention, thread_list
from clicket.stores.redis.address import address
from clicket.stores.redis.artifacts import Artifacts
from clicket.stores.redis.carrier import PubSubCarrier
from clicket.stores.redis.claims import Claims
from clicket.stores.redis.connection import Connection, refusal
from clicket.stores.redis.dead_owners import DeadOwners
from clicket.stores.redis.persistence import assess
from clicket.stores.redis.queues import Queues
from clicket.stores.redis.reads import Reads, given
from clicket.stores.redis.records import Records
from clicket.stores.redis.rows import cache_entry, cache_item
from clicket.stores.redis.script_client import ScriptClient
from clicket.stores.redis.scripts import NAMES, script
from clicket.stores.redis.writer import Units
from clicket.stores.remote import GroupWriter, Lost, retry_while_lost
from clicket.system.bridge import ThreadPool

__all__ = ["RedisStore"]

logger = logging.getLogger("clicket.stores.redis")

VERSION = 1
_GRACE = 7 * 24 * 3600.0
"""Seconds that an ended call's keys stay beyond retention, for the sweep to find them."""
_STEP = 100
_NEWEST = 2**53
_ROW = 2_000
"""About what a call takes in the server's memory beside its events."""


class _Open:
    """What an open store is made of."""

    def __init__(
        self,
        client: ScriptClient,
        connection: Connection,
        dead_owners: DeadOwners,
        bus: Channel,
        channel: Callable[[int], bytes] | None,
        *,
        keep: int | None,
    ) -> None:
        self.client = client
        self.connection = connection
        self.dead_owners = dead_owners
        units = Units(client, connection, bus, channel, keep=keep)
        self.writer = GroupWriter(client.url, units, patience=client.timeout)
        self.bus = bus
        self.reads = Reads(client)
        self.claims = Claims(client, dead_owners, bus)
        self.queues = Queues(client)
        self.thread_pool = ThreadPool(1, "clicket-redis-files")
        self.artifacts = Artifacts(client, self.thread_pool)
        self.records = Records(client, bus)


class RedisStore:
    """`durability`: "process" promises what the server's settings promise, and `risks` says what that is; "power" refuses a
    server that does not write each command to its disk. `retention`: seconds after which ended calls may expire, or None.
    `carrier`: what carries messages of the bus; None: the server does."""

    def __init__(
        self,
        url: str,
        *,
        durability: str = "process",
        timeout: float = 5.0,
        prefix: str = "clicket",
        retention: float | None = 86400.0,
        carrier: Carrier | None = None,
    ) -> None:
        self._address = address(url, prefix, timeout)
        self.url = self._address.url
        self.durability = durability
        self.risks: list[str] = []
        self.on_hint: OnHint = _ignore_hint
        self.bus: Bus = NoBus()
        self._carrier = carrier
        self._timeout = timeout
        self._keep = None if retention is None else int((retention + _GRACE) * 1000)
        self._parts: _Open | None = None
        self._lookups: set[asyncio.Task[None]] = set()

    async def open(self, owner: Owner) -> None:
        client = ScriptClient(self._address, owner, self._timeout)
        connection = Connection(self._address, self._timeout, self._on_connect)
        try:
            await self._connect(connection)
            before = system.monotonic()
            arguments = {
                "version": VERSION,
                "store": system.random_hex(16),
                "ticket": system.random_hex(16),
                "owner": client.owner,
                "generation": 1,
            }
            # With its script: the server may have been restarted since it was given all of them.
            commands = [script("open").load, client.command("open", arguments)]
            response = await retry_while_lost(
                self.url, self._timeout, lambda: _last(client, connection.execute(commands))
            )
            started = self._accepted(client, response)
            own = PubSubCarrier(self._address, self._timeout)
            channel = Channel(self._carrier or own, self._on_hint)
            publishes = own.channel if self._carrier is None else None
            dead_owners = DeadOwners(client, started, before)
            parts = _Open(client, connection, dead_owners, channel, publishes, keep=self._keep)
            secret = await bus_secret(parts.records)
        except BaseException:
            await connection.drop()
            raise
        channel.open(space_of(secret), client.me, secret)
        self._parts, self.bus = parts, channel

    async def _connect(self, connection: Connection) -> None:
        """Fail at once if the server cannot be reached: the caller decides whether to try again. Wait for a server that is loading its
        data."""

        async def load_scripts() -> None:
            try:
                answers = await connection.execute([script(name).load for name in NAMES])
            except Lost as lost:
                if "loading" in str(lost).lower():
                    raise
                raise StoreUnavailable(
                    f"{self.url} cannot be reached: {lost}. Start the server, or look at the URL of the store.",
                    transient=True,
                    url=self.url,
                ) from lost
            for answer in answers:
                if isinstance(answer, ResponseError):
                    raise refusal(self.url, answer)

        await retry_while_lost(self.url, self._timeout, load_scripts)

    async def _on_connect(self, connection: Connection) -> None:
        """Settings are looked at with each new connection: a server may come back with others."""
        risks = await assess(connection, self.url, self.durability)
        if risks != self.risks:
            self.risks = risks
            for risk in risks:
                logger.warning("%s: %s", self.url, risk)

    def _accepted(self, client: ScriptClient, response: list[bytes]) -> float:
        """Keep the store's mark and our owner id; returns the server's time. Refuses a foreign store, or one of another version."""
        texts = [text.decode(errors="replace") for text in response]
        if texts[0] == "foreign":
            raise StoreUnavailable(
                f"{self.url}: {texts[1]!r} is there and is not clicket's, or its store lost its mark. It was left untouched: "
                "choose another prefix (redis://…?prefix=NAME) or another database.",
                url=self.url,
            )
        if texts[0] == "version":
            raise StoreUnavailable(
                f"{self.url} was written by another version of clicket (schema {texts[1]}, this one knows {VERSION}). It was left "
                "untouched: open it with the clicket that wrote it, or choose another prefix (redis://…?prefix=NAME).",
                url=self.url,
            )
        client.store, client.me = texts[1], int(texts[2])
        return float(texts[3])

    def _on_hint(self, kind: str, key: int) -> None:
        self.on_hint(kind, key)  # the engine sets it after the store was made

    async def close(self) -> None:
        parts = self._parts
        if parts is None:
            return
        await parts.writer.drain()
        self._parts = None
        client = parts.client
        with contextlib.suppress(ClicketError):
            await parts.writer.erase_uncertain()  # or it would be handed back, and run
            while await client.write("hand_back", {}):
                pass
            await client.write("sign_off", {})
            parts.bus.post("work", 0)
            parts.bus.post("slot", 0)
        await parts.writer.drain()
        if self._lookups:
            await asyncio.wait(self._lookups)
        await parts.bus.close()
        await parts.connection.drop()
        await client.pool.close()
        parts.thread_pool.close()

    def _ready(self) -> _Open:
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
        return await self._ready().reads.load(id, thread, caller)

    async def events(self, key: int, call_id: str, after: int) -> list[Event]:
        return await self._ready().reads.events(key, call_id, after)

    async def news(self, known: Mapping[int, tuple[str, int]]) -> dict[int, list[Event]]:
        return await self._ready().reads.news(known)

    async def history(self, query: Query) -> list[Stored]:
        return await self._ready().reads.history(query)

    async def scan_end(self, query: Query, calls: int) -> ScanEnd | None:
        return await self._ready().reads.scan_end(query, calls)

    async def places(self, before: int | None, limit: int) -> list[CallPlace]:
        return await thread_list.places(self._ready().client, before, limit)

    async def thread_counts(self, threads: Sequence[ThreadName], limit: int) -> list[ThreadCounts]:
        return await thread_list.thread_counts(self._ready().client, threads, limit)

    # Owning.

    async def renew(self) -> None:
        if self._parts is not None:
            await self._parts.client.write("renew", {"owner": self._parts.client.owner})
            await self._parts.writer.erase_uncertain()

    async def owners(self) -> list[Presence]:
        return await self._ready().dead_owners.presences()

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        return await self._ready().claims.orphans(tools, limit)

    async def claim_waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        return await self._ready().claims.waiting(tools, limit)

    async def claim(self, key: int) -> Stored | None:
        return await self._ready().claims.one(key)

    async def owned(self) -> list[int]:
        client = self._ready().client
        return [int(key) for key in await client.read("keys", {"me": client.me})]

    async def hand_back(self, keys: Sequence[int]) -> None:
        client = self._ready().client
        for at in range(0, len(keys), _STEP):
            await client.write("hand_back", {"keys": list(keys[at : at + _STEP])})
        if keys:
            self.bus.post("work", keys[0])

    async def signals(self) -> list[int]:
        if self._parts is None:
            return []
        client = self._parts.client
        return sorted(int(key) for key in await client.read("keys", {"me": client.me, "signals": True}))

    async def hold(self, name: str, count: int, capacity: int) -> bool:
        answer = await self._ready().client.write("hold", {"name": name, "count": count, "capacity": capacity})
        if answer == 2:
            self.bus.post("slot", 0)
        return bool(answer)

    async def take(self, name: str, rate: float, burst: int, count: int) -> TakenTokens:
        return await self._ready().queues.take(name, rate, burst, count)

    async def backlog(self) -> list[Backlog]:
        return await self._ready().queues.backlog()

    # Artifacts.

    async def put_artifact(self, name: str, chunks: Sequence[bytes], *, keep_until: float | None = None) -> None:
        await self._ready().artifacts.put(name, chunks, keep_until)

    async def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        return await self._ready().artifacts.read(name, start, end)

    # Cached results.

    def cache_get(self, key: str, now: float, found: Found) -> None:
        task = asyncio.get_running_loop().create_task(self._look_up(key, now, found))
        self._lookups.add(task)
        task.add_done_callback(self._lookups.discard)

    async def _look_up(self, key: str, now: float, found: Found) -> None:
        try:
            item = cache_item(key, await self._ready().client.read("cache_get", {"key": key}))
        except ClicketError as error:
            found(None, error)
        else:
            found(item if item is not None and item.is_fresh(now) else None, None)

    async def cache_clear(self, tag: str | None) -> int:
        client = self._ready().client
        total = 0
        more = 1
        while more:
            count, more = await client.write("cache_clear", given({"tag": tag}))
            total += count
        return total

    async def cache_items(self, after: tuple[float, str], limit: int) -> list[CacheEntry]:
        found: list[CacheEntry] = []
        expires = repr(float(after[0]))
        key = after[1]
        while len(found) < limit:  # rows that cannot be read make room for others
            ask = {"expires": expires, "key": key, "limit": limit - len(found)}
            rows = await self._ready().client.read("cache_items", ask)
            found += [entry for entry in map(cache_entry, rows) if entry is not None]
            if not rows:
                break
            expires = rows[-1][3].decode()
            key = rows[-1][0].decode(errors="replace")
        return found

    async def cache_remove(self, keys: Sequence[str]) -> int:
        return int(await self._ready().client.write("cache_remove", {"keys": list(keys)})) if keys else 0

    async def cache_stats(self) -> CacheStats:
        totals = await retention.totals(self._ready().client)
        return CacheStats(
            items=totals["items"],
            bytes=totals["cache_bytes"],
            hits=totals["hits"],
            misses=totals["misses"],
            evictions=totals["evictions"],
        )

    async def cache_sweep(self, now: float, max_bytes: int, limit: int) -> Sweep:
        arguments = {"now": repr(now), "max_bytes": min(max_bytes, _NEWEST), "limit": limit}
        count, size = await self._ready().client.write("cache_sweep", arguments)
        return Sweep(calls=count, bytes=size, more=count == limit)

    # Retention.

    async def sweep(self, keep: Keep, limit: int, *, dry: bool = False, on_remove: OnRemove | None = None) -> Sweep:
        client, records = self._ready().client, self._ready().records
        if keep.health_since is not None and not dry:
            await records.forget_health(keep.health_since)
        if dry:
            return await retention.count_over(client, keep)
        if on_remove is None:
            return await retention.sweep(client, keep, limit)
        return await retention.announced_sweep(client, keep, limit, on_remove)

    async def release(self, caller: str, thread: str) -> None:
        with contextlib.suppress(Unstorable):  # text that cannot be written was never stored
            await retention.release(self._ready().client, caller, thread, self._keep)

    async def remove(self, keys: Sequence[int]) -> Sweep:
        return await retention.remove(self._ready().client, keys)

    async def unpin(self, names: Sequence[str]) -> None:
        await self._ready().client.write("unpin", {"names": list(names)})

    # What is kept beside calls.

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        return await self._ready().records.tool_health(caller, thread)

    def tool_health_now(self, caller: str, thread: str, tool: str | None = None) -> list[ToolHealth] | None:
        return None  # the server must be asked

    def health_stamp(self) -> int | None:
        return None

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        return await self._ready().records.put_tool_health(caller, thread, health, expect)

    async def figures(self, caller: str | None = None) -> list[Figure]:
        return await self._ready().records.figures(caller)

    async def document(self, kind: str, key: str) -> StoredDocument | None:
        return await self._ready().records.document(kind, key)

    def document_now(self, kind: str, key: str) -> tuple[StoredDocument | None] | None:
        return None

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        return await self._ready().records.put_document(kind, key, body, expect)

    async def time(self) -> float:
        return await self._ready().records.time()

    async def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        return await self._ready().records.put_documents(writes)

    async def delete_document(self, kind: str, key: str) -> bool:
        return await self._ready().records.delete_document(kind, key)

    async def documents(self, kind: str, *, after: str = "", limit: int = 1_000) -> list[StoredDocument]:
        return await self._ready().records.documents(kind, after, limit)

    async def audit(self, bodies: Sequence[bytes]) -> None:
        await self._ready().records.audit(bodies)

    async def audited(self, *, before: int | None = None, limit: int = 100) -> list[Audited]:
        return await self._ready().records.audited(before, limit)

    async def size(self) -> int:
        totals = await retention.totals(self._ready().client)
        return int(totals["ended_bytes"] + totals["artifact_bytes"] + totals["cache_bytes"] + _ROW * totals["calls"])


async def _last(client: ScriptClient, asked: Any) -> Any:
    *_, answer = await asked
    return client.checked(answer)


def _ignore_hint(kind: str, key: int) -> None:
    """The default: no engine is attached."""
