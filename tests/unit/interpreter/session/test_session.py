"""The host's side of a session, with the test at the other end of the pipes: every block ends, whatever arrives or does not."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.unit.interpreter.session.fake_process import (
    READY,
    FakeSandbox,
    FakeSandboxProcess,
    done,
    follow,
    opened,
    outcome,
)

from clicket.errors import UsageError
from clicket.interpreter.sandbox.frames import pack
from clicket.interpreter.session import session as sessions
from clicket.interpreter.session.session import DisplayItem, OutputItem, Session, SessionGone
from clicket.sandbox import Isolation, SandboxFailed


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
            assert process.watching  # until none of its processes can run

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
        process.say(**READY)  # too late: the session was refused
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

    async def test_a_cancelled_start_ends_the_process(self) -> None:
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


class TestRequests:
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

    async def test_an_answer_without_a_waiter(self) -> None:
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


class TestCheckedFirst:
    """A block that the worker compiles first, and runs at once if it compiles."""

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

    async def test_a_kill_says_whether_the_body_had_started(self) -> None:
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
