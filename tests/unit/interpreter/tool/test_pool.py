"""A bounded number of sessions for any number of keys: the least recently used one is closed for the next, in the order of waiting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE

from clicket.errors import UsageError
from clicket.interpreter.tool.pool import Pool


class Worker:
    """A fake session."""

    def __init__(self, log: list[str], modules: tuple[str, ...]) -> None:
        self.log = log
        self.modules = modules
        self.alive = True
        self.closed = False

    def idle(self) -> None:
        self.log.append("rest")

    async def close(self) -> None:
        try:
            await asyncio.sleep(0)
        finally:  # like a session: cancellation does not stop its end
            self.alive = False
            self.closed = True


class Workers:
    """A fake of what starts sessions."""

    def __init__(self) -> None:
        self.made: list[Worker] = []
        self.log: list[str] = []
        self.broken = False
        self.refused = 0

    async def __call__(self, modules: tuple[str, ...] = ()) -> Worker:
        await asyncio.sleep(0)
        if self.broken:
            self.refused += 1
            raise UsageError("no room in the inn")
        self.made.append(Worker(self.log, modules))
        return self.made[-1]

    async def close(self) -> None:
        self.log.append("closed")

    async def rested(self, number: int) -> Worker:
        """The spare session, once that many were made: a spare is the last one that was started, and idle."""
        while self.log.count("rest") < number:
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the pool has it from now on
        return self.made[-1]

    @property
    def alive(self) -> int:
        return sum(not worker.closed for worker in self.made)


class Runner:
    """A fake interpreter: it takes a session when it runs, and records why it lost one."""

    def __init__(self, start: Any, _: Any) -> None:
        self.start = start
        self.session: Worker | None = None
        self.history: list[Any] = []
        self.why = ""

    async def open(self) -> None:
        pass

    async def run(self) -> None:
        if self.session is None:
            self.session = await self.start()
        self.history.append("a result")

    async def drop(self, why: str) -> bool:
        self.why = why
        return await self.close()

    async def close(self) -> bool:
        session, self.session = self.session, None
        if session is not None:
            await session.close()
        return session is not None


def pool_of(workers: Workers, **options: Any) -> Pool:
    return Pool(workers, Runner, **{"warm": False, **options})  # type: ignore[arg-type]  # stand-ins


async def use(pool: Pool, key: Any, caller: str = "") -> Any:
    async with pool.lend(key, caller=caller) as pooled:
        await pooled.interpreter.run()  # type: ignore[attr-defined]
        return pooled.interpreter.session


async def test_a_key_keeps_its_session_and_results_are_not_hoarded() -> None:
    workers = Workers()
    pool = pool_of(workers)
    first = await use(pool, "a")
    assert await use(pool, "a") is first
    assert await use(pool, ("key", "a")) is not first
    assert pool.interpreters["a"].runs == 2
    assert pool.interpreters["a"].interpreter.history == []
    await pool.close()
    assert workers.alive == 0
    assert workers.log == ["closed"]
    with pytest.raises(UsageError, match="closed"):
        await use(pool, "a")


async def test_the_least_recently_used_session_is_evicted_with_a_reason() -> None:
    workers = Workers()
    pool = pool_of(workers, max_sessions=2)
    await use(pool, "a")
    await use(pool, "b")
    await use(pool, "a")
    await use(pool, "c")
    assert workers.alive == 2
    assert pool.interpreters["b"].interpreter.session is None
    assert "least recently used" in pool.interpreters["b"].interpreter.why  # type: ignore[attr-defined]
    assert pool.interpreters["a"].interpreter.session is not None
    await use(pool, "b")
    assert workers.alive == 2
    assert pool.interpreters["a"].interpreter.session is None
    await pool.close()


async def test_a_request_waits_in_order_when_all_sessions_are_in_use() -> None:
    workers, notes, order = Workers(), [], []
    pool = pool_of(workers, max_sessions=2)
    gates = [asyncio.Event(), asyncio.Event()]

    async def hold(key: str, gate: asyncio.Event) -> None:
        async with pool.lend(key) as pooled:
            await pooled.interpreter.run()  # type: ignore[attr-defined]
            await gate.wait()

    async def come(key: str) -> None:
        async with pool.lend(key, notes.append) as pooled:
            await pooled.interpreter.run()  # type: ignore[attr-defined]
            order.append(key)

    async with asyncio.TaskGroup() as group:
        for number, gate in enumerate(gates):
            group.create_task(hold(f"holder {number}", gate))
        await asyncio.sleep(0.01)
        waiting = [group.create_task(come(f"pooled {number}")) for number in range(4)]
        await asyncio.sleep(0.01)
        assert len(notes) == 4
        assert "2 sessions" in notes[0]
        waiting[1].cancel()
        gates[0].set()
        await asyncio.wait([waiting[0], waiting[2], waiting[3]])
        assert order == ["pooled 0", "pooled 2", "pooled 3"]
        assert workers.alive <= 2
        gates[1].set()
    await use(pool, "late")
    assert workers.alive <= 2
    await pool.close()
    assert workers.alive == 0


async def test_a_start_that_fails_or_is_cancelled_gives_its_place_back() -> None:
    workers = Workers()
    pool = pool_of(workers, max_sessions=1)
    workers.broken = True
    for key in ("a", "b"):
        with pytest.raises(UsageError, match="inn"):
            await use(pool, key)
    workers.broken = False
    starting = asyncio.create_task(use(pool, "c"))
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await asyncio.wait_for(use(pool, "d"), PATIENCE)
    await pool.close()


@pytest.mark.parametrize("steps", range(6))
async def test_a_request_cancelled_during_an_eviction_keeps_no_place(steps: int) -> None:
    pool = pool_of(Workers(), max_sessions=1)
    await use(pool, "a")
    coming = asyncio.create_task(use(pool, "b"))
    for _ in range(steps):
        await asyncio.sleep(0)
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)
    for key in ("c", "d"):
        await asyncio.wait_for(use(pool, key), PATIENCE)
    await pool.close()


@pytest.mark.parametrize("steps", range(8))
async def test_a_request_cancelled_at_its_turn_passes_the_turn_on(steps: int) -> None:
    """In one of these cases the turn is given but not yet used."""
    workers = Workers()
    pool = pool_of(workers, max_sessions=1)
    gate, held, notes = asyncio.Event(), asyncio.Event(), list[str]()

    async def hold() -> None:
        async with pool.lend("holder") as pooled:
            await pooled.interpreter.run()  # type: ignore[attr-defined]
            held.set()
            await gate.wait()

    async def come(key: str) -> None:
        async with pool.lend(key, notes.append) as pooled:
            await pooled.interpreter.run()  # type: ignore[attr-defined]

    holding = asyncio.create_task(hold())
    await held.wait()
    coming, after = asyncio.create_task(come("b")), asyncio.create_task(come("c"))
    while len(notes) < 2:
        await asyncio.sleep(0)
    gate.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    coming.cancel()
    await asyncio.wait_for(after, PATIENCE)
    await holding
    assert workers.alive == 1
    await asyncio.wait_for(use(pool, "d"), PATIENCE)
    assert workers.alive == 1
    await pool.close()


def sessions(pool: Pool, caller: str) -> list[Any]:
    return [
        each.key
        for each in pool.interpreters.values()
        if each.caller == caller and each.interpreter.session is not None
    ]


async def test_one_caller_does_not_take_the_sessions_of_others() -> None:
    workers = Workers()
    pool = pool_of(workers, max_sessions=4)
    first = await use(pool, ("ann", 1), "ann")
    for thread in range(20):
        await use(pool, ("bob", thread), "bob")
    assert await use(pool, ("ann", 1), "ann") is first, "her session is kept, though all others were used since"
    assert sessions(pool, "bob") == [("bob", 17), ("bob", 18), ("bob", 19)]
    await use(pool, ("ann", 2), "ann")
    assert (len(sessions(pool, "ann")), len(sessions(pool, "bob"))) == (2, 2), (
        "the caller with more sessions gives one to the caller with fewer"
    )
    await use(pool, ("ann", 3), "ann")
    assert (len(sessions(pool, "ann")), len(sessions(pool, "bob"))) == (2, 2), "but not to a caller with as many"
    await use(pool, ("cid", 1), "cid")
    assert sessions(pool, "cid") == [("cid", 1)]
    assert workers.alive == 4
    await pool.close()


async def test_runs_that_wait_take_no_session_of_a_caller_that_has_as_few() -> None:
    pool = pool_of(Workers(), max_sessions=2)
    gate, order = asyncio.Event(), []

    async def hold(key: str, caller: str) -> None:
        async with pool.lend(key, caller=caller) as pooled:
            await pooled.interpreter.run()  # type: ignore[attr-defined]
            await gate.wait()

    async def come(key: str, caller: str) -> None:
        await use(pool, key, caller)
        order.append(key)

    async with asyncio.TaskGroup() as group:
        group.create_task(hold("b0", "bob"))
        await asyncio.sleep(0.01)
        kept = await use(pool, "a", "ann")
        for number in range(1, 5):
            group.create_task(come(f"b{number}", "bob"))
        await asyncio.sleep(0.01)
        assert await use(pool, "a", "ann") is kept, "her run ended while others waited, and her session stayed"
        group.create_task(come("c", "cid"))
        await asyncio.sleep(0.01)
        assert order == ["c"], "c has no session, so it comes first, in the place of a session of the caller with most"
        gate.set()
    assert order == ["c", "b1", "b2", "b3", "b4"]
    await pool.close()


async def test_one_caller_does_not_keep_every_session_busy() -> None:
    workers, notes = Workers(), list[str]()
    pool = pool_of(workers, max_sessions=4)
    for thread in range(4):
        await use(pool, ("bob", thread), "bob")
    gate = asyncio.Event()

    async def hold(key: Any, caller: str) -> None:
        async with pool.lend(key, notes.append, caller=caller) as pooled:
            await pooled.interpreter.run()  # type: ignore[attr-defined]
            await gate.wait()

    async with asyncio.TaskGroup() as group:
        for thread in range(4):
            group.create_task(hold(("bob", thread), "bob"))
        while len(notes) < 2:
            await asyncio.sleep(0)
        assert "share of the sessions" in notes[0]
        assert sum(each.busy for each in pool.interpreters.values()) == 2, "half of them, though all four are his"
        for caller in ("ann", "cid"):  # in the places of his idle ones
            assert await asyncio.wait_for(use(pool, (caller, 1), caller), PATIENCE)
        gate.set()
    assert {each.runs for each in pool.interpreters.values() if each.caller == "bob"} == {2}
    await pool.close()


async def test_a_run_that_stops_waiting_for_its_callers_share_leaves_it_to_the_next() -> None:
    pool = pool_of(Workers(), max_sessions=1)
    gate, notes = asyncio.Event(), list[str]()

    async def hold() -> None:
        async with pool.lend(None, caller="bob"):
            await gate.wait()

    async def come() -> None:
        async with pool.lend(None, notes.append, caller="bob"):
            pass

    async with asyncio.TaskGroup() as group:
        group.create_task(hold())
        await asyncio.sleep(0)
        leaving, staying = group.create_task(come()), group.create_task(come())
        while len(notes) < 2:
            await asyncio.sleep(0)
        leaving.cancel()
        gate.set()
        await asyncio.wait_for(staying, PATIENCE)
    await pool.close()


async def test_without_a_key_the_session_ends_with_the_run() -> None:
    workers = Workers()
    pool = pool_of(workers)
    first, second = await use(pool, None), await use(pool, None)
    assert first is not second
    assert workers.alive == 0
    assert not pool.interpreters
    await pool.close()


async def test_idle_sessions_are_swept_but_not_those_in_use() -> None:
    workers = Workers()
    pool = pool_of(workers, idle_after=-1.0)
    await use(pool, "a")
    await use(pool, "b")
    async with pool.lend("c") as pooled:
        await pooled.interpreter.run()  # type: ignore[attr-defined]
        assert await pool.sweep({"b"}) == 1
        assert pool.interpreters["a"].interpreter.session is None
        assert "not used" in pool.interpreters["a"].interpreter.why  # type: ignore[attr-defined]
    assert workers.alive == 2
    await pool.close()


async def test_a_spare_is_made_after_the_first_use_taken_by_the_next_key_and_closed_when_idle() -> None:
    workers = Workers()
    pool = pool_of(workers, warm=True)
    first = await use(pool, "a")
    assert not first.modules
    spare = await workers.rested(1)
    assert "pandas" in spare.modules
    assert await use(pool, "b") is spare
    another = await workers.rested(2)
    assert another is not spare
    pool.idle_after = -1.0
    await pool.sweep({"a", "b"})
    assert another.closed
    assert workers.alive == 2, "no other spare was made"
    await pool.close()
    assert workers.alive == 0


async def test_a_spare_that_died_or_cannot_be_made_is_done_without() -> None:
    workers = Workers()
    pool = pool_of(workers, warm=True)
    await use(pool, "a")
    dead = await workers.rested(1)
    dead.alive = False
    assert await use(pool, "b") is not dead
    assert dead.closed
    workers.broken = True
    while not workers.refused:
        await asyncio.sleep(0)
    workers.broken = False
    await use(pool, "c")
    await use(pool, "d")
    await pool.close()
    assert workers.alive == 0


async def test_an_interpreter_that_a_run_waits_for_is_never_taken_for_idle() -> None:
    pool = pool_of(Workers(), idle_after=-1.0)
    async with pool.lend("a"):
        waiting = asyncio.create_task(use(pool, "a"))
        await asyncio.sleep(0)
    assert pool.interpreters["a"].busy  # the first has left, the second has not started yet
    assert await pool.sweep() == 0
    session = await waiting
    assert not pool.interpreters["a"].busy
    assert not session.closed
    await pool.close()


async def test_interpreters_without_a_session_are_remembered_but_not_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("clicket.interpreter.tool.pool._MAX_WITHOUT_SESSION", 3)
    workers = Workers()
    pool = pool_of(workers, max_sessions=2)
    for number in range(20):
        await use(pool, number)
    assert list(pool.interpreters) == [15, 16, 17, 18, 19]
    await pool.close()
