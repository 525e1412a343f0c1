"""The machine: whatever a session does, only edges of the table, one end, one result, and it is the last thing said."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.interpreter.run.scripted import Act, ScriptedSession
from tests.unit.interpreter.session.fake_process import FakeSandbox, FakeSandboxProcess

from clicket.errors import ClicketError, UsageError
from clicket.interpreter import Interpreter, Result
from clicket.interpreter.session.session import Session
from clicket.kernel import CODE, CodeState

Message = dict[str, Any]
GOOD = ["parsing", "validating", "preparing", "executing", "monitoring"]


class ScriptedInterpreter:
    """An interpreter whose sessions are scripted."""

    def __init__(self, *scripts: list[Act], check: str = "", **options: Any) -> None:
        self.scripts = list(scripts)
        self.sessions: list[ScriptedSession] = []
        self.check = check
        self.folder = tempfile.TemporaryDirectory()
        self.interpreter = Interpreter(start=self._start, **options)  # type: ignore[arg-type]

    async def _start(self) -> ScriptedSession:
        acts = self.scripts.pop(0) if self.scripts else []
        self.sessions.append(ScriptedSession(Path(self.folder.name), acts, check=self.check))
        return self.sessions[-1]

    async def __aenter__(self) -> Self:
        await self.interpreter.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.interpreter.close()
        self.folder.cleanup()
        assert all(session.closed for session in self.sessions)


def blocks(*codes: str) -> str:
    return "Some prose.\n\n" + "\n".join(f"```python\n{code}\n```" for code in codes)


async def told(ci: Interpreter, task: str, **options: Any) -> list[Message]:
    return [message async for message in ci.stream(task, **options)]


def states(messages: list[Message]) -> list[str]:
    """The states in the order in which they were entered, each change beginning where the last one ended."""
    changes = [message for message in messages if message["type"] == "state_change"]
    for before, after in pairwise(changes):
        assert before["to"] == after["from"]
    return [changes[0]["from"], *(change["to"] for change in changes)]


def check_laws(messages: list[Message]) -> None:
    kinds = [message["type"] for message in messages]
    assert kinds.count("final_result") == 1
    assert kinds[-1] == "final_result"
    entered = states(messages)
    for source, target in pairwise(entered):
        assert CodeState(target) in CODE.edges[CodeState(source)]
    assert CodeState(entered[-1]) in CODE.terminal
    assert kinds.count("error") == (entered[-1] == "error")
    started = [message["block_index"] for message in messages if message["type"] == "code_execution_start"]
    over = [
        message["block_index"]
        for message in messages
        if message["type"] in ("code_execution_complete", "code_execution_error")
    ]
    assert started == over == list(range(len(started)))
    assert kinds.count("execution_error") == kinds.count("code_execution_error")
    assert all(isinstance(message["timestamp"], float) for message in messages)


async def test_every_state_is_entered_for_every_block() -> None:
    async with ScriptedInterpreter([Act(says=("1\n",), variables=("x",)), Act(shows=1)]) as scripted:
        messages = await told(scripted.interpreter, blocks("a", "b"))
        check_laws(messages)
        assert states(messages) == [*GOOD, "executing", "monitoring", "collecting", "completed"]
        assert [m["type"] for m in messages if m["type"] != "state_change"] == [
            "progress", "code_execution_start", "stdout", "variable_created", "code_execution_complete",
            "code_execution_start", "display", "code_execution_complete", "final_result",
        ]  # fmt: skip
        assert scripted.interpreter.state is CodeState.COMPLETED
        assert scripted.sessions[0].begun == [("a\n", "<block 1>"), ("b\n", "<block 2>")]
        assert scripted.sessions[0].rested == 1
        await scripted.interpreter.run("c")
        assert scripted.sessions[0].begun[-1] == ("c", "<run 2, block 1>"), "names are never used twice in a session"


async def test_an_ordinary_error_leads_to_the_next_block() -> None:
    async with ScriptedInterpreter(
        [Act(status="error"), Act(status="interrupted", reason="timeout"), Act()]
    ) as scripted:
        messages = await told(scripted.interpreter, blocks("a", "b", "c"))
        check_laws(messages)
        result = scripted.interpreter.history[-1]
        assert (result.status, result.reason, result.fatal) == ("interrupted", "timeout", False)
        assert [block.status for block in result.blocks] == ["error", "interrupted", "ok"]
        assert [error.block_index for error in result.errors] == [0, 1]
        assert result.error == result.errors[1]
        assert states(messages)[-1] == "completed"


@pytest.mark.parametrize(
    ("status", "reason"),
    [("exit", None), ("killed", "memory"), ("killed", "timeout"), ("killed", "disk"), ("crashed", "SIGSEGV")],
)
async def test_a_fatal_end_stops_the_run_and_the_session(status: str, reason: str | None) -> None:
    acts = [Act(variables=("x",)), Act(status=status, reason=reason), Act()]
    async with ScriptedInterpreter(acts) as scripted:
        messages = await told(scripted.interpreter, blocks("=x", "=y", "never"))
        check_laws(messages)
        result = scripted.interpreter.history[-1]
        assert (result.status, result.reason, result.fatal) == (status, reason, True)
        assert states(messages)[-2:] == ["collecting", "error"]
        assert messages[-2]["type"] == "error"
        assert (messages[-2]["step"], messages[-2]["message"]) == (1, result.error.message if result.error else "")
        assert len(result.blocks) == 2
        assert scripted.sessions[0].closed
        assert result.exit_code == (3 if status == "exit" else None)

        notice = (await scripted.interpreter.run("z")).notices[0]
        assert "x, y" in notice, "y was about to be made when it ended"
        lost = await scripted.interpreter.run("?x ?y =y")
        assert lost.status == "session_lost"
        assert "reads x," in (lost.error.message if lost.error else "")
        assert scripted.sessions[-1].begun == [("z", "<block 1>")], "nothing was run"
        assert (await scripted.interpreter.run("?x")).status == "ok", "said once, then it starts without complaint"


async def test_names_made_again_are_not_missed() -> None:
    async with ScriptedInterpreter([Act(variables=("x", "y")), Act(status="crashed", reason="SIGKILL")]) as scripted:
        await scripted.interpreter.run("=x")
        await scripted.interpreter.run("boom")
        assert (await scripted.interpreter.run(blocks("=x", "?x"))).status == "ok"
        assert (await scripted.interpreter.run("?y")).status == "session_lost"


async def test_a_session_that_had_no_names_is_told_of_but_not_missed() -> None:
    async with ScriptedInterpreter([Act(status="crashed", reason="SIGSEGV")]) as scripted:
        await scripted.interpreter.run("boom")
        first, second = await scripted.interpreter.run("?x"), await scripted.interpreter.run("?x")
        assert ([result.status for result in (first, second)], second.notices) == (["ok", "ok"], ())
        [notice] = first.notices
        assert "crashed (SIGSEGV)" in notice


async def test_a_session_that_ended_between_two_runs_is_told() -> None:
    async with ScriptedInterpreter([Act(variables=("x",))]) as scripted:
        await scripted.interpreter.run("=x")
        scripted.sessions[0].kill("memory")
        result = await scripted.interpreter.run("?x")
        assert result.status == "session_lost"
        assert "between two runs (killed: memory)" in (result.error.message if result.error else "")


@pytest.mark.parametrize(
    ("task", "state", "words"),
    [
        ("", "parsing", "no Python"),
        ("```bash\nls\n```", "parsing", "bash block at line 1"),
        ("```python\n\n```", "parsing", "empty"),
        ("x" * (1024 * 1024 + 1), "parsing", "1,048,577 bytes"),
        ("a\nb\ud800", "parsing", "line 2"),
        ("a\nb\0", "validating", "NUL character in its line 2"),
        (blocks(*"abcd"), "validating", "4 Python blocks and max_steps is 3"),
        (blocks("a", "b !!", "c"), "validating", "invalid syntax (block 2, line 1). Nothing was run."),
        ("!! prose", "validating", "no fenced block"),
        ("%matplotlib inline !!", "validating", "notebook"),
        ("- x\n" * 70_000 + "\n```\nx\n```", "parsing", "50,000"),
    ],
)
async def test_what_cannot_run_is_refused_before_anything_runs(task: str, state: str, words: str) -> None:
    async with ScriptedInterpreter(max_steps=3) as scripted:
        messages = await told(scripted.interpreter, task)
        check_laws(messages)
        result = scripted.interpreter.history[-1]
        assert (result.status, result.fatal, result.blocks) == ("error", True, ())
        assert words in messages[-2]["message"]
        assert messages[-2]["state"] == state
        assert all(session.begun == [] for session in scripted.sessions)


async def test_a_string_with_a_fence_in_it_is_joined() -> None:
    task = 'prose\n```python\ns = """\n```\n```sh\n```\n"""\n```\nand\n```python\nlast\n```\n'
    async with ScriptedInterpreter() as scripted:
        messages = await told(scripted.interpreter, task)
        check_laws(messages)
        assert [code for code, _ in scripted.sessions[0].begun] == ['s = """\n```\n```sh\n```\n"""\n', "last\n"]
        assert scripted.interpreter.history[-1].skipped == (), "what is in a string is no block"
        assert [block.lines for block in scripted.interpreter.history[-1].blocks] == [(1, 8), (9, 12)]
        again = await told(scripted.interpreter, task.replace("```sh", "text"))
        assert [m["code_blocks_count"] for m in again if m["type"] == "progress"] == [3, 2]


async def test_code_with_fences_in_its_strings_is_bare_code() -> None:
    task = 'doc = """\n```python\nnot_me()\n```\n"""\n'
    async with ScriptedInterpreter() as scripted:
        result = await scripted.interpreter.run(task)
        assert [block.code for block in result.blocks] == [task]
        assert result.blocks[0].lines is None
        for shell in (
            'doc = """\n```sh\nls\n```\n"""\n',
            'doc = """\n```"""\n',
        ):  # nothing there that looks like Python
            result = await scripted.interpreter.run(shell)
            assert [block.code for block in result.blocks] == [shell]
            assert result.skipped == ()
        result = await scripted.interpreter.run("!! prose\n```sh\nls\n```\n")
        assert "There is only: sh block at line 2" in (result.error.message if result.error else "")


async def test_a_check_that_ends_the_session_ends_the_run() -> None:
    async with ScriptedInterpreter(check="timeout") as scripted:
        messages = await told(scripted.interpreter, "a")
        check_laws(messages)
        result = scripted.interpreter.history[-1]
        assert (result.status, result.reason) == ("killed", "timeout")
        assert scripted.sessions[0].closed


async def test_imports_skipped_and_variables_are_summed_up() -> None:
    async with ScriptedInterpreter([Act(variables=("x",)), Act(variables=("x", "y"))]) as scripted:
        result = await scripted.interpreter.run(blocks("@os", "@re @os") + "\n```sh\nls\n```\n")
        assert result.imports == ("os", "re")
        assert result.variables.names == ("x", "y")
        assert [skipped.why for skipped in result.skipped] == ["only Python is run"]


async def test_results_are_kept_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "clicket.interpreter.run.result_builder._MAX_DISPLAYED", 3 * sys.getsizeof("x" * 3) - 1
    )  # two, and not three
    monkeypatch.setattr("clicket.interpreter.interpreter._HISTORY", 3)
    async with ScriptedInterpreter([Act(shows=4)]) as scripted:
        messages = await told(scripted.interpreter, "a")
        assert sum(m["type"] == "display" for m in messages) == 4, "live, all are shown"
        result = scripted.interpreter.history[-1]
        assert (len(result.displays), len(result.skipped)) == (2, 1)
        for _ in range(4):
            await scripted.interpreter.run("b")
        assert len(scripted.interpreter.history) == 3
        monkeypatch.setattr("clicket.interpreter.interpreter._HISTORY_SIZE", 5)
        monkeypatch.setattr("clicket.interpreter.interpreter._LARGE", 1)
        await scripted.interpreter.run("c")
        assert len(scripted.interpreter.history) < 3
        assert scripted.interpreter.history[-1].task == "c"


async def test_a_session_that_does_not_start_is_raised_and_the_next_run_tries_again() -> None:
    attempts: list[int] = []
    async with ScriptedInterpreter() as scripted:
        start = scripted._start

        async def fail_once() -> ScriptedSession:
            attempts.append(1)
            if len(attempts) == 1:
                raise ClicketError("no sandbox today")
            return await start()

        scripted.interpreter._slot._start = fail_once  # type: ignore[assignment]
        with pytest.raises(ClicketError, match="no sandbox today"):
            await scripted.interpreter.run("a")
        assert scripted.interpreter.state is CodeState.ERROR
        assert scripted.interpreter.history == []
        assert (await scripted.interpreter.run("a")).status == "ok"


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


async def test_who_cancels_twice_does_not_wait_for_the_grace() -> None:
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
        async with asyncio.timeout(20):
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
        assert ci.session is not None, "it is kept"


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
        await scripted.interpreter.interrupt()  # nothing runs: nothing happens
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


async def test_a_run_that_nobody_steps_any_more_is_ended_by_a_reset() -> None:
    async with ScriptedInterpreter([Act(waits=True)]) as scripted:
        ci = scripted.interpreter
        ci.begin("a")
        while ci.state is not CodeState.MONITORING:
            assert [message async for message in ci.step()]
        await ci.reset()
        assert (ci.state, ci.busy, ci.session) == (CodeState.ERROR, False, None)
        assert scripted.sessions[0].stops == ["cancel"]
        assert (await ci.run("b")).notices == ()


async def test_an_interpreter_that_is_closed_while_a_session_starts_closes_that_too() -> None:
    scripted = ScriptedInterpreter()
    gate = asyncio.Event()
    start = scripted._start

    async def slowly() -> ScriptedSession:
        await gate.wait()
        return await start()

    scripted.interpreter._slot._start = slowly  # type: ignore[assignment]
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


ACTS = st.builds(
    Act,
    status=st.sampled_from(["ok", "ok", "error", "interrupted", "exit", "killed", "crashed"]),
    reason=st.sampled_from(["timeout", "memory", "SIGSEGV"]),
    says=st.lists(st.sampled_from(["1\n", "", "é"]), max_size=2).map(tuple),
    shows=st.integers(0, 1),
    variables=st.lists(st.sampled_from("xyz"), max_size=2, unique=True).map(tuple),
)
CODES = st.lists(st.sampled_from(["a", "=x", "?x", "?y =y", "!!", "@os", '"""', "", "\0"]), max_size=5)


def without_times(messages: list[Message]) -> list[Message]:
    plain = []
    for message in messages:
        kept = {name: value for name, value in message.items() if name not in ("timestamp", "duration")}
        if "result" in kept:
            kept["result"] = {
                name: value for name, value in kept["result"].items() if name not in ("duration", "blocks")
            }
        plain.append(kept)
    return plain


def plain_of(result: Result) -> list[Any]:
    """A result without its times, single blocks and all."""
    blocks = [msgspec.structs.replace(block, duration=0.0) for block in result.blocks]
    plain = msgspec.structs.replace(result, duration=0.0, blocks=tuple(blocks))
    return [plain.to_json(), *(msgspec.to_builtins(block) for block in plain.blocks)]


async def by_steps(ci: Interpreter, task: str) -> AsyncIterator[Message]:
    ci.begin(task)
    while ci.state not in CODE.terminal:
        async for message in ci.step():
            yield message


@settings(max_examples=80, deadline=None)
@given(acts=st.lists(st.lists(ACTS, max_size=6), min_size=1, max_size=4), tasks=st.lists(CODES, min_size=1, max_size=4))
def test_laws_hold_for_every_script(acts: list[list[Act]], tasks: list[list[str]]) -> None:
    async def main() -> None:
        async with (
            ScriptedInterpreter(*acts, max_steps=4) as whole,
            ScriptedInterpreter(*acts, max_steps=4) as stepped,
            ScriptedInterpreter(*acts, max_steps=4) as plain,
        ):
            for codes in tasks:
                task = codes[0] if len(codes) == 1 else blocks(*codes)
                messages = await told(whole.interpreter, task)
                check_laws(messages)
                same = [message async for message in by_steps(stepped.interpreter, task)]
                assert without_times(messages) == without_times(same)
                result = whole.interpreter.history[-1]
                ran = plain_of(await plain.interpreter.run(task))
                assert ran == plain_of(result), "run, stream and step come to the same"
                assert plain.interpreter.state is whole.interpreter.state
                assert result.to_json() == messages[-1]["result"]
                assert result.fatal == (whole.interpreter.state is CodeState.ERROR)
                if result.status in ("exit", "killed", "crashed"):
                    assert whole.interpreter.session is None

    asyncio.run(main())
