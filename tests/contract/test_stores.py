"""Every store fulfils `ports.store`: the public contract, run on each, and tests of files and processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit.lone_store import LoneStore
from tests.kit.mortal_store import MortalStore

from clicket.kernel import State
from clicket.ports import Append, Keep, OnRemove, Owner, Query, Stale, Store, Stored, StoredDocument, Sweep, ToolHealth
from clicket.stores.liveness import is_dead, this_process
from clicket.stores.memory import MemoryStore
from clicket.stores.sqlite import SqliteStore
from clicket.testing import Check, shared_store_contract, store_contract
from clicket.testing.store_kit import ALIVE, append, created, creation, ended, news, opened

LEASE = 3600.0
SQLITE = ["process", "power"]


@pytest.fixture(params=["memory", "alone", *SQLITE])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    if request.param == "memory":
        return MemoryStore
    if request.param == "alone":
        return partial(LoneStore, tmp_path / "calls.db")
    return partial(SqliteStore, tmp_path / "calls.db", durability=request.param)


@pytest.fixture(params=SQLITE)
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], MortalStore]:
    return partial(MortalStore, tmp_path / "calls.db", durability=request.param)


@pytest.mark.parametrize("check", store_contract, ids=lambda check: check.__name__)
async def test_store(check: Check, make: Callable[[], Store]) -> None:
    await check(make)


@pytest.mark.parametrize("check", shared_store_contract, ids=lambda check: check.__name__)
async def test_shared_store(check: Check, shared: Callable[[], Store]) -> None:
    await check(shared)


async def test_without_messages_no_append_claims_a_call(make: Callable[[], Store]) -> None:
    """Whatever its fence: a process that was offered the call by messages is not one of this store."""
    async with opened(make) as store:
        change = creation("a")
        change.owned = False
        assert await append(store, change) == [None]
        for fence in (1, 2):
            (error,) = await append(store, news(change, fence=fence, claim=True))
            assert isinstance(error, Stale)
        assert len(await store.claim_waiting(frozenset({"tool"}), 9)) == 1


# Tests of the contract itself: each broken store must fail it.


class _Forgetful(MemoryStore):
    """Accepts every append to a known call, whatever its number and fence."""

    def append(self, change: Append, done: Any) -> None:
        found = self._calls.get(change.key)
        if change.expect and found is not None:
            change.expect, change.fence = found.events[-1].seq, found.fence
        super().append(change, done)


class _Chatty(MemoryStore):
    """Answers twice."""

    def append(self, change: Append, done: Any) -> None:
        super().append(change, done)
        asyncio.get_running_loop().call_soon(done, change, None)


class _Backwards(MemoryStore):
    """Lists the oldest first."""

    async def history(self, query: Any) -> Any:
        return (await super().history(query))[::-1]


class _Sloppy(MemoryStore):
    """Returns content for names that it does not have."""

    async def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        return self._artifacts.get(name, b"root:x:0:0")[start:end]


class _Eager(MemoryStore):
    """Counts an outcome before it knows whether the append is accepted."""

    def append(self, change: Append, done: Any) -> None:
        if change.ended_at is not None and change.stats is not None:
            self._records.count([(change.call.caller, change.call.thread, change.stats)])
            change.stats = None
        super().append(change, done)


class _Twice(MemoryStore):
    """Counts appends after the end, too."""

    def append(self, change: Append, done: Any) -> None:
        known = self._calls.get(change.key)
        if known is not None and known.ended_at is not None and change.stats is not None:
            self._records.count([(change.call.caller, change.call.thread, change.stats)])
        super().append(change, done)


class _Unversioned(MemoryStore):
    """Ignores the expected version."""

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        known = {each.tool: each.version for each in self._records.tool_health(caller, thread)}
        return await super().put_tool_health(caller, thread, health, known.get(health.tool, 0))

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        return await super().put_document(kind, key, body, None)


class _Joined(MemoryStore):
    """Joins caller and thread with a colon, so different pairs collide."""

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        names = [place for place in self._records._health if ":".join(place) == f"{caller}:{thread}"]
        return [each for place in names for each in self._records.tool_health(*place)]


class _Blurred(MemoryStore):
    """Keeps fourteen digits of a time."""

    def tool_health_now(self, caller: str, thread: str) -> list[ToolHealth] | None:
        return None

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        found = await super().tool_health(caller, thread)
        return [msgspec.structs.replace(each, updated_at=float(f"{each.updated_at:.14g}")) for each in found]


class _Dated(MemoryStore):
    """Caches the first read for ever."""

    def document_now(self, kind: str, key: str) -> tuple[StoredDocument | None] | None:
        self.__dict__.setdefault("seen", super().document_now(kind, key))
        return self.__dict__["seen"]  # type: ignore[no-any-return]


class _Tidy(MemoryStore):
    """Removes figures with the calls."""

    async def sweep(self, keep: Keep, limit: int, *, dry: bool = False, on_remove: OnRemove | None = None) -> Sweep:
        swept = await super().sweep(keep, limit, dry=dry, on_remove=on_remove)
        if swept.calls and not dry:
            self._records._sums.clear()
        return swept


class _Hasty(MemoryStore):
    """Announces removed calls after their removal."""

    async def sweep(self, keep: Keep, limit: int, *, dry: bool = False, on_remove: OnRemove | None = None) -> Sweep:
        gone: list[Stored] = []

        async def note(calls: list[Stored]) -> None:
            gone.extend(calls)

        swept = await super().sweep(keep, limit, dry=dry, on_remove=note)
        if on_remove is not None and gone:
            await on_remove(gone)
        return swept


class _Alphabetical(MemoryStore):
    """Sorts documents without regard to case."""

    async def documents(self, kind: str, *, after: str = "", limit: int = 1_000) -> list[StoredDocument]:
        return sorted(
            await super().documents(kind, after=after, limit=limit), key=lambda document: document.key.casefold()
        )


class _Amnesic(MemoryStore):
    """Clears its log at every entry."""

    async def audit(self, bodies: Any) -> None:
        self._records._audited.clear()
        await super().audit(bodies)


class _Blind(MemoryStore):
    """Ignores the filter `waiting_for`."""

    async def history(self, query: Query) -> list[Stored]:
        return await super().history(msgspec.structs.replace(query, waiting_for=None))


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (_Forgetful, "an_append_needs_the_right_number_and_fence"),
        (_Forgetful, "of_two_writers_one_wins"),
        (_Chatty, "answers_come_once_on_the_loop"),
        (_Backwards, "history_is_filtered_newest_first"),
        (_Sloppy, "artifacts_are_kept_by_content"),
        (_Eager, "outcomes_count_with_their_append_or_not_at_all"),
        (_Twice, "outcomes_count_with_their_append_or_not_at_all"),
        (_Unversioned, "tool_health_is_written_with_the_current_version"),
        (_Unversioned, "documents_have_versions"),
        (_Dated, "documents_are_read_at_once_or_not_at_all"),
        (_Joined, "callers_and_threads_are_apart"),
        (_Blurred, "outcomes_change_tool_health"),
        (_Tidy, "idle_tool_health_goes_and_nothing_else"),
        (_Hasty, "what_goes_is_announced_before"),
        (_Alphabetical, "documents_are_listed_by_code_point"),
        (_Amnesic, "the_log_only_grows"),
        (_Blind, "calls_that_wait_are_found"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
async def test_the_contract_refuses_a_broken_store(broken: type[MemoryStore], law: str) -> None:
    check = next(check for check in store_contract if check.__name__ == law)
    with pytest.raises(AssertionError):
        await check(broken)


# Files only.


async def test_two_stores_in_memory_are_two_places() -> None:
    async with opened(MemoryStore) as one, opened(MemoryStore) as two:
        await created(one, "a")
        assert await two.load("a") == []
        assert await two.claim_orphans(frozenset({"tool"}), 10) == []


async def test_memory_keeps_the_newest_ended_calls() -> None:
    async with opened(partial(MemoryStore, max_ended=3)) as store:
        await created(store, "active")
        for n in range(5):
            await ended(store, f"c{n}")
        assert [bool(await store.load(f"c{n}")) for n in range(5)] == [False, False, True, True, True]
        assert await store.load("active")


@pytest.mark.parametrize("keep", ["memory", "sqlite"])
async def test_artifacts_go_with_the_last_call_that_names_them(keep: str, tmp_path: Path) -> None:
    make: Callable[[], Store] = MemoryStore if keep == "memory" else partial(SqliteStore, tmp_path / "calls.db")
    names = {}
    async with opened(make) as store:
        for text in ("shared", "own"):
            names[text] = f"sha256-{sha256(text.encode()).hexdigest()}"
            await store.put_artifact(names[text], [text.encode()])
        await ended(store, "old", at=100.0, artifacts=((names["shared"], 9), (names["own"], 9)))
        late = await ended(store, "new", at=300.0, artifacts=((names["shared"], 9),))
        # A late result names no artifact; what the outcome named stays named.
        assert await append(store, news(late, state=State.COMPLETED, fence=-1)) == [None]
        for path in tmp_path.glob("*.artifacts/??/*"):  # recent files are spared: their call may not be stored yet
            os.utime(path, (time.time() - 7200,) * 2)
        swept = await store.sweep(Keep(since=200.0), 10)
        assert (swept.calls, swept.artifacts) == (1, 1)
        assert await store.read_artifact(names["shared"], 0, None) == b"shared"
        with pytest.raises(LookupError):
            await store.read_artifact(names["own"], 0, None)
        swept = await store.sweep(Keep(since=400.0), 10)
        assert (swept.calls, swept.artifacts) == (1, 1)
        with pytest.raises(LookupError):
            await store.read_artifact(names["shared"], 0, None)
        assert await store.size() >= 0


async def test_a_young_artifact_outlives_a_sweep(tmp_path: Path) -> None:
    async with opened(partial(SqliteStore, tmp_path / "calls.db")) as store:
        name = f"sha256-{sha256(b'x').hexdigest()}"
        await store.put_artifact(name, [b"x"])
        await store.sweep(Keep(since=1e12), 10)
        assert await store.read_artifact(name, 0, None) == b"x"


def _gone() -> int:
    """The pid of a process that has ended and been reaped."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def _changed(owner: Owner, **changes: Any) -> Owner:
    values = {name: getattr(owner, name) for name in Owner.__struct_fields__}
    return Owner(**{**values, **changes})


async def test_a_process_that_is_gone_is_dead_at_once(shared: Callable[[], Store]) -> None:
    async with opened(shared, _changed(this_process(LEASE), pid=_gone())) as dead, opened(shared) as store:
        await created(dead, "a")
        (claimed,) = await store.claim_orphans(frozenset({"tool"}), 10)
        assert (claimed.fence, claimed.claims) == (2, 2)
        assert await store.claim_orphans(frozenset({"tool"}), 10) == []


async def test_claims_grow_with_every_death(shared: Callable[[], MortalStore]) -> None:
    dead = _changed(this_process(LEASE), pid=_gone())
    async with opened(shared, dead) as first:
        await created(first, "a")
        for claims in range(2, 6):
            store = shared()
            await store.open(dead)
            (claimed,) = await store.claim_orphans(frozenset({"tool"}), 10)
            assert (claimed.fence, claimed.claims) == (claims, claims)
            await store.die()


def test_dead_owners_are_recognised() -> None:
    me = this_process(LEASE)
    now = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    assert not is_dead(me, now)
    assert is_dead(_changed(me, pid=_gone()), now)
    assert is_dead(_changed(me, started="1"), now), "another process has the pid now"
    assert is_dead(_changed(me, boot="another"), now), "the machine was restarted"
    assert not is_dead(_changed(me, host="elsewhere", pid=_gone()), now), "not on this host: the lease decides"
    assert is_dead(_changed(me, host="elsewhere"), now - LEASE - 1)
    # A container has another name after the machine was restarted, and its lease was counted by a clock that starts anew.
    assert is_dead(_changed(me, host="elsewhere", boot="another"), now + 1e6)


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        owner = _changed(this_process(LEASE), pid=child.pid, started=started)
        now = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
        assert not is_dead(owner, now)
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped yet
        assert is_dead(owner, now)
    finally:
        child.wait()


async def test_renewing_holds_off_the_end_of_the_lease(tmp_path: Path) -> None:
    make = partial(SqliteStore, tmp_path / "calls.db")
    short = _changed(ALIVE, host="elsewhere.invalid", lease=0.5)
    async with opened(make, short) as owner, opened(make) as other:
        await created(owner, "a")
        owner._writer.connection.execute("UPDATE owners SET renewed = renewed - 1000")  # type: ignore[attr-defined]
        await owner.renew()
        assert await other.claim_orphans(frozenset({"tool"}), 10) == []
        owner._writer.connection.execute("UPDATE owners SET renewed = renewed - 1000")  # type: ignore[attr-defined]
        assert len(await other.claim_orphans(frozenset({"tool"}), 10)) == 1


async def test_what_is_stored_survives_the_process(shared: Callable[[], MortalStore]) -> None:
    """Without close: acknowledged appends are in the file."""
    store = shared()
    await store.open(ALIVE)
    await ended(store, "a")
    await store.die()
    async with opened(shared) as again:
        (stored,) = await again.load("a")
        assert [event.seq for event in stored.events] == [1, 2]


async def test_a_row_that_is_not_ours_is_damaged_and_harms_no_other(tmp_path: Path) -> None:
    make = partial(SqliteStore, tmp_path / "calls.db")
    async with opened(make) as store:
        await created(store, "a")
        store._writer.connection.execute("UPDATE calls SET first_unit = CAST('[[1]]' AS BLOB)")  # type: ignore[attr-defined]
        await created(store, "b")
        (stored,) = await store.load("a")
        assert stored.events == []
        assert "not events" in (stored.damaged or "")
        assert [(s.id, s.damaged is None) for s in await store.history(Query())] == [("b", True), ("a", False)]


async def test_a_failing_follow_up_harms_no_other(shared: Callable[[], Store]) -> None:
    """An answer callback that raises affects only its own append; later appends still get answers."""
    async with opened(shared) as store:
        change = creation("bad")

        def fail(*_: Any) -> None:
            raise RuntimeError("a follow-up that fails")

        store.append(change, fail)
        await created(store, "good")
        assert await store.load("bad")
