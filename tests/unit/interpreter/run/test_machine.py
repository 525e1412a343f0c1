"""The machine: for any behaviour of a session, only edges of the table, one end, and one result, which is the last message."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples
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

from clicket.errors import ClicketError
from clicket.interpreter import Interpreter, Result
from clicket.kernel import CODE, CodeState

Message = dict[str, Any]


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
        assert scripted.sessions[0].begun[-1] == ("c", "<run 2, block 1>"), "names are unique in a session"


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

        warning = (await scripted.interpreter.run("z")).warnings[0]
        assert "x, y" in warning, "y was being made when it ended"
        lost = await scripted.interpreter.run("?x ?y =y")
        assert lost.status == "session_lost"
        assert "reads x " in (lost.error.message if lost.error else "")
        assert scripted.sessions[-1].begun == [("z", "<block 1>")], "nothing was run"
        assert (await scripted.interpreter.run("?x")).status == "ok", "reported once, then it starts normally"


async def test_names_made_again_are_not_missed() -> None:
    async with ScriptedInterpreter([Act(variables=("x", "y")), Act(status="crashed", reason="SIGKILL")]) as scripted:
        await scripted.interpreter.run("=x")
        await scripted.interpreter.run("boom")
        assert (await scripted.interpreter.run(blocks("=x", "?x"))).status == "ok"
        assert (await scripted.interpreter.run("?y")).status == "session_lost"


async def test_the_loss_of_a_session_without_variables_is_only_noted() -> None:
    async with ScriptedInterpreter([Act(status="crashed", reason="SIGSEGV")]) as scripted:
        await scripted.interpreter.run("boom")
        first, second = await scripted.interpreter.run("?x"), await scripted.interpreter.run("?x")
        assert ([result.status for result in (first, second)], second.warnings) == (["ok", "ok"], ())
        [warning] = first.warnings
        assert "crashed (SIGSEGV)" in warning


async def test_a_session_that_ended_between_two_runs_is_reported() -> None:
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
        assert scripted.interpreter.history[-1].skipped == (), "a string contains no block"
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
        ):  # nothing here looks like Python
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
        start = scripted.start

        async def fail_once() -> ScriptedSession:
            attempts.append(1)
            if len(attempts) == 1:
                raise ClicketError("no sandbox today")
            return await start()

        scripted.start = fail_once  # type: ignore[method-assign]
        with pytest.raises(ClicketError, match="no sandbox today"):
            await scripted.interpreter.run("a")
        assert scripted.interpreter.state is CodeState.ERROR
        assert scripted.interpreter.history == []
        assert (await scripted.interpreter.run("a")).status == "ok"


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
    """A result without its times, including single blocks."""
    blocks = [msgspec.structs.replace(block, duration=0.0) for block in result.blocks]
    plain = msgspec.structs.replace(result, duration=0.0, blocks=tuple(blocks))
    return [plain.to_json(), *(msgspec.to_builtins(block) for block in plain.blocks)]


async def by_steps(ci: Interpreter, task: str) -> AsyncIterator[Message]:
    ci.begin(task)
    while ci.state not in CODE.terminal:
        async for message in ci.step():
            yield message


@settings(max_examples=examples(80), deadline=None)
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
                assert ran == plain_of(result), "run, stream and step give the same"
                assert plain.interpreter.state is whole.interpreter.state
                assert result.to_json() == messages[-1]["result"]
                assert result.fatal == (whole.interpreter.state is CodeState.ERROR)
                if result.status in ("exit", "killed", "crashed"):
                    assert whole.interpreter.session is None

    asyncio.run(main())
