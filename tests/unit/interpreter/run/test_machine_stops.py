"""Runs that are cancelled, interrupted, killed, stepped or closed: the program is stopped first, and the run ends."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE
from tests.unit.interpreter.run.scripted import (
    GOOD,
    Act,
    ScriptedInterpreter,
    ScriptedSession,
    blocks,
    check_laws,
    states,
    told,
)
from tests.unit.interpreter.session.fake_process import FakeSandbox, FakeSandboxProcess

from clicket.errors import UsageError
from clicket.interpreter import Interpreter
from clicket.interpreter.run.messages import Message
from clicket.interpreter.session.session import Session
from clicket.kernel import CODE, CodeState

# --- stopping -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_cancelled_run_stops_its_program_first(stubborn: bool) -> None:
    async with ScriptedInterpreter([Act(variables=("x",)), Act(waits=True, stubborn=stubborn)]) as scripted:
        running = asyncio.ensure_future(scripted.interpreter.run(blocks("=x", "b", "c")))
        while not scripted.sessions:
            await asyncio.sleep(0)
        await scripted.sessions[0].waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        session = scripted.sessions[0]
        assert session.stops == ["cancel"]
        assert scripted.interpreter.state is CodeState.ERROR
        result = scripted.interpreter.history[-1]
        assert (result.status, result.reason) == ("killed" if stubborn else "interrupted", "cancel")
        assert session.closed is stubborn
        after = await scripted.interpreter.run("?x")
        assert after.status == ("session_lost" if stubborn else "ok")


async def test_a_second_cancel_does_not_wait_for_the_grace_period() -> None:
    async with ScriptedInterpreter([Act(waits=True, deaf=True)]) as scripted:
        running = asyncio.ensure_future(scripted.interpreter.run("a"))
        while not scripted.sessions:
            await asyncio.sleep(0)
        await scripted.sessions[0].waiting.wait()
        running.cancel()
        while not scripted.sessions[0].stops:
            await asyncio.sleep(0)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (scripted.interpreter.history[-1].status, scripted.interpreter.history[-1].reason) == (
            "killed",
            "cancel",
        )
        assert scripted.sessions[0].closed


async def test_a_run_that_is_cancelled_while_its_text_is_looked_at_has_run_nothing() -> None:
    process = FakeSandboxProcess()
    process.say(type="ready", layers=[], python="3.11.7")
    async with Interpreter(start=lambda: Session.start(FakeSandbox(process))) as ci:  # type: ignore[arg-type]
        running = asyncio.ensure_future(ci.run("1 +"))
        async with asyncio.timeout(PATIENCE):
            while ci.session is None or not ci.session.busy:
                await asyncio.sleep(0)
            assert ci.state is CodeState.VALIDATING
            running.cancel()
            while "interrupt" not in process.asked:
                await asyncio.sleep(0)
        process.say(type="checked", id=1, blocks=[{"error": {"type": "SyntaxError", "message": "invalid syntax"}}])
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (ci.history[-1].status, ci.history[-1].reason, ci.history[-1].blocks) == ("interrupted", "cancel", ())
        assert ci.session is not None, "the session is kept"


async def test_a_stream_that_is_closed_early_stops_its_program() -> None:
    async with ScriptedInterpreter([Act(says=("1",), waits=True)]) as scripted:
        async with aclosing(scripted.interpreter.stream(blocks("a", "b"))) as messages:
            async for message in messages:
                if message["type"] == "stdout":
                    break
        assert scripted.sessions[0].stops == ["cancel"]
        assert not scripted.interpreter.busy
        assert (await scripted.interpreter.run("c")).status == "ok"


async def test_a_stream_that_is_closed_before_a_block_is_watched_stops_it_too() -> None:
    async with ScriptedInterpreter([Act(waits=True)]) as scripted:
        async with aclosing(scripted.interpreter.stream("a")) as messages:
            async for message in messages:
                if message["type"] == "code_execution_start":
                    break
        assert scripted.sessions[0].stops == ["cancel"]
        assert (await scripted.interpreter.run("c")).status == "ok"


@pytest.mark.parametrize("stubborn", [False, True])
async def test_interrupt_ends_the_run_with_its_result(stubborn: bool) -> None:
    async with ScriptedInterpreter([Act(), Act(waits=True, stubborn=stubborn)]) as scripted:
        await scripted.interpreter.interrupt()  # no run: no effect
        running = asyncio.ensure_future(told(scripted.interpreter, blocks("a", "b", "c")))
        while not scripted.sessions:
            await asyncio.sleep(0)
        await scripted.sessions[0].waiting.wait()
        await scripted.interpreter.interrupt()
        messages = await running
        check_laws(messages)
        result = scripted.interpreter.history[-1]
        assert (result.status, result.reason) == ("killed" if stubborn else "interrupted", "cancel")
        assert states(messages)[-1] == "error"
        assert len(scripted.sessions[0].begun) == 2


async def test_kill_ends_the_run_at_once() -> None:
    async with ScriptedInterpreter([Act(waits=True)]) as scripted:
        running = asyncio.ensure_future(told(scripted.interpreter, blocks("a", "b")))
        while not scripted.sessions:
            await asyncio.sleep(0)
        await scripted.sessions[0].waiting.wait()
        scripted.interpreter.kill()
        check_laws(await running)
        assert scripted.interpreter.history[-1].status == "killed"
        assert scripted.sessions[0].stops == []


async def test_an_interrupt_that_comes_as_a_block_ends_keeps_what_it_made() -> None:
    async with ScriptedInterpreter([Act(waits=True, lucky=True)]) as scripted:
        running = asyncio.ensure_future(told(scripted.interpreter, blocks("a", "b")))
        while not scripted.sessions:
            await asyncio.sleep(0)
        await scripted.sessions[0].waiting.wait()
        (Path(scripted.folder.name) / "made.txt").write_text("1")
        await scripted.interpreter.interrupt()
        messages = await running
        check_laws(messages)
        result = scripted.interpreter.history[-1]
        assert (result.status, result.reason, [block.status for block in result.blocks]) == (
            "interrupted",
            "cancel",
            ["ok"],
        )
        assert [file.name for file in result.files] == ["made.txt"]


async def test_an_interrupt_between_two_blocks_lets_no_other_begin() -> None:
    async with ScriptedInterpreter([Act(), Act()]) as scripted:
        ci = scripted.interpreter
        ci.begin(blocks("a", "b"))
        messages: list[Message] = []
        while ci.state not in CODE.terminal:
            messages += [message async for message in ci.step()]
            if ci.state is CodeState.EXECUTING and any(m["type"] == "code_execution_complete" for m in messages):
                await ci.interrupt()
        check_laws(messages)
        assert (ci.history[-1].status, ci.history[-1].reason) == ("interrupted", "cancel")
        assert len(scripted.sessions[0].begun) == 1


# --- step by step -------------------------------------------------------------------------------------------------------


async def test_each_step_does_the_work_of_one_state() -> None:
    async with ScriptedInterpreter() as scripted:
        ci = scripted.interpreter
        with pytest.raises(UsageError, match="begin"):
            await anext(ci.step())
        ci.begin(blocks("a"))
        seen = [ci.state]
        while ci.state not in CODE.terminal:
            was = ci.state
            messages = [message async for message in ci.step()]
            assert [m["from"] for m in messages if m["type"] == "state_change"] == [was]
            seen.append(ci.state)
        assert seen == [*GOOD, "collecting", "completed"]
        with pytest.raises(UsageError, match="ended"):
            await anext(ci.step())


async def test_one_run_at_a_time() -> None:
    async with ScriptedInterpreter([Act(waits=True)]) as scripted:
        ci = scripted.interpreter
        ci.begin("a")
        with pytest.raises(UsageError, match="busy"):
            ci.begin("b")
        with pytest.raises(UsageError, match="busy"):
            await ci.run("b")
        while ci.state is not CodeState.MONITORING:
            async for _ in ci.step():
                pass
        step = ci.step()
        first = asyncio.ensure_future(anext(step, None))
        await scripted.sessions[0].waiting.wait()
        for not_now in (ci.reset(), ci.drop("why")):
            with pytest.raises(UsageError, match="run is over"):
                await not_now
        with pytest.raises(UsageError, match="under way"):
            await anext(ci.step())
        await ci.interrupt()
        assert await first is not None
        await step.aclose()
        assert not ci.busy


async def test_an_abandoned_run_is_ended_by_a_reset() -> None:
    async with ScriptedInterpreter([Act(waits=True)]) as scripted:
        ci = scripted.interpreter
        ci.begin("a")
        while ci.state is not CodeState.MONITORING:
            assert [message async for message in ci.step()]
        await ci.reset()
        assert (ci.state, ci.busy, ci.session) == (CodeState.ERROR, False, None)
        assert scripted.sessions[0].stops == ["cancel"]
        assert (await ci.run("b")).warnings == ()


async def test_an_interpreter_that_is_closed_while_a_session_starts_closes_that_too() -> None:
    scripted = ScriptedInterpreter()
    gate = asyncio.Event()
    start = scripted.start

    async def slowly() -> ScriptedSession:
        await gate.wait()
        return await start()

    scripted.start = slowly  # type: ignore[method-assign]
    await scripted.interpreter.open()
    running = asyncio.ensure_future(scripted.interpreter.run("a"))
    while scripted.interpreter.state is not CodeState.VALIDATING:
        await asyncio.sleep(0)
    await scripted.interpreter.close()
    gate.set()
    with pytest.raises(UsageError, match="closed"):
        await running
    with pytest.raises(UsageError, match="closed"):
        await scripted.interpreter.open()
    assert scripted.sessions[0].closed
    scripted.folder.cleanup()


async def test_an_interpreter_that_is_closed_in_a_run_ends_it() -> None:
    async with ScriptedInterpreter([Act(waits=True)]) as scripted:
        running = asyncio.ensure_future(scripted.interpreter.run("a"))
        while not scripted.sessions:
            await asyncio.sleep(0)
        await scripted.sessions[0].waiting.wait()
        await scripted.interpreter.close()
        with pytest.raises(UsageError, match="closed while it ran"):
            await running
