"""The host's side of a session, with nobody behind the pipes but the test: every block ends, whatever comes or does not come."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.waiting import eventually
from tests.unit.interpreter.session.fake_process import FakeSandbox, FakeSandboxProcess

from clicket.errors import UsageError
from clicket.interpreter.session import session as sessions
from clicket.interpreter.session.session import BlockEnd, DisplayItem, OutputItem, Session, SessionGone
from clicket.sandbox import Isolation, SandboxFailed
from clicket.sandbox.frames import pack

READY = {"type": "ready", "layers": ["seccomp"], "python": "3.11.7"}


def done(id: int = 1, status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "done", "id": id, "status": status, **more}


@contextlib.asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[tuple[Session, FakeSandboxProcess]]:
    """A session that is ready. No exception may get lost in the loop meanwhile."""
    lost: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    process = FakeSandboxProcess()
    process.say(**READY)
    session = await Session.start(FakeSandbox(process), **options)
    try:
        yield session, process
    finally:
        await session.close()
        asyncio.get_running_loop().set_exception_handler(None)
    assert lost == []


async def follow(session: Session) -> tuple[list[Any], BlockEnd]:
    async with asyncio.timeout(20):
        *items, ended = [item async for item in session.watch()]
    assert isinstance(ended, BlockEnd)
    return items, ended


async def outcome(session: Session) -> tuple[str, str | None]:
    _, ended = await follow(session)
    return ended.status, ended.reason


class TestBlocks:
    async def test_all_that_was_written_before_the_end_comes_before_it(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            process.say(
                **done(value="42", names=["x"], variables=[{"name": "x", "type": "int", "value": "42"}], threads=1)
            )
            os.write(process.inside_stdout, b"a" * 50_000)
            os.write(process.inside_stderr, b"warned")
            items, ended = await follow(session)
            assert {(item.stream, len(item.text)) for item in items} == {("stdout", 50_000), ("stderr", 6)}
            assert (ended.status, ended.value, ended.threads) == ("ok", "42", 1)
            assert (ended.stdout.text, ended.stderr.text) == ("a" * 50_000, "warned")
            assert ended.variables[0].name == "x"
            assert session.names == ended.names == {"x"}
            assert session.alive
            assert not session.busy
            assert process.watching  # until nothing of it can run

    async def test_what_is_shown_comes_after_what_was_written_before_it(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            os.write(process.inside_stdout, b"before")
            process.say(type="display", id=1, group=2, mime="text/html", data="<b>")
            watching = session.watch()
            assert [await anext(watching), await anext(watching)] == [
                OutputItem(stream="stdout", text="before"),
                DisplayItem(mime="text/html", data="<b>", group=2),
            ]
            process.say(**done())
            assert [item.status async for item in watching] == ["ok"]

    async def test_text_is_whole_characters_and_merged_until_it_is_taken(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            for byte in "naïve 😀".encode() + b"\xff":
                os.write(process.inside_stdout, bytes([byte]))
                await asyncio.sleep(0)
            process.say(**done())
            await eventually(lambda: not session.busy)
            items, ended = await follow(session)
            assert [item.text for item in items] == [ended.stdout.text] == ["naïve 😀\ufffd"]

    async def test_the_command_is_sent_as_the_worker_reads_it(self) -> None:
        async with opened() as (session, process):
            session.begin("print(1)", name="<block 1>", timeout=5)
            frame = pack({"op": "exec", "id": 1, "code": "print(1)", "name": "<block 1>"})
            assert os.read(process.inside_commands, 1000) == frame

    async def test_a_command_larger_than_the_pipe_does_not_block(self) -> None:
        async with opened() as (session, process):
            session.begin("x" * 1_000_000, name="<block 1>", timeout=None)
            got = b""
            while len(got) < 1_000_000:
                with contextlib.suppress(BlockingIOError):
                    got += os.read(process.inside_commands, 1 << 20)
                await asyncio.sleep(0)
            assert got.count(b"x") >= 1_000_000
            process.say(**done())
            assert await outcome(session) == ("ok", None)

    async def test_output_between_blocks_waits_for_the_next(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done())
            await follow(session)
            os.write(process.inside_stdout, b"late")
            await asyncio.sleep(0)
            session.begin("…", name="<block 2>", timeout=5)
            process.say(**done(2))
            assert (await follow(session))[1].stdout.text == "late"

    async def test_one_block_at_a_time(self) -> None:
        async with opened() as (session, process):
            with pytest.raises(UsageError, match="no block was begun"):
                await anext(session.watch())
            session.begin("…", name="<block 1>", timeout=5)
            with pytest.raises(UsageError, match="busy"):
                session.begin("…", name="<block 2>", timeout=5)
            with pytest.raises(UsageError, match="busy"):
                await session.check(["1"], 1)
            first = session.watch()
            waiting = asyncio.ensure_future(anext(first))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="reader"):
                await anext(session.watch())
            process.say(**done())
            assert (await waiting).status == "ok"
        with pytest.raises(UsageError, match="closed"):
            session.begin("…", name="<block 2>", timeout=5)


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

    async def test_who_does_not_stop_is_killed(self) -> None:
        async with opened(grace=0.1) as (session, process):
            session.begin("…", name="<block 1>", timeout=0.001)
            assert await outcome(session) == ("killed", "timeout")
            assert process.asked == ["interrupt", "kill"]
            assert not session.alive
            session.begin("…", name="<block 2>", timeout=5)
            assert await outcome(session) == ("killed", "timeout")

    @pytest.mark.parametrize(("told", "seen"), [("ok", "interrupted"), ("error", "interrupted"), ("exit", "exit")])
    async def test_who_was_asked_and_stopped_was_interrupted(self, told: str, seen: str) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=None)
            stopping = asyncio.ensure_future(session.stop("cancel"))
            await eventually(lambda: process.asked)
            process.say(**done(status=told, exit_code=3 if told == "exit" else None))
            await stopping
            _, ended = await follow(session)
            assert (ended.status, ended.reason) == (seen, "cancel" if seen == "interrupted" else None)

    @pytest.mark.parametrize("stopped", [False, True])
    async def test_an_interrupt_that_missed_its_block_does_not_hit_the_next(self, stopped: bool) -> None:
        """The block ended while the signal was on its way. The next one is sent when the worker must have seen it."""
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
            assert await _read(process.inside_commands) == block
            assert process.asked == ["interrupt"] * (1 + stopped)
            process.say(**done(3, status="interrupted" if stopped else "ok"))
            assert await outcome(session) == (("interrupted", "cancel") if stopped else ("ok", None))
            await stopping

    async def test_nobody_asked(self) -> None:
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
            await session.stop("cancel")  # nothing runs

    async def test_stopping_needs_no_watcher_and_no_room(self) -> None:
        async with opened(max_output=1 << 30) as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            await _pour(process, 20_000_000)  # until nobody takes more
            stopping = asyncio.ensure_future(session.stop("cancel"))
            await eventually(lambda: process.asked)
            poured = await _pour(process, 20_000_000)
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
            session.begin("…", name="<block 1>", timeout=None)  # the cage may not have ended yet
            assert await outcome(session) == ("killed", "cancel")

    async def test_a_kill_that_nobody_confirms(self, monkeypatch: pytest.MonkeyPatch) -> None:
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


class TestCagesThatEnd:
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
            os.close(process.inside_answers)
            process._fds.remove(process.inside_answers)
            assert await outcome(session) == ("killed", "protocol")

    async def test_commands_that_nobody_reads(self) -> None:
        async with opened(grace=0.01) as (session, _process):
            session.begin("x" * 1_000_000, name="<block 1>", timeout=0.01)
            assert await outcome(session) == ("killed", "timeout")

    async def test_commands_that_nobody_can_read(self) -> None:
        async with opened(grace=0.01) as (session, process):
            os.close(process.inside_commands)
            process._fds.remove(process.inside_commands)
            session.begin("…", name="<block 1>", timeout=0.01)
            assert await outcome(session) == ("killed", "timeout")


class TestStart:
    async def test_ready(self) -> None:
        async with opened() as (session, _):
            assert (session.python, session.layers, session.isolation.level) == ("3.11.7", ("seccomp",), "none")
            assert session.alive
            assert not session.busy
            assert session.exit_reason is None

    async def test_refused(self) -> None:
        process = FakeSandboxProcess()
        process.say(type="refused", layer="landlock", message="Function not implemented")
        process.say(**READY)  # too late: it was refused
        with pytest.raises(SandboxFailed, match="landlock does not hold: Function not implemented"):
            await Session.start(FakeSandbox(process))

    async def test_ready_without_a_layer_that_was_found_to_work(self) -> None:
        process = FakeSandboxProcess()
        process.isolation = Isolation(level="full", layers=("environment", "landlock", "seccomp"))
        process.say(**READY)
        with pytest.raises(SandboxFailed, match="landlock"):
            await Session.start(FakeSandbox(process))

    async def test_gone_before_it_was_ready(self) -> None:
        process = FakeSandboxProcess()
        os.write(process.inside_stderr, b"bwrap: no room\n")
        process.exit(code=1)
        with pytest.raises(SandboxFailed, match=r"exit code 1\. It wrote: bwrap: no room"):
            await Session.start(FakeSandbox(process))

    async def test_never_ready(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_START_TIMEOUT", 0.01)
        with pytest.raises(SandboxFailed, match="not ready after"):
            await Session.start(FakeSandbox(FakeSandboxProcess()))

    async def test_nobody_waits_any_more(self) -> None:
        process = FakeSandboxProcess()
        starting = asyncio.ensure_future(Session.start(FakeSandbox(process)))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert process.exited.done()


CHECKED: dict[str, Any] = {
    "type": "checked",
    "id": 1,
    "blocks": [{"imports": ["os"], "loads": ["x"], "stores": ["y"]}],
}


class TestQuestions:
    async def test_answers(self) -> None:
        async with opened() as (session, process):
            process.say(**CHECKED)
            asking = asyncio.ensure_future(session.check(["import os; y = x"], 5))
            (block,) = await asking
            assert (block.error, block.imports, block.loads, block.stores) == (None, ("os",), ("x",), ("y",))
            process.say(type="preloaded", id=2, modules=["numpy"])
            assert await session.preload(["numpy", "nothing"], 5) == ["numpy"]

    async def test_modules_that_end_the_session_are_not_loaded(self) -> None:
        async with opened() as (session, process):
            loading = asyncio.ensure_future(session.preload(["suicidal"], 20))
            await asyncio.sleep(0)
            process.exit(signal=11)
            assert await loading == []
            assert not session.alive

    @pytest.mark.parametrize(
        "frame",
        [CHECKED | {"blocks": []}, done(), {"type": "preloaded", "id": 1, "modules": []}, CHECKED | {"id": 2}],
        ids=["count", "done", "other", "future"],
    )
    async def test_wrong_answers(self, frame: dict[str, Any]) -> None:
        async with opened() as (session, process):
            asking = asyncio.ensure_future(session.check(["1"], 5))
            await asyncio.sleep(0)
            process.say(**frame)
            with pytest.raises(SessionGone, match="protocol"):
                await asking

    async def test_no_answer(self) -> None:
        async with opened() as (session, process):
            with pytest.raises(SessionGone) as caught:
                await session.check(["1"], 0.01)
            assert caught.value.exit_reason.reason == "timeout"
            assert process.asked == ["kill"]

    async def test_an_answer_that_nobody_waits_for_any_more(self) -> None:
        async with opened() as (session, process):
            asking = asyncio.ensure_future(session.check(["1"], 5))
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            process.say(**CHECKED)
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done(2))
            assert await outcome(session) == ("ok", None)


class TestLookedAtFirst:
    """A block that the worker compiles first, and runs at once when that went well."""

    async def test_what_compiles_runs(self) -> None:
        seen: list[Any] = []
        async with opened() as (session, process):
            session.begin("y = x", name="<block 1>", timeout=5, on_checked=seen.append)
            order = {"op": "exec", "id": 1, "code": "y = x", "name": "<block 1>", "check": True}
            assert os.read(process.inside_commands, 1000) == pack(order)
            process.say(**CHECKED)
            os.write(process.inside_stdout, b"out")
            process.say(**done(value="1"))
            _, ended = await follow(session)
            assert (ended.status, ended.value, ended.stdout.text) == ("ok", "1", "out")
            assert [block.loads for block in seen] == [("x",)]

    async def test_what_does_not_compile_ends_there(self) -> None:
        seen: list[Any] = []
        async with opened() as (session, process):
            session.begin("1 +", name="<block 1>", timeout=5, on_checked=seen.append)
            process.say(type="checked", id=1, blocks=[{"error": {"type": "SyntaxError", "message": "no"}}])
            assert await outcome(session) == ("error", None)
            assert seen[0].error.type == "SyntaxError"
            session.begin("…", name="<block 2>", timeout=5)
            process.say(**done(2))
            assert await outcome(session) == ("ok", None)

    @pytest.mark.parametrize(
        "frame",
        [done(), CHECKED | {"blocks": []}, {"type": "display", "id": 1, "group": 0, "mime": "a", "data": ""}],
        ids=["done", "none", "display"],
    )
    async def test_anything_before_the_look_is_a_violation(self, frame: dict[str, Any]) -> None:
        seen: list[Any] = []
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5, on_checked=seen.append)
            process.say(**frame)
            assert await outcome(session) == ("killed", "protocol")
            assert seen == []

    async def test_a_second_look_is_a_violation(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5, on_checked=lambda _: None)
            process.say(**CHECKED)
            process.say(**CHECKED)
            assert await outcome(session) == ("killed", "protocol")

    async def test_the_time_of_the_block_begins_after_the_look(self) -> None:
        async with opened(grace=0.01) as (session, process):
            session.begin("…", name="<block 1>", timeout=0.01, on_checked=lambda _: None)
            await asyncio.sleep(0.03)
            assert process.asked == []
            process.say(**CHECKED)
            assert await outcome(session) == ("killed", "timeout")

    async def test_a_look_that_does_not_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_CHECK_TIMEOUT", 0.01)
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=None, on_checked=lambda _: None)
            assert await outcome(session) == ("killed", "timeout")
            assert process.asked == ["kill"]

    async def test_whoever_kills_it_knows_whether_it_runs_already(self) -> None:
        seen: list[Any] = []
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=None, on_checked=seen.append)
            process.say(**CHECKED)
            session.kill("cancel")
            assert len(seen) == 1
            assert await outcome(session) == ("killed", "cancel")

    async def test_output_that_is_there_before_the_look_belongs_to_a_block_that_runs(self) -> None:
        async with opened() as (session, process):
            os.write(process.inside_stdout, b"early")
            session.begin("1 +", name="<block 1>", timeout=5, on_checked=lambda _: None)
            process.say(type="checked", id=1, blocks=[{"error": {"type": "SyntaxError", "message": "no"}}])
            _, ended = await follow(session)
            assert ended.stdout.text == ""
            session.begin("…", name="<block 2>", timeout=5, on_checked=lambda _: None)
            process.say(**CHECKED | {"id": 2})
            process.say(**done(2))
            _, ended = await follow(session)
            assert ended.stdout.text == "early"

    async def test_stopped_while_it_is_looked_at(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=None, on_checked=lambda _: None)
            stopping = asyncio.ensure_future(session.stop("cancel"))
            await eventually(lambda: process.asked)
            process.say(**CHECKED)
            process.say(**done(status="interrupted"))
            await stopping
            assert await outcome(session) == ("interrupted", "cancel")


class TestRest:
    async def test_frozen_when_idle_and_thawed_when_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
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
            assert process.watching  # what an earlier block left behind may run while the worker compiles
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


class TestOutput:
    async def test_what_is_shown_weighs_what_it_takes_of_our_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_MAX_DISPLAYED", 100_000)
        for text, outcome_ in (("x" * 40_000, "ok"), ("x" * 40_000 + "\N{GRINNING FACE}", "killed")):
            async with opened() as (session, process):
                session.begin("…", name="<block 1>", timeout=5)
                process.say(type="display", id=1, group=1, mime="text/plain", data=text)
                if outcome_ == "ok":
                    process.say(**done())
                assert (await follow(session))[1].status == outcome_

    async def test_more_than_it_may(self) -> None:
        async with opened(max_output=100_000, kept_output=1_000) as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            await _pour(process, 1_000_000)
            _, ended = await follow(session)
            assert (ended.status, ended.reason) == ("killed", "output")
            assert ended.stdout.cut
            assert len(ended.stdout.text) < 1_100
            assert ended.stdout.spool is not None
            assert ended.stdout.spool.size >= 100_000

    async def test_shows_more_than_it_may(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_MAX_DISPLAYED", 6_000)
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            for _ in range(20):
                process.say(type="display", id=1, group=0, mime="text/plain", data="x" * 100)
            items, ended = await follow(session)
            assert (ended.status, ended.reason) == ("killed", "output")
            assert 1 < len(items) < 10

    async def test_what_nobody_takes_does_not_grow(self) -> None:
        async with opened(max_output=1 << 30) as (session, process):
            session.begin("…", name="<block 1>", timeout=None)
            poured = await _pour(process, 50_000_000)
            assert 4_000_000 < poured < 8_000_000
            watching = session.watch()
            got = len((await anext(watching)).text)  # who takes makes room
            assert await _pour(process, 1_000_000) == 1_000_000
            process.say(**done())
            async for item in watching:
                got += len(item.text) if isinstance(item, OutputItem) else 0
            assert got == poured + 1_000_000

    async def test_pictures_count_too(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            os.set_blocking(process.inside_answers, False)
            frame, sent = pack({"type": "display", "id": 1, "group": 0, "mime": "image/png", "data": "x" * 30_000}), 0
            for _ in range(3_000):
                with contextlib.suppress(BlockingIOError):
                    os.write(process.inside_answers, frame)
                    sent += len(frame)
                await asyncio.sleep(0)
            assert 4_000_000 < sent < 6_000_000


async def _read(fd: int) -> bytes:
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(BlockingIOError):
                return os.read(fd, 1000)
            await asyncio.sleep(0.001)


async def _pour(process: FakeSandboxProcess, size: int) -> int:
    """Write until all is written, or nobody has read for a while."""
    os.set_blocking(process.inside_stdout, False)
    poured = refused = 0
    while poured < size and refused < 200:
        try:
            poured += os.write(process.inside_stdout, b"x" * min(65_536, size - poured))
            refused = 0
        except BlockingIOError:
            refused += 1
        await asyncio.sleep(0)
    return poured


class TestProtocol:
    @pytest.mark.parametrize(
        "data",
        [
            pack(done(2)),
            pack(READY),
            pack({"type": "refused", "layer": "x", "message": "y"}),
            pack({"type": "checked", "id": 1, "blocks": []}),
            pack({"type": "display", "id": 9, "group": 0, "mime": "a", "data": ""}),
            b"\xff\xff\xff\xff",
            b"hello world, this is no frame",
            b"\0\0\0\0",
            (5).to_bytes(4, "big") + b"[[[[[",
        ],
        ids=lambda data: data[:30].decode("latin-1"),
    )
    async def test_violations(self, data: bytes) -> None:
        async with opened(grace=0.05) as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            os.write(process.inside_answers, data)
            _, ended = await follow(session)
            assert (ended.status, ended.reason) == ("killed", "protocol")
            assert ended.detail

    async def test_half_a_frame_is_waited_for_until_the_deadline(self) -> None:
        async with opened(grace=0.01) as (session, process):
            session.begin("…", name="<block 1>", timeout=0.05)
            os.write(process.inside_answers, pack(done())[:-1])
            assert await outcome(session) == ("killed", "timeout")

    async def test_a_forged_end_harms_nobody(self) -> None:
        """The program says that it has ended and goes on. The true end comes later, and belongs to nobody."""
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done(value="forged"))
            assert (await follow(session))[1].value == "forged"
            process.say(**done(value="true"))
            session.begin("…", name="<block 2>", timeout=5)
            process.say(type="display", id=1, group=0, mime="a", data="old")
            process.say(**done(2, value="next"))
            items, ended = await follow(session)
            assert (items, ended.value) == ([], "next")

    async def test_late_answers_without_end(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done())
            await follow(session)
            for _ in range(1_025):
                process.say(**done())
                await asyncio.sleep(0)
            await eventually(lambda: session.exit_reason is not None)
            session.begin("…", name="<block 2>", timeout=5)
            assert await outcome(session) == ("killed", "protocol")

    @settings(max_examples=40)
    @given(
        st.lists(
            st.one_of(
                st.binary(max_size=40),
                st.sampled_from([done(), done(2), READY, {"type": "checked", "id": 1, "blocks": []}]).map(pack),
                st.builds(
                    lambda number, data: pack({"type": "display", "id": number, "group": 0, "mime": "t", "data": data}),
                    st.integers(0, 2),
                    st.text(st.characters(codec="utf-8"), max_size=10),
                ),
            ),
            max_size=6,
        ),
        st.binary(max_size=30),
    )
    def test_whatever_comes_the_block_ends(self, sent: list[bytes], output: bytes) -> None:
        async def check() -> None:
            async with opened(grace=0.001) as (session, process):
                session.begin("…", name="<block 1>", timeout=0.003)
                os.write(process.inside_stdout, output)
                for data in sent:
                    os.write(process.inside_answers, data)
                    await asyncio.sleep(0)
                _, ended = await follow(session)
                assert (ended.status, ended.reason) in {
                    ("ok", None),
                    ("interrupted", "timeout"),
                    ("killed", "protocol"),
                    ("killed", "timeout"),
                }
                assert ended.stdout.text == output.decode("utf-8", "replace")

        asyncio.run(check())
