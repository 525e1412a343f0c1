"""However a block or its process ends, the session reports it: stops, kills, crashes, freezing between blocks."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.unit.interpreter.session.fake_process import (
    done,
    follow,
    opened,
    outcome,
    pour,
    read_pipe,
)

from clicket.interpreter.sandbox.frames import pack
from clicket.interpreter.session import session as sessions
from clicket.interpreter.session.session import SessionGone


class TestStopping:
    async def test_a_deadline_interrupts(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=0.001)
            await eventually(lambda: process.asked)
            process.say(**done(status="interrupted"))
            assert await outcome(session) == ("interrupted", "timeout")
            assert process.asked[0] == "interrupt"
            assert "kill" not in process.asked
            session.begin("…", name="<block 2>", timeout=5)
            process.say(**done(2))
            assert await outcome(session) == ("ok", None)

    async def test_a_process_that_does_not_stop_is_killed(self) -> None:
        async with opened(grace=0.1) as (session, process):
            session.begin("…", name="<block 1>", timeout=0.001)
            assert await outcome(session) == ("killed", "timeout")
            assert process.asked == ["interrupt", "kill"]
            assert not session.alive
            session.begin("…", name="<block 2>", timeout=5)
            assert await outcome(session) == ("killed", "timeout")

    @pytest.mark.parametrize(("reported", "seen"), [("ok", "interrupted"), ("error", "interrupted"), ("exit", "exit")])
    async def test_a_block_that_stopped_on_request_was_interrupted(self, reported: str, seen: str) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=None)
            stopping = asyncio.ensure_future(session.stop("cancel"))
            await eventually(lambda: process.asked)
            process.say(**done(status=reported, exit_code=3 if reported == "exit" else None))
            await stopping
            _, ended = await follow(session)
            assert (ended.status, ended.reason) == (seen, "cancel" if seen == "interrupted" else None)

    @pytest.mark.parametrize("stopped", [False, True])
    async def test_an_interrupt_that_missed_its_block_does_not_hit_the_next(self, stopped: bool) -> None:
        """The block ended while the signal was in transit. The next block is sent after the worker must have received it."""
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=None)
            stopping = asyncio.ensure_future(session.stop("cancel"))
            await eventually(lambda: process.asked)
            process.say(**done(status="ok"))
            await stopping
            os.read(process.inside_commands, 1000)
            session.begin("…", name="<block 2>", timeout=None)
            assert os.read(process.inside_commands, 1000) == pack({"op": "check", "id": 2, "codes": []})
            if stopped:
                stopping = asyncio.ensure_future(session.stop("cancel"))
                await asyncio.sleep(0)
            assert process.asked == ["interrupt"]  # the second waits, too
            process.say(type="checked", id=2, blocks=[])
            block = pack({"op": "exec", "id": 3, "code": "…", "name": "<block 2>"})
            assert await read_pipe(process.inside_commands) == block
            assert process.asked == ["interrupt"] * (1 + stopped)
            process.say(**done(3, status="interrupted" if stopped else "ok"))
            assert await outcome(session) == (("interrupted", "cancel") if stopped else ("ok", None))
            await stopping

    async def test_an_interrupt_without_a_stop_request_is_an_error(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done(status="interrupted", error={"type": "KeyboardInterrupt", "message": ""}))
            assert await outcome(session) == ("error", None)

    async def test_an_end_that_is_there_already_is_no_interrupt(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done())
            await session.stop("cancel")
            assert await outcome(session) == ("ok", None)
            assert process.asked == []
            await session.stop("cancel")  # no block runs

    async def test_stopping_needs_no_watcher_and_no_room(self) -> None:
        async with opened(max_output=1 << 30) as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            await pour(process, 20_000_000)  # until the pipe is full
            stopping = asyncio.ensure_future(session.stop("cancel"))
            await eventually(lambda: process.asked)
            poured = await pour(process, 20_000_000)
            assert poured == 20_000_000
            process.say(**done(status="interrupted"))
            await stopping
            items, ended = await follow(session)
            assert ended.status == "interrupted"
            assert ended.stdout.size > 20_000_000
            assert sum(len(item.text) for item in items) < 8_000_000

    async def test_a_kill_does_not_wait_for_the_grace(self) -> None:
        async with opened(grace=3600) as (session, process):
            session.begin("…", name="<block 1>", timeout=None)
            stopping = asyncio.ensure_future(session.stop("cancel"))
            await eventually(lambda: process.asked)
            session.kill("cancel")
            session.kill("timeout")
            await stopping
            assert await outcome(session) == ("killed", "cancel")
            assert process.asked == ["interrupt", "kill"]

    async def test_a_kill_between_blocks(self) -> None:
        async with opened() as (session, _):
            session.kill()
            assert not session.alive
            session.begin("…", name="<block 1>", timeout=None)  # the process may not have ended yet
            assert await outcome(session) == ("killed", "cancel")

    async def test_an_unconfirmed_kill(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_KILL_TIMEOUT", 0.01)
        async with opened(grace=0.0) as (session, process):
            process.dies = False
            session.begin("…", name="<block 1>", timeout=0.001)
            assert await outcome(session) == ("killed", "timeout")

    async def test_closing_ends_a_block(self) -> None:
        gc.collect()  # files of earlier tests
        before = set(os.listdir("/proc/self/fd"))
        async with opened() as (session, _):
            session.begin("…", name="<block 1>", timeout=5)
            await session.close()
            assert await outcome(session) == ("killed", "cancel")
            await session.close()
        assert set(os.listdir("/proc/self/fd")) == before


class TestProcessesThatEnd:
    @pytest.mark.parametrize(
        ("how", "seen"),
        [
            ({"signal": int(signal.SIGSEGV)}, ("crashed", "SIGSEGV")),
            ({"signal": 250}, ("crashed", "signal 250")),
            ({"code": 7}, ("crashed", "exit code 7")),
            ({"signal": int(signal.SIGKILL), "memory": True}, ("killed", "memory")),
        ],
    )
    async def test_by_themselves(self, how: dict[str, Any], seen: tuple[str, str]) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            os.write(process.inside_stderr, b"last words")
            process.exit(**how)
            _, ended = await follow(session)
            assert (ended.status, ended.reason, ended.stderr.text) == (*seen, "last words")
            assert ended.detail
            assert not session.alive
            with pytest.raises(SessionGone, match=seen[0]) as caught:
                await session.check(["1"], 1)
            assert caught.value.exit_reason.reason == seen[1]

    async def test_after_the_end_of_the_block(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            os.write(process.inside_stdout, b"out")
            process.say(**done(value="1"))
            process.exit(code=0)
            _, ended = await follow(session)
            assert (ended.status, ended.value, ended.stdout.text) == ("ok", "1", "out")
            await eventually(lambda: not session.alive)
            session.begin("…", name="<block 2>", timeout=5)
            assert await outcome(session) == ("crashed", "exit code 0")

    @pytest.mark.parametrize("what", ["memory", "disk"])
    async def test_by_a_breach(self, what: str) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            assert process.watching
            process.breach.set_result(what)
            assert await outcome(session) == ("killed", what)

    async def test_a_line_that_is_closed_from_inside(self) -> None:
        async with opened(grace=0.01) as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            process.close_inside(process.inside_answers)
            assert await outcome(session) == ("killed", "protocol")

    async def test_a_line_that_breaks_because_the_kernel_killed_the_worker(self) -> None:
        async with opened(grace=0.01) as (session, process):
            process.dies = False
            session.begin("…", name="<block 1>", timeout=5)
            process.close_inside(process.inside_answers)
            await eventually(lambda: "kill" in process.asked)  # it takes the kernel longer to free the memory
            process.exit(signal=9, memory=True)
            assert await outcome(session) == ("killed", "memory")

    async def test_unread_commands(self) -> None:
        async with opened(grace=0.01) as (session, _process):
            session.begin("x" * 1_000_000, name="<block 1>", timeout=0.01)
            assert await outcome(session) == ("killed", "timeout")

    async def test_unreadable_commands(self) -> None:
        async with opened(grace=0.01) as (session, process):
            process.close_inside(process.inside_commands)
            session.begin("…", name="<block 1>", timeout=0.01)
            assert await outcome(session) == ("killed", "timeout")


class TestIdle:
    async def test_frozen_when_idle_and_thawed_on_request(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_FREEZE_AFTER", 0.0)
        async with opened() as (session, process):
            session.idle()
            await eventually(lambda: process.asked == ["freeze"])
            session.idle()
            session.begin("…", name="<block 1>", timeout=5)
            assert process.asked == ["freeze", "thaw"]
            session.idle()  # not while a block runs
            process.say(**done())
            await follow(session)
            session.idle()
            await eventually(lambda: process.asked == ["freeze", "thaw", "freeze"])
            process.say(type="checked", id=2, blocks=[])
            await session.check([], 5)
            assert process.asked[-1] == "thaw"

    async def test_watched_whenever_something_of_it_can_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_FREEZE_AFTER", 0.0)
        async with opened() as (session, process):
            asked = asyncio.ensure_future(session.check([], 5))
            await eventually(lambda: session.busy)
            assert process.watching  # threads of an earlier block may run while the worker compiles
            process.say(type="checked", id=1, blocks=[])
            await asked
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done(id=2))
            await follow(session)
            assert process.watching
            session.idle()
            await eventually(lambda: process.asked == ["freeze"])
            assert not process.watching
            session.begin("…", name="<block 2>", timeout=5)
            assert process.watching

    async def test_a_breach_between_two_blocks_ends_it(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done())
            await follow(session)
            process.breach.set_result("disk")
            await eventually(lambda: not session.alive)
            assert (
                (session.exit_reason.status, session.exit_reason.reason) == ("killed", "disk")
                if session.exit_reason
                else False
            )

    async def test_a_block_that_follows_at_once_needs_no_thaw(self) -> None:
        async with opened() as (session, process):
            session.idle()
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done())
            await follow(session)
            assert process.asked == []
