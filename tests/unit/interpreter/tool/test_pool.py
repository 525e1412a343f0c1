"""A bounded number of sessions for any number of keys: who used its own least recently makes room, nobody overtakes who waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.interpreter.tool.message_batcher import MessageBatcher
from clicket.interpreter.tool.options import parse_options
from clicket.interpreter.tool.pool import Pool, PooledInterpreter
from clicket.sandbox import Limits


class Worker:
    """Stands for a session."""

    def __init__(self, log: list[str], modules: tuple[str, ...]) -> None:
        self.log = log
        self.modules = modules
        self.alive = True
        self.closed = False

    def idle(self) -> None:
        self.log.append("rest")

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.alive = False
        self.closed = True


class Workers:
    """Stands for what starts sessions."""

    def __init__(self) -> None:
        self.made: list[Worker] = []
        self.log: list[str] = []
        self.broken = False

    async def __call__(self, modules: tuple[str, ...] = ()) -> Worker:
        await asyncio.sleep(0)
        if self.broken:
            raise UsageError("no room in the inn")
        self.made.append(Worker(self.log, modules))
        return self.made[-1]

    async def close(self) -> None:
        self.log.append("closed")

    @property
    def alive(self) -> int:
        return sum(not worker.closed for worker in self.made)


class Runner:
    """Stands for an interpreter: it takes a session when it runs, and remembers why it lost one."""

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
    async with pool.lend(key, caller=caller) as guest:
        await guest.interpreter.run()  # type: ignore[attr-defined]
        return guest.interpreter.session


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


async def test_the_least_recently_used_makes_room_and_is_told_why() -> None:
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


async def test_who_comes_when_all_are_in_use_waits_with_a_note_and_nobody_overtakes() -> None:
    workers, notes, order = Workers(), [], []
    pool = pool_of(workers, max_sessions=2)
    gates = [asyncio.Event(), asyncio.Event()]

    async def hold(key: str, gate: asyncio.Event) -> None:
        async with pool.lend(key) as guest:
            await guest.interpreter.run()  # type: ignore[attr-defined]
            await gate.wait()

    async def come(key: str) -> None:
        async with pool.lend(key, notes.append) as guest:
            await guest.interpreter.run()  # type: ignore[attr-defined]
            order.append(key)

    async with asyncio.TaskGroup() as group:
        for number, gate in enumerate(gates):
            group.create_task(hold(f"holder {number}", gate))
        await asyncio.sleep(0.01)
        waiting = [group.create_task(come(f"guest {number}")) for number in range(4)]
        await asyncio.sleep(0.01)
        assert len(notes) == 4
        assert "2 sessions" in notes[0]
        waiting[1].cancel()
        gates[0].set()
        await asyncio.wait([waiting[0], waiting[2], waiting[3]])
        assert order == ["guest 0", "guest 2", "guest 3"]
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
    await asyncio.wait_for(use(pool, "d"), 5)
    await pool.close()


@pytest.mark.parametrize("steps", range(6))
async def test_who_is_cancelled_while_room_is_made_for_it_keeps_no_place(steps: int) -> None:
    pool = pool_of(Workers(), max_sessions=1)
    await use(pool, "a")
    coming = asyncio.create_task(use(pool, "b"))
    for _ in range(steps):
        await asyncio.sleep(0)
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)
    for key in ("c", "d"):
        await asyncio.wait_for(use(pool, key), 5)
    assert not pool._waiting
    await pool.close()


async def test_who_is_cancelled_when_its_turn_has_come_hands_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = pool_of(Workers(), max_sessions=1)
    gate = asyncio.Event()

    async def hold() -> None:
        async with pool.lend("holder") as guest:
            await guest.interpreter.run()  # type: ignore[attr-defined]
            await gate.wait()

    def wait(guest: PooledInterpreter) -> asyncio.Future[None]:
        turn = Pool._wait(pool, guest)
        if len(pool._waiting) == 1:
            turn.add_done_callback(lambda _: coming.cancel())  # after the turn was given, before it is taken
        return turn

    monkeypatch.setattr(pool, "_wait", wait)
    holding = asyncio.create_task(hold())
    while not pool._used:
        await asyncio.sleep(0)
    coming, after = asyncio.create_task(use(pool, "b")), asyncio.create_task(use(pool, "c"))
    while len(pool._waiting) < 2:
        await asyncio.sleep(0)
    gate.set()
    assert await asyncio.wait_for(after, 20) is not None
    assert coming.cancelled()
    await holding
    assert pool._used == 1
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
    assert await use(pool, ("ann", 1), "ann") is first, "hers is there, though all others were used since"
    assert sessions(pool, "bob") == [("bob", 17), ("bob", 18), ("bob", 19)]
    await use(pool, ("ann", 2), "ann")
    assert (len(sessions(pool, "ann")), len(sessions(pool, "bob"))) == (2, 2), (
        "who has more makes room for who has less"
    )
    await use(pool, ("ann", 3), "ann")
    assert (len(sessions(pool, "ann")), len(sessions(pool, "bob"))) == (2, 2), "and nobody for who has as many"
    await use(pool, ("cid", 1), "cid")
    assert sessions(pool, "cid") == [("cid", 1)]
    assert workers.alive == 4
    await pool.close()


async def test_runs_that_wait_take_no_session_of_a_caller_that_has_as_few() -> None:
    pool = pool_of(Workers(), max_sessions=2)
    gate, order = asyncio.Event(), []

    async def hold(key: str, caller: str) -> None:
        async with pool.lend(key, caller=caller) as guest:
            await guest.interpreter.run()  # type: ignore[attr-defined]
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
        assert await use(pool, "a", "ann") is kept, "a run of hers ended while others waited, and her session stayed"
        group.create_task(come("c", "cid"))
        await asyncio.sleep(0.01)
        assert order == ["c"], "who has none comes first; it got the place of who has most, or else of an idle one"
        gate.set()
    assert order == ["c", "b1", "b2", "b3", "b4"]
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
    async with pool.lend("c") as guest:
        await guest.interpreter.run()  # type: ignore[attr-defined]
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
    assert pool._spare is not None
    spare = await pool._spare
    assert "pandas" in spare.modules  # type: ignore[attr-defined]
    assert await use(pool, "b") is spare
    assert pool._spare is not None
    another = await pool._spare
    assert another is not spare
    pool.idle_after = -1.0
    await pool.sweep({"a", "b"})
    assert another.closed  # type: ignore[attr-defined]
    assert pool._spare is None
    await pool.close()
    assert workers.alive == 0


async def test_a_spare_that_died_or_cannot_be_made_is_done_without() -> None:
    workers = Workers()
    pool = pool_of(workers, warm=True)
    await use(pool, "a")
    assert pool._spare is not None
    dead = await pool._spare
    dead.alive = False  # type: ignore[misc]
    assert await use(pool, "b") is not dead
    assert dead.closed  # type: ignore[attr-defined]
    workers.broken = True
    assert pool._spare is not None
    await asyncio.wait([pool._spare])
    workers.broken = False
    await use(pool, "c")
    await use(pool, "d")
    await pool.close()
    assert workers.alive == 0


async def test_a_guest_that_somebody_waits_for_is_never_taken_for_idle() -> None:
    pool = pool_of(Workers(), idle_after=-1.0)
    async with pool.lend("a"):
        waiting = asyncio.create_task(use(pool, "a"))
        await asyncio.sleep(0)
    assert pool.interpreters["a"].busy  # the first has left, the second has not yet begun
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


# Messages on their way to the journal.


def text(content: str, type: str = "stdout", block: int = 0) -> dict[str, Any]:
    return {"type": type, "content": content, "block_index": block, "timestamp": 1.0}


async def test_small_texts_are_merged_in_order_and_nothing_is_lost() -> None:
    said: list[dict[str, Any]] = []
    merging = MessageBatcher(said.append, None)  # type: ignore[arg-type]  # nothing large comes
    for number in range(2_000):
        await merging.take(text(f"{number}\n"))
    await merging.take(text("oh", "stderr"))
    await merging.take(text("next", block=1))
    await merging.take({"type": "code_execution_complete", "block_index": 1})
    assert [m["type"] for m in said[-3:]] == ["stderr", "stdout", "code_execution_complete"]
    assert "".join(m["content"] for m in said[:-3]) == "".join(f"{number}\n" for number in range(2_000))
    assert len(said) < 10


async def test_of_very_much_text_the_rest_is_counted() -> None:
    said: list[dict[str, Any]] = []
    merging = MessageBatcher(said.append, None)  # type: ignore[arg-type]  # nothing large comes
    for _ in range(1_000):
        await merging.take(text("x" * 10_000))
    await merging.take(text("last", "stderr", 1))
    await merging.take({"type": "code_execution_complete", "block_index": 1})
    shown = sum(len(m.get("content", "")) for m in said)
    assert shown < 600_000
    omitted = [(m["type"], m["omitted"]) for m in said if "omitted" in m]
    assert omitted == [("stdout", 10_000_000 - shown), ("stderr", 4)]
    assert said[-1]["type"] == "code_execution_complete"


async def test_of_very_many_things_shown_the_rest_is_counted() -> None:
    said: list[dict[str, Any]] = []
    merging = MessageBatcher(said.append, None)  # type: ignore[arg-type]  # nothing large comes
    for number in range(3_000):
        await merging.take({"type": "display", "mime": "text/plain", "data": str(number), "block_index": 0})
        await merging.take({"type": "variable_created", "name": f"x{number}", "block_index": 0})
    await merging.take({"type": "final_result", "result": {}})
    assert len(said) < 500
    assert [(m["type"], m.get("omitted")) for m in said[-3:]] == [
        ("display", 2_800),
        ("variable_created", 2_800),
        ("final_result", None),
    ]


async def test_text_that_trickles_is_shown_soon_and_later_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    came = asyncio.Event()
    merging = MessageBatcher(lambda _: came.set(), None)  # type: ignore[arg-type,return-value]
    await merging.take(text("alone"))
    await asyncio.wait_for(came.wait(), 5)
    waits: list[float] = []
    loop = asyncio.get_running_loop()
    later = loop.call_later
    monkeypatch.setattr(loop, "call_later", lambda wait, *call: waits.append(wait) or later(wait, *call))
    for pieces in (0, 100, 300, 900):
        merging._pieces = pieces
        await merging.take(text("x"))
        merging.flush()
    assert waits == sorted(set(waits))
    assert waits[-1] > 1.0


async def test_what_is_large_is_kept_and_named() -> None:
    said: list[dict[str, Any]] = []
    kept: list[bytes] = []

    async def put(data: Any) -> str:
        kept.append(data)
        return "sha256-1"

    merging = MessageBatcher(said.append, put)
    picture = "aGVsbG8h" * 40_000
    await merging.take({"type": "display", "mime": "image/png", "data": picture})
    await merging.take({"type": "final_result", "result": {"status": "ok", "stdout": "x" * 100_000}})
    assert kept == [b"hello!" * 40_000]
    assert said[0]["artifact"] == "sha256-1"
    assert said[0]["data"] == ""
    assert said[1] == {"type": "final_result", "result": {"status": "ok"}, "cut": True}


async def test_figures_travel_with_their_messages_until_there_are_many() -> None:
    said: list[dict[str, Any]] = []

    async def put(data: Any) -> str:
        return "sha256-1"

    merging = MessageBatcher(said.append, put)
    for _ in range(8):
        await merging.take({"type": "display", "mime": "image/png", "data": "aGVsbG8h" * 25_000})
    assert [len(message["data"]) for message in said] == [200_000] * 5 + [0] * 3
    assert ["artifact" in message for message in said] == [False] * 5 + [True] * 3


# Options.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeot": 5}, "Did you mean 'timeout'"),
        ({"require": "total"}, "full, partial, process, none"),
        ({"max_sessions": 0}, "at least 1"),
        ({"session": "forever"}, "session"),
        ({"warm": "yes"}, "warm"),
        ({"packages": "numpy"}, "packages"),
        ({"timeout": -1}, "code_interpreter: timeout must be a number of seconds above 0"),
        ({"idle_after": 0}, "idle_after"),
        ({"memory": "lots"}, "memory must be a number of bytes"),
        ({"max_output": 0}, "max_output"),
        ({"limits": {"disk": -5}}, r"disk must be a whole number above 0, not -5\.$"),
        ({"without": ["seccom"]}, "Did you mean 'seccomp'"),
    ],
)
def test_wrong_options_are_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_options(given)


def test_memory_that_is_named_counts_beside_limits_and_else_theirs() -> None:
    limits = Limits(memory=2 * 1024**3, processes=10)
    for given, memory in (
        ({}, 1024**3),
        ({"limits": limits}, 2 * 1024**3),
        ({"limits": limits, "memory": "1GiB"}, 1024**3),
    ):
        assert parse_options(given).factory().limits.memory == memory
    assert parse_options({"limits": limits, "memory": "1GiB"}).factory().limits.processes == 10
    assert parse_options({"limits": {"disk": "2GiB", "files": 5}}).limits == Limits(disk=2 * 1024**3, files=5)
    with pytest.raises(UsageError, match=r"limits\.disk must be a number of bytes"):
        parse_options({"limits": {"disk": "much"}})
