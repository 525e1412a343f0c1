"""What befalls the disk of a seed: power loss, failed syncs and writes, a full disk, a lock that another program holds, a slow disk.

At a power loss every process dies, and the disk keeps what was synced and any part of the rest. What is left is compared with what was
durable and with what any reader could see before (`_compare`). With durability "power" that is the same. With "process" the newest commits
may be gone, of which the outside had seen something: it forgets just that (`_forget`), and everything else is judged as ever.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import apsw
import msgspec
from tests.crash.judge import Ack
from tests.simulation.disk import Armed, SimulatedDisk
from tests.simulation.places import SqlitePlace
from tests.simulation.world import WRITER

from clicket.engine.people.grants import GRANT
from clicket.model import Event, Record, fold
from clicket.model.grant import StoredGrant
from clicket.stores.sqlite import checkpoint, writer
from clicket.stores.sqlite.rows import select

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

__all__ = ["DiskFaults", "log_length"]

_KINDS = (
    "power loss", "power loss", "power loss", "failed sync", "failed sync", "failed write", "full disk", "locked file", "slow disk",
)  # fmt: skip
_PATIENCE = 5.0
"""Seconds for which a thread waits for the lock of the file."""
_PAGES = writer._CHECKPOINT_PAGES, checkpoint._LONG_LOG, checkpoint._SHORT_REST, writer._HUGE_LOG


def log_length(share: float = 1.0) -> None:
    """Copy SQLite's log back after this share of the pages after which the product does: a seed writes little."""
    names = (writer, "_CHECKPOINT_PAGES"), (checkpoint, "_LONG_LOG"), (checkpoint, "_SHORT_REST"), (writer, "_HUGE_LOG")
    for (module, name), pages in zip(names, _PAGES, strict=True):
        setattr(module, name, max(int(pages * share), 1))


class DiskFaults:
    """Of a cluster whose store is a SQLite file."""

    def __init__(self, cluster: Cluster, durability: str) -> None:
        world = cluster.world
        self._cluster, self._world = cluster, world
        chance = random.Random(world.seed * 13 + 5)
        self.place = SqlitePlace(durability, lambda folder: SimulatedDisk(folder, chance, world.loop.time))
        assert self.place.disk is not None
        self.disk = self.place.disk
        self.disk.lose_power, self.disk.pass_time = self.lose_power, world.loop.pass_time
        self._holder: apsw.Connection | None = None
        self._held_until = 0.0
        self.full: list[tuple[float, float]] = []
        """When the disk was full."""
        world.system.waits = self._waits
        world.system.uptime = lambda: 1e6 + world.loop.time()  # type: ignore[method-assign]  # longer than a seed
        log_length(chance.choice((0.02, 0.02, 0.1, 1.0)))

    def planned(self, storm: float) -> list[tuple[float, Callable[[], None]]]:
        chance = self._world.chance
        return [
            (chance.uniform(0.2, storm), self.strike)
            for _ in range(chance.randint(4, 8) if self._cluster.features.focus.disk else chance.randint(1, 4))
        ]

    def strike(self) -> None:
        """Something befalls the disk, now or at one of its next operations."""
        world, disk = self._world, self.disk
        chance, now = world.chance, world.now
        kind = chance.choice(self._cluster.features.focus.disk or _KINDS)
        world.tell("disk", kind)
        if kind == "power loss":
            self._end_power()
            return
        self._cluster.faults[kind] += 1
        until, times = now + chance.uniform(0.3, 5), chance.choice((1, 1, 2, 5, 1_000))
        files = chance.choice(("", "-wal", ".db"))
        if kind == "failed sync":
            if self.place.durability == "process":
                files = ".db"  # a log with a gap, and a power loss while it is copied, spoil the file (docs/guides/durability.md)
            until += 10 * (files == ".db")  # the database is synced by a checkpoint alone
            disk.armed.append(Armed("sync", apsw.SQLITE_IOERR_FSYNC, until, times, files))
        elif kind == "failed write":
            disk.armed.append(Armed("write", apsw.SQLITE_IOERR_WRITE, until, times, files))
        elif kind == "full disk":
            until = now + chance.uniform(0.3, 12)
            self.full.append((now, until))
            self._cluster.scene.may_lose_leases = True
            disk.armed.append(Armed("write", apsw.SQLITE_FULL, until, 1_000_000, grows=chance.random() < 0.5))
        elif kind == "locked file":
            self._lock(now + chance.choice((0.1, 2, 6, 12)) * chance.random(), reads=chance.random() < 0.3)
        else:
            disk.slow, self._cluster.is_slow = chance.choice((0.05, 0.2)), True

        if self._cluster.features.focus.disk and kind == "failed sync":  # the next process does not know of it
            member = chance.choice(self._cluster.members)
            world.loop.call_later(
                chance.uniform(0, 0.5), self._cluster.befall, "crash", member, chance, context=Context()
            )
        if chance.random() < 0.4:  # what was not written well shows only then
            world.loop.call_later(chance.uniform(0.2, 6), self._end_power, context=Context())

    def _end_power(self) -> None:
        chance, disk = self._world.chance, self.disk
        if not self._cluster.scene.is_storm:
            return
        if chance.random() < 0.3:
            self.lose_power()
        else:
            disk.power_ends_at = disk.operations + chance.choice((0, 1, 2, 3, 4, 5, 7, 10, 20, 50, 100))

    def calm(self) -> None:
        self.disk.armed, self.disk.power_ends_at, self.disk.slow = [], None, 0.0
        self.full = [(since, min(until, self._world.now)) for since, until in self.full]
        self._unlock()

    # A lock of another program, such as a backup.

    def _lock(self, until: float, *, reads: bool) -> None:
        if self._holder is not None:
            return
        self._holder = apsw.Connection(str(self.place.path), flags=apsw.SQLITE_OPEN_READWRITE, vfs="unix")
        self._holder.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._holder.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
        self._holder.execute("SELECT count(*) FROM calls").fetchall()
        self._held_until = until
        self._world.loop.call_at(until, self._end_lock, self._holder, context=Context())

    def _end_lock(self, holder: apsw.Connection) -> None:
        if self._holder is holder:
            self._unlock()

    def _unlock(self) -> None:
        if self._holder is not None:
            self._holder.close()
            self._holder = None

    def _waits(self, thread: str) -> float:
        """SQLite waits for the lock inside one function of a thread, which is one callback here: the function waits before it runs."""
        if self._holder is None or thread != WRITER or self._holder.txn_state("main") != apsw.SQLITE_TXN_WRITE:
            return 0.0
        rest = self._held_until - self._world.now
        if rest <= 0:
            self._unlock()
            return 0.0
        return min(rest + 0.001, _PATIENCE)

    # Power.

    def lose_power(self) -> None:
        """Every process dies at once, in the middle of a callback if the disk is at work."""
        cluster, world, place, disk = self._cluster, self._world, self.place, self.disk
        world.tell("world", "the power is lost")
        cluster.faults["power loss"] += 1
        seen = _content(place.path)
        safe = self._copied(disk.keep)
        for node in world.nodes:
            node.is_alive = False
        self._holder = None  # its file has no name any more
        disk.cut()
        left = self._copied(lambda target: shutil.copytree(place.folder, target))
        world.system.reboot()
        for text in _compare(safe, seen, left, place.durability):
            world.wrong("a power loss takes no more than it may", text)
        if place.durability == "process":
            _forget(cluster, seen, left)
            for node in world.nodes:
                node.is_forgotten = True
        world.loop.call_later(world.chance.uniform(0, 4), cluster.replace_the_dead, context=Context())

    def _copied(self, copy: Callable[[Path], object]) -> _Content:
        """What a copy of the files has: to open a file may change it."""
        target = self.place.folder.with_name("copy")
        copy(target)
        try:
            return _content(target / self.place.path.name)
        finally:
            shutil.rmtree(target)


class _Content(NamedTuple):
    problems: list[str]
    calls: dict[tuple[int, str], list[Event]]
    """By key and id. A call whose row is new after a power loss has another key, or other events."""
    schedules: int = 0
    revoked: frozenset[str] = frozenset()
    """Grants that are revoked."""


def _content(path: Path) -> _Content:
    if not path.exists():
        return _Content(["there is no file"], {})
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs="unix")
    try:
        connection.execute("BEGIN")
        problems = [str(text) for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
        rows = [] if problems else select(connection, "WHERE state <> 'swept'", ())
        problems += [f"call {row.id}: {row.damaged}" for row in rows if row.damaged]
        schedules = connection.execute("SELECT count(*) FROM documents WHERE kind = 'schedule'").get
        grants = connection.execute("SELECT body FROM documents WHERE kind = ?", (GRANT,))
        stored = [msgspec.json.decode(body, type=StoredGrant).grant for (body,) in grants]
        revoked = frozenset(grant.id for grant in stored if grant.revoked_at is not None)
    except apsw.Error as error:
        return _Content([repr(error)], {})
    finally:
        connection.close()
    return _Content(problems, {(row.key, row.id): row.events for row in rows}, schedules, revoked)


def _compare(safe: _Content, seen: _Content, left: _Content, durability: str) -> Iterator[str]:
    """What must be true of the files that a power loss has left.

    The database is sound, and every call has its events from the first one on, without a hole. What was synced is there (`safe`). With
    durability "power" everything is there that a reader could see before: it was synced before it could be seen. With "process" a call may
    be gone or end earlier than what was seen, but it is not another call. A commit that was under way or refused may be there.
    """
    yield from left.problems
    if left.problems:
        return
    for key, events in safe.calls.items():
        if left.calls.get(key, [])[: len(events)] != events:
            yield f"call {key[1]} had {len(events)} durable events, and now {_told(left, key)}"
    for key, events in seen.calls.items():
        now = left.calls.get(key, [])
        if durability == "power" and now[: len(events)] != events:
            yield f"call {key[1]} had {len(events)} events with durability power, and now {_told(left, key)}"
        elif now[: len(events)] != events[: len(now)]:
            yield f"call {key[1]} has other events than before"
    for key, events in left.calls.items():
        if [event.seq for event in events] != list(range(1, len(events) + 1)):
            yield f"call {key[1]} has the events {[event.seq for event in events]}"


def _told(left: _Content, key: tuple[int, str]) -> str:
    return f"it has {len(left.calls[key])}, or others" if key in left.calls else "there is no such call"


def _forget(cluster: Cluster, seen: _Content, left: _Content) -> None:
    """With durability "process" the newest commits may be lost, also acknowledged ones.

    Of each call that has lost events the outside forgets exactly what those events said: acknowledgements of its creation, outcome, cancels
    and decisions, and events that were seen; runs and effects of attempts whose start was lost, which may happen again; what another system
    was told, and what it said; the answer to a message whose turn had ended; that
    grants were revoked whose revocation was lost; that credentials were revoked; of messages that wait for a turn, that they were stored or
    taken back. All else is judged as if no power had been lost. Answers that were under way over HTTP do not arrive.
    """
    scene = cluster.scene
    for key, before in seen.calls.items():
        now = left.calls.get(key, [])
        if len(now) >= len(before):
            continue
        id, was = key[1], fold(before)
        cluster.world.tell("disk", f"{id} loses events {len(now) + 1} to {len(before)}")
        record = fold(now) if now else None
        started = {event.data["attempt"] for event in now if event.type == "attempt_started"}
        over = record is not None and record.ended_at is not None
        scene.acks[:] = [ack for ack in scene.acks if ack.id != id or _still_holds(ack, record)]
        scene.effects[:] = [effect for effect in scene.effects if effect.id != id or effect.attempt in started]
        scene.bodies[:] = [body for body in scene.bodies if body.id != id or body.attempt in started]
        if record is None or not record.cancel_requested:
            scene.cancelled.pop(id, None)
        if not over:
            scene.completed.pop(id, None)
            scene.webhooks[:] = [told for told in scene.webhooks if told[1:3] != (was.thread, id)]
            if was.tool.startswith("agent:"):
                for message in cluster.conversations.messages:
                    if isinstance(was.arguments, dict) and message.id == was.arguments.get("id"):
                        message.answers.clear()
    for token in cluster.holders.put_tokens:
        token.gone_at = None
    for grant in seen.revoked - left.revoked:
        scene.revoked.pop(grant, None)
    for sent in cluster.clerks.sent:
        sent.held_at = sent.taken_back = None
    if seen.schedules > left.schedules:
        scene.scheduled_at = None


def _still_holds(ack: Ack, record: Record | None) -> bool:
    """Does what is left say the same as this acknowledgement?"""
    if record is None:
        return False
    if ack.did == "result":
        return record.ended_at is not None
    if ack.did == "saw":
        return ack.seq <= len(record.events)
    if ack.did == "cancel":
        return not ack.took or record.cancel_requested
    if ack.did == "decide":
        return any(event.type == "approval_given" and event.data["by"] == ack.text for event in record.events)
    return True
