"""The date jumps two hours forward or back. Durations stay as long as they were, a living owner keeps its calls, a dead
owner loses them, and events keep the order of their numbers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.faults.host import Child, child
from tests.crash.faults.shim import Control
from tests.kit.stopping import stop_between_writes
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound

from clicket import Record

HOURS = 2 * 3600.0
JUMPS = pytest.mark.parametrize("jump", [HOURS, -HOURS], ids=["forward", "back"])
SOON = PATIENCE
"""Durations of some seconds end long before this, and this is long before two hours."""


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path / "control")


@asynccontextmanager
async def over(folder: Path, control: Control, name: str = "one", **settings: Any) -> AsyncIterator[Child]:
    """A child over `folder/calls.db` whose date `control` sets."""
    own = folder / name
    own.mkdir(exist_ok=True)
    async with child(own, control=control, store=f"sqlite:///{folder / 'calls.db'}", **settings) as started:
        yield started


async def record(program: Child, id: str) -> Record:
    return msgspec.convert(await program.ask("get", id=id), Record)


async def started(program: Child, *ids: str) -> None:
    for id in ids:
        await eventually(partial(program.ask, "runs", id=id), timeout=SOON)


@JUMPS
async def test_the_date_of_these_tests_does_jump(tmp_path: Path, control: Control, jump: float) -> None:
    async with over(tmp_path, control) as program:
        before = await program.ask("clocks")
        control.clock = jump
        after = await program.ask("clocks")
        assert abs(after["date"] - before["date"] - jump) < SOON
        assert 0 <= after["monotonic"] - before["monotonic"] < SOON
        await program.close()


@JUMPS
async def test_what_lasts_some_seconds_lasts_as_long_as_ever(tmp_path: Path, control: Control, jump: float) -> None:
    """Every timer of a call starts before the jump and ends after it."""
    waits: dict[str, tuple[float, str, dict[str, Any]]] = {
        # id: seconds, what ends it, and the call
        "attempt": (1.5, "attempt", {"tool": "held", "timeout": 1.5}),
        "long attempt": (2.5, "attempt", {"tool": "held", "timeout": 2.5}),
        "idle": (1.5, "idle", {"tool": "silent"}),
        "deadline": (2.0, "deadline", {"tool": "held", "deadline": 2.0}),
        "approval": (2.0, "approval", {"tool": "asked"}),
        "thread": (1.5, "attempt", {"tool": "threaded"}),
        "process": (1.5, "attempt", {"tool": "apart"}),
    }
    async with over(tmp_path, control, approval_timeout=2.0) as program:
        timed = {id: program.begin("timed", id=id, **call) for id, (_, _, call) in waits.items()}
        retried = program.begin("timed", tool="flaky", arguments={"wait": 1.5}, id="retry")
        await started(program, "attempt", "long attempt", "idle", "deadline", "retry")
        control.clock = jump
        for id, (seconds, phase, _) in waits.items():
            ended = await asyncio.wait_for(timed[id], SOON)
            assert ended["result"]["state"] == "timeout", id
            assert ended["result"]["metadata"]["phase"] == phase, id
            assert seconds - 0.05 <= ended["took"] < SOON, id
        ended = await asyncio.wait_for(retried, SOON)
        assert ended["result"]["output"] == 2
        first, second = await program.ask("runs", id="retry")
        assert second - first >= 1.45
        await program.close()


@JUMPS
async def test_the_wait_in_line_keeps_its_length(tmp_path: Path, control: Control, jump: float) -> None:
    async with over(tmp_path, control, max_concurrency=1, queue_timeout=1.5) as program:
        await program.ask("submit", tool="held", id="first")
        await started(program, "first")
        waiting = program.begin("timed", tool="echo", arguments={"text": "late"}, id="second")
        await eventually(lambda: _is_known(program, "second"), timeout=SOON)
        control.clock = jump
        ended = await asyncio.wait_for(waiting, SOON)
        assert ended["result"]["metadata"]["phase"] == "queue"
        assert 1.45 <= ended["took"] < SOON
        await program.ask("release", id="first")
        assert (await program.ask("result", id="first"))["state"] == "completed"
        await program.close()


async def _is_known(program: Child, id: str) -> bool:
    return any(item["id"] == id for item in await program.ask("history"))


@JUMPS
async def test_durations_are_real_and_numbers_are_in_order(tmp_path: Path, control: Control, jump: float) -> None:
    async with over(tmp_path, control) as program:
        await program.ask("submit", tool="talking", id="talk")
        await started(program, "talk")
        for offset in (jump, 0.0, jump):
            control.clock = offset
            before = len((await record(program, "talk")).events)
            await eventually(partial(_has_more, program, before), timeout=SOON)
        await program.ask("release", id="talk")
        await program.ask("result", id="talk")
        call = await record(program, "talk")
        assert [event.seq for event in call.events] == list(range(1, len(call.events) + 1))
        assert call.duration is not None
        assert 0 <= call.duration < SOON
        assert all(0 <= stage.duration < SOON for stage in call.stages.values())
        outputs = [event.data for event in call.events if event.type == "output"]
        assert len(outputs) > 3
        assert [data["content"] for data in outputs] == [f"{n} " for n in range(len(outputs))]
        await program.close()


async def _has_more(program: Child, than: int) -> bool:
    return len((await record(program, "talk")).events) > than + 1


@JUMPS
async def test_a_call_does_not_end_before_it_begins(tmp_path: Path, control: Control, jump: float) -> None:
    async with over(tmp_path, control) as program:
        await program.ask("submit", tool="held", id="held")
        control.clock = jump
        await program.ask("release", id="held")
        await program.ask("result", id="held")
        assert_sound(await record(program, "held"))
        await program.close()


@JUMPS
async def test_history_stays_in_the_order_of_creation(tmp_path: Path, control: Control, jump: float) -> None:
    async with over(tmp_path, control) as program:
        made = []
        for n in range(30):
            control.clock = jump if n % 10 >= 5 else 0.0
            made.append((await program.ask("call", tool="echo", arguments={"text": str(n)}))["call_id"])
        assert len(set(made)) == 30
        newest_first = [item["id"] for item in await program.ask("history")]
        assert newest_first == made[::-1]
        items = [msgspec.convert(item, Record) for item in await program.ask("history", state="completed", tool="echo")]
        assert [item.output for item in items] == [str(n) for n in reversed(range(30))]
        await program.close()


# Owners --------------------------------------------------------------------------------------------------------------

LEASE = 2.0


async def test_no_living_owner_is_taken_for_dead(tmp_path: Path, control: Control) -> None:
    """Neither when its own date jumps nor when the date of another process does."""
    other_control = Control(tmp_path / "other control")
    async with (
        over(tmp_path, control, lease=LEASE) as owner,
        over(tmp_path, other_control, "two", lease=LEASE) as other,
    ):
        await owner.ask("submit", tool="held", id="held")
        await owner.ask("submit", tool="again", id="again")
        await started(owner, "held", "again")
        for control.clock, other_control.clock in ((HOURS, 0.0), (-HOURS, HOURS), (0.0, -HOURS)):
            until = time.monotonic() + 1.2 * LEASE
            while time.monotonic() < until:
                assert await other.ask("recover") == 0
                await asyncio.sleep(0.05)
        for id in ("held", "again"):
            assert await other.ask("runs", id=id) == []
            await owner.ask("release", id=id)
            assert (await owner.ask("result", id=id))["state"] == "completed"
            call = await record(other, id)
            assert not any("claims" in event.data for event in call.events)
            assert len(call.attempts) == 1
        await owner.close()
        await other.close()


@pytest.mark.parametrize(("whose", "jump"), [("the owner's", HOURS), ("the other's", -HOURS)])
async def test_no_dead_owner_is_kept(tmp_path: Path, control: Control, whose: str, jump: float) -> None:
    """An owner is stopped for longer than its lease, and killed."""
    other_control = Control(tmp_path / "other control")
    async with (
        over(tmp_path, control, lease=LEASE) as owner,
        over(tmp_path, other_control, "two", lease=LEASE) as other,
    ):
        for id in ("first", "second"):
            await owner.ask("submit", tool="again", id=id)
            await other.ask("release", id=id)
        await started(owner, "first", "second")
        (control if whose == "the owner's" else other_control).clock = jump
        await stop_between_writes(owner.process.pid, f"sqlite:///{tmp_path / 'calls.db'}")
        await eventually(partial(other.ask, "runs", id="first"), timeout=SOON)
        assert (await other.ask("result", id="first"))["attempts"] == 2
        await owner.kill()
        assert (await other.ask("result", id="second"))["state"] == "completed"
        await other.close()


@JUMPS
async def test_recovery_after_a_jump_settles_what_a_killed_process_left(
    tmp_path: Path, control: Control, jump: float
) -> None:
    async with over(tmp_path, control) as program:
        for name in ("held", "again"):
            await program.ask("submit", tool=name, id=name)
        await started(program, "held", "again")
        await program.kill()
    control.clock = jump
    async with over(tmp_path, control) as program:
        assert (await record(program, "held")).error.code == "outcome_unknown"  # type: ignore[union-attr]  # it has one
        await program.ask("release", id="again")
        assert (await program.ask("result", id="again"))["attempts"] == 2
        await program.close()


# A deadline goes on over a restart -----------------------------------------------------------------------------------


async def left_behind(folder: Path, control: Control, **options: Any) -> None:
    """A repeatable call whose process was killed while it ran."""
    async with over(folder, control) as program:
        await program.ask("submit", id="call", **options)
        await eventually(lambda: _is_known(program, "call"), timeout=SOON)
        await program.kill()


@JUMPS
async def test_a_deadline_that_is_far_away_is_not_cut_by_a_jump(tmp_path: Path, control: Control, jump: float) -> None:
    await left_behind(tmp_path, control, tool="again", deadline=600.0)
    control.clock = jump
    async with over(tmp_path, control) as program:
        await started(program, "call")
        await program.ask("release", id="call")
        assert (await program.ask("result", id="call"))["state"] == "completed"
        await program.close()


@JUMPS
async def test_a_deadline_that_is_near_is_not_missed_by_a_jump(tmp_path: Path, control: Control, jump: float) -> None:
    await left_behind(tmp_path, control, tool="again", deadline=3.0)
    control.clock = jump
    async with over(tmp_path, control) as program:
        result = await asyncio.wait_for(program.begin("result", id="call"), SOON)
        assert result["state"] == "timeout"
        assert result["metadata"]["phase"] == "deadline"
        await program.close()


@JUMPS
async def test_a_question_that_may_wait_long_is_not_closed_by_a_jump(
    tmp_path: Path, control: Control, jump: float
) -> None:
    await left_behind(tmp_path, control, tool="asked")
    control.clock = jump
    async with over(tmp_path, control) as program:
        assert await program.ask("approve", id="call")
        assert (await program.ask("result", id="call"))["output"] == "approved"
        await program.close()
