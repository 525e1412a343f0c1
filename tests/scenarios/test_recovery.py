"""After kill -9: calls that never started run, repeatable calls are repeated, and the others get outcome_unknown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import ROOT, environment
from tests.kit.forks import forked
from tests.kit.stopping import stop_between_writes
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.crash_child import POLICY, TOOLS
from tests.scenarios.kit import assert_sound, make, sqlite_url, states, types

from clicket import Runtime, State

CHILD = "tests.scenarios.crash_child"


class Child:
    """A runtime in its own process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def until(self, *wanted: str) -> None:
        """Read until the child has printed every wanted line."""
        assert self.process.stdout is not None
        while not set(wanted) <= set(self.lines):
            async with asyncio.timeout(PATIENCE):
                line = await self.process.stdout.readline()
            assert line, f"the child ended after {self.lines}"
            self.lines.append(line.decode().strip())

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def child(folder: Path, *calls: str, **settings: Any) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *forked(CHILD), "-m", CHILD, sqlite_url(folder), str(folder), json.dumps(settings), *calls,
        stdout=asyncio.subprocess.PIPE, cwd=ROOT, env=environment(),
    )  # fmt: skip
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def effects(folder: Path, id: str) -> list[list[str]]:
    path = folder / f"{id}.effects"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


async def crash(folder: Path, *calls: str, **settings: Any) -> None:
    """Start the calls in a child, wait until their bodies run, and kill it."""
    async with child(folder, *calls, **settings) as doomed:
        await doomed.until(*(f"started {call}" for call in calls))
        await doomed.kill()


def reopen(folder: Path, **settings: Any) -> Runtime:
    return make(TOOLS, sqlite_url(folder), policy=POLICY, **settings)


async def result_of(rt: Runtime, id: str) -> Any:
    return await asyncio.wait_for((await rt.handle(id)).result(), PATIENCE)


@pytest.mark.parametrize("name", ["idempotent", "read_only", "rerun", "streaming_again"])
async def test_what_may_be_repeated_runs_again_with_the_same_key(tmp_path: Path, name: str) -> None:
    await crash(tmp_path, name)
    async with reopen(tmp_path) as rt:
        result = await result_of(rt, name)
        record = await rt.get(name)
    assert result.state is State.COMPLETED
    assert result.output == 2
    assert result.attempts == 2
    (key, first), (same, second) = effects(tmp_path, name)
    assert key == same == record.idempotency_key
    assert (first, second) == ("1", "2")
    assert record.attempts[0].outcome == "outcome_unknown"
    assert "retrying" in states(record.events)
    assert_sound(record)


@pytest.mark.parametrize("name", ["plain", "streaming", "threaded", "fail"])
async def test_of_the_rest_the_outcome_is_unknown_and_it_is_said(tmp_path: Path, name: str) -> None:
    await crash(tmp_path, name)
    async with reopen(tmp_path) as rt:
        record = await rt.get(name)  # recovered by the time the runtime is open
        result = await result_of(rt, name)
        listed = [
            r.id for r in (await rt.history(state="failed")).items if r.error and r.error.code == "outcome_unknown"
        ]
    assert result.state is record.state is State.FAILED
    assert result.error is not None
    assert result.error.code == "outcome_unknown"
    assert "may or may not" in result.error.message
    assert listed == [name]
    assert len(effects(tmp_path, name)) == 1
    assert record.ended_at is not None
    assert_sound(record)


async def test_what_never_started_runs(tmp_path: Path) -> None:
    async with child(tmp_path, "plain", "quick*3", max_concurrency=1) as doomed:
        await doomed.until("started plain", "accepted quick0", "accepted quick1", "accepted quick2")
        await doomed.kill()
    async with reopen(tmp_path) as rt:
        results = [await result_of(rt, f"quick{i}") for i in range(3)]
        records = [await rt.get(f"quick{i}") for i in range(3)]
    assert [r.output for r in results] == [1, 1, 1]
    assert [r.attempts for r in results] == [1, 1, 1]
    for record in records:
        assert_sound(record)


async def test_a_call_that_was_backing_off_goes_on(tmp_path: Path) -> None:
    """Its failure is recorded, so its outcome is not unknown: the next attempt is made."""
    await crash(tmp_path, "backing_off")
    async with reopen(tmp_path) as rt:
        result = await result_of(rt, "backing_off")
        record = await rt.get("backing_off")
    assert result.output == 2
    assert [a.outcome for a in record.attempts] == ["tool_error", "ok"]
    assert_sound(record)


async def test_a_call_that_waited_for_approval_still_does(tmp_path: Path) -> None:
    async with child(tmp_path, "asked") as doomed:
        await doomed.until("accepted asked")
        await doomed.kill()
    async with reopen(tmp_path) as rt:
        assert (await rt.get("asked")).waiting_for == "approval"
        assert not effects(tmp_path, "asked")
        assert await rt.approve("asked")
        assert (await result_of(rt, "asked")).output == 1


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_recovery_ask_lets_a_person_decide(tmp_path: Path, verdict: str) -> None:
    await crash(tmp_path, "ask")
    async with reopen(tmp_path) as rt:
        record = await rt.get("ask")
        assert record.waiting_for == "approval"
        assert not record.state.is_terminal
        assert len(effects(tmp_path, "ask")) == 1
        assert await getattr(rt, verdict)("ask", by="Ada")
        result = await result_of(rt, "ask")
        assert_sound(await rt.get("ask"))
    if verdict == "approve":
        assert result.output == 2
    else:
        assert result.state is State.FAILED
        assert len(effects(tmp_path, "ask")) == 1


async def test_a_runtime_without_the_tool_leaves_the_call_alone(tmp_path: Path) -> None:
    await crash(tmp_path, "idempotent")
    async with make([TOOLS[0]], sqlite_url(tmp_path)) as rt:
        before = await rt.get("idempotent")
        assert (await rt.recover()).total == 0
        assert await rt.get("idempotent") == before
        assert before.state is State.RUNNING
    async with reopen(tmp_path) as rt:
        assert (await result_of(rt, "idempotent")).output == 2


async def test_recover_says_what_it_did_and_does_it_once(tmp_path: Path) -> None:
    async with reopen(tmp_path) as rt:
        async with child(tmp_path, "plain", "idempotent", "ask") as doomed:
            await doomed.until("started plain", "started idempotent", "started ask")
            assert (await rt.recover()).total == 0  # its owner lives
            await doomed.kill()
        report = await rt.recover()
        assert (report.unknown, report.rerun, report.asked, report.total) == (1, 1, 1, 3)
        assert (await rt.recover()).total == 0
        assert (await result_of(rt, "idempotent")).output == 2


async def test_two_runtimes_that_recover_at_once_share_the_work(tmp_path: Path) -> None:
    async with child(tmp_path, "idempotent", "quick*30", max_concurrency=1) as doomed:
        await doomed.until("started idempotent", *(f"accepted quick{i}" for i in range(30)))
        await doomed.kill()
    one, two = reopen(tmp_path), reopen(tmp_path)
    await asyncio.gather(one.open(), two.open())
    try:
        for i in range(30):
            assert (await result_of(one, f"quick{i}")).output == 1  # each ran once
        assert (await result_of(two, "idempotent")).output == 2
    finally:
        await asyncio.gather(one.close(), two.close())


async def test_more_orphans_than_the_queue_takes_do_not_keep_a_runtime_from_opening(tmp_path: Path) -> None:
    async with child(tmp_path, "idempotent", "quick*10", max_concurrency=1) as doomed:
        await doomed.until("started idempotent", *(f"accepted quick{i}" for i in range(10)))
        await doomed.kill()
    async with reopen(tmp_path, max_concurrency=1, max_queue=2) as rt:
        for i in range(10):
            assert (await result_of(rt, f"quick{i}")).output == 1


async def test_a_deadline_goes_on_across_a_crash(tmp_path: Path) -> None:
    async with child(tmp_path, "plain", "asked", deadline=1.0) as doomed:
        await doomed.until("accepted asked")
        await doomed.kill()
    async with reopen(tmp_path) as rt:
        result = await asyncio.wait_for((await rt.handle("asked")).result(), PATIENCE)
        record = await rt.get("asked")
    assert result.state is State.TIMEOUT
    assert result.metadata["phase"] == "deadline"
    assert record.ended_at is not None
    assert record.ended_at - record.created_at >= 0.9


async def test_a_cancel_that_was_recorded_is_not_forgotten_with_the_owner(tmp_path: Path) -> None:
    async with reopen(tmp_path) as rt, child(tmp_path, "idempotent") as doomed:
        await doomed.until("started idempotent")
        await stop_between_writes(doomed.process.pid, sqlite_url(tmp_path))  # it cannot read the request any more
        assert await rt.cancel("idempotent", reason="enough")
        await doomed.kill()
        await rt.recover()
        result = await result_of(rt, "idempotent")
        record = await rt.get("idempotent")
    assert result.state is State.CANCELLED
    assert len(effects(tmp_path, "idempotent")) == 1
    assert_sound(record)


async def test_a_worker_process_does_not_outlive_its_runtime(tmp_path: Path) -> None:
    await crash(tmp_path, "in_process")
    pid = int((tmp_path / "pid").read_text())
    await eventually(lambda: not Path(f"/proc/{pid}").exists())
    async with reopen(tmp_path) as rt:
        result = await result_of(rt, "in_process")
    assert result.error is not None
    assert result.error.code == "outcome_unknown"


async def test_a_stopped_owner_that_wakes_up_is_fenced_and_its_result_kept_as_late(tmp_path: Path) -> None:
    """Its lease expired while it was stopped: another process settled the call, once; its own result is not an outcome."""
    async with child(tmp_path, "resumes", lease=0.5, stay=False) as sleeper:
        await sleeper.until("started resumes")
        await stop_between_writes(sleeper.process.pid, sqlite_url(tmp_path))
        async with reopen(tmp_path) as rt:

            async def settled() -> bool:
                await rt.recover()
                return (await rt.state("resumes")).is_terminal

            await eventually(settled)
            assert (await rt.get("resumes")).error is not None
            (tmp_path / "go").touch()
            sleeper.process.send_signal(signal.SIGCONT)

            async def late() -> Any:
                return [e for e in (await rt.get("resumes")).events if e.type == "late_result"]

            [event] = await eventually(late)
            assert "from the old owner" in json.dumps(event.data)
            record = await rt.get("resumes")
            assert_sound(record)
            assert record.error is not None
            assert record.error.code == "outcome_unknown"
            # Its callers get the outcome that counts, and it can close.
            await sleeper.until("result resumes failed None", "closed")
            assert await asyncio.wait_for(sleeper.process.wait(), PATIENCE) == 0


async def test_a_call_that_kills_every_owner_is_given_up(tmp_path: Path) -> None:
    await crash(tmp_path, "idempotent")
    (tmp_path / "idempotent.effects").unlink()
    async with child(tmp_path, max_claims=2) as second:  # claims the call, and dies of it
        await second.until("started idempotent")
        await second.kill()
    (tmp_path / "idempotent.effects").unlink()
    async with child(tmp_path, max_claims=2) as third:
        await third.until("open")
        await third.kill()
    async with reopen(tmp_path, max_claims=2) as rt:
        record = await rt.get("idempotent")
    assert record.state is State.FAILED
    assert record.error is not None
    assert record.error.code == "outcome_unknown"
    assert len(record.attempts) == 2
    assert not effects(tmp_path, "idempotent")


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(s, marks=pytest.mark.slow) for s in range(4, 60))])
async def test_killed_at_any_moment_nothing_acknowledged_is_lost_or_repeated(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with child(tmp_path, "quick*400", max_concurrency=3) as doomed:
        await doomed.until("accepted quick0")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(chance.uniform(0.0, 0.15)):
                await doomed.until("a line that is never said")
        doomed.process.send_signal(signal.SIGKILL)
        assert doomed.process.stdout is not None
        doomed.lines += [line.decode().strip() async for line in doomed.process.stdout]
        await doomed.process.wait()
    accepted = [line.split()[1] for line in doomed.lines if line.startswith("accepted") and len(line.split()) == 2]
    assert accepted
    async with reopen(tmp_path) as rt:
        for id in accepted:
            result = await result_of(rt, id)
            record = await rt.get(id)
            assert_sound(record)
            assert len(effects(tmp_path, id)) <= 1
            if result.success:
                assert result.output == 1
            else:
                assert result.error is not None
                assert result.error.code == "outcome_unknown"
                assert "attempt_started" in types(record)
