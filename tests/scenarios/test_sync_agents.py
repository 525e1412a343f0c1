"""Blocking agents: turns, threads and typed answers without a loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit.children import PYTHONPATH
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import sqlite_url

import clicket
from clicket import Settings, sync, tool
from clicket.agents import AgentState, Limits, Turn
from clicket.errors import UsageError
from clicket.testing import ScriptedModel


@tool
def add(a: int, b: int) -> int:
    return a + b


STEP = [("add", {"a": 1, "b": 2})]


class Price(msgspec.Struct):
    amount: int


@pytest.fixture
def rt(store: str) -> Iterator[sync.Runtime]:
    with sync.Runtime([add], settings=Settings(store=store, cancel_grace=0.1)) as runtime:
        yield runtime


def test_turns_of_a_program_without_a_loop(rt: sync.Runtime) -> None:
    agent = sync.ReActAgent(rt, ScriptedModel([STEP, "3", "again", "streamed"]), name="helper", max_steps=7)
    assert (agent.name, agent.limits.max_steps, repr(agent)) == ("helper", 7, "<agent helper>")
    result = agent.run("1 + 2?", thread="t")
    assert (result.text, result.state, result.steps) == ("3", AgentState.FINISHED, 2)
    number = agent.begin("more?", thread="t")
    ended = agent.wait("t", number)
    assert ended is not None
    assert (number, ended.text) == (2, "again")
    events = list(agent.stream("and more?", thread="t"))
    assert (events[-1].type, events[-1].turn) == ("final", 3)
    assert [turn.turn for turn in agent.history("t").turns] == [1, 2, 3]
    assert [message.content for message in agent.messages("t") if message.role == "user"] == [
        "1 + 2?",
        "more?",
        "and more?",
    ]
    assert agent.look("t").turns == 3
    assert agent.state("t") is AgentState.FINISHED
    assert [event.type for event in agent.events("t")][-1] == "final"
    assert not agent.stop("t")
    assert agent.forget("t") == 3
    assert agent.messages("t") == []


def test_messages_can_be_sent_listed_and_taken_back(rt: sync.Runtime) -> None:
    asked, go_on = threading.Event(), asyncio.Event()

    async def slow(request: Any) -> str:
        asked.set()
        await go_on.wait()
        return "done"

    agent = sync.ReActAgent(rt, ScriptedModel([slow, "and that"]))
    assert agent.begin("first") == 1
    assert asked.wait(PATIENCE)
    sent, other = agent.send("second"), agent.send("never mind")
    assert [message.text for message in agent.queued()] == ["second", "never mind"]
    assert agent.unsend(other.id)
    assert [message.id for message in agent.queued()] == [sent.id]
    rt._loop.run(go_on.set)
    assert any((event.turn, event.type) == (2, "final") for event in agent.events(follow=True))
    assert [turn.messages[0].content for turn in agent.history().turns] == ["first", "second"]


def test_answers_are_typed(rt: sync.Runtime) -> None:
    assert sync.ReActAgent(rt, ScriptedModel(['{"amount": 3}']), output=Price).run("?").value == Price(amount=3)
    agent = sync.ReActAgent(rt, ScriptedModel(['{"amount": 4}']), name="other")
    assert agent.run("?", output=Price).value == Price(amount=4)


def test_agents_that_plan_and_agents_of_ones_own(rt: sync.Runtime) -> None:
    async def drive(turn: Turn) -> Any:
        return "finished", f"in {turn.thread}"

    assert sync.Agent(rt, drive, name="own", limits=Limits()).run("go", thread="t").text == "in t"
    assert sync.PlanExecuteAgent(rt, ScriptedModel(["nothing to do"])).run("go").text == "nothing to do"


def test_an_agent_acts_for_a_caller_and_is_a_tool(rt: sync.Runtime) -> None:
    agent = sync.ReActAgent(rt, ScriptedModel(["for ann", "as a tool"]), name="inner")
    mine = agent.acting_for(rt.acting_for("ann"))
    assert isinstance(mine, sync.ReActAgent)
    assert mine.run("hello", thread="t").text == "for ann"
    assert (mine.look("t").turns, agent.look("t").turns) == (1, 0)
    rt.add(agent.as_tool("ask_inner"))
    assert "as a tool" in rt.call("ask_inner", {"task": "do it"}).content


def test_ctrl_c_stops_the_turn_and_leaves_the_agent_usable(rt: sync.Runtime) -> None:
    asked = threading.Event()

    async def for_ever(request: Any) -> str:
        asked.set()
        return await asyncio.Event().wait() and ""

    def interrupt() -> None:
        asked.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    agent = sync.ReActAgent(rt, ScriptedModel([for_ever, "later"]))
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        agent.run("go")
    thread.join()
    agent.wait()
    assert agent.look().stopped == "cancelled"
    assert agent.run("again").text == "later"


def test_a_stream_that_is_left_early_does_not_stop_the_turn(rt: sync.Runtime) -> None:
    agent = sync.ReActAgent(rt, ScriptedModel([STEP, "3"]))
    for _ in agent.stream("go"):
        break
    agent.wait()
    assert agent.look().text == "3"


async def test_wrong_use_says_what_to_use(store: str) -> None:
    model = ScriptedModel(["x"])
    runtime = sync.Runtime(store=store)
    with pytest.raises(
        UsageError, match=r"blocking agent works with clicket\.sync\.Runtime, not with clicket\.runtime\.runtime"
    ):
        sync.ReActAgent(clicket.Runtime(store=store), model)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"clicket\.sync\.ReActAgent"):
        clicket.agents.ReActAgent(runtime, model)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="event loop"):
        sync.ReActAgent(runtime, model)

    def in_thread() -> None:
        with pytest.raises(UsageError, match=r"not open; use it inside `with clicket\.sync\.Runtime"):
            sync.ReActAgent(runtime, model)
        with runtime:
            with pytest.raises(UsageError, match=r"ReActAgent has no keyword 'max_step'\. Did you mean 'max_steps'"):
                sync.ReActAgent(runtime, model, max_step=3)  # type: ignore[call-arg]
            agent = sync.ReActAgent(runtime, model)
        with pytest.raises(UsageError, match="not open"):
            agent.run("late")

    await asyncio.to_thread(in_thread)


KILLED = """
import os, signal, sys
from clicket import sync, tool
from clicket.testing import ScriptedModel

@tool(idempotent=True)
def pay() -> str:
    with open(sys.argv[2], "a") as log:
        log.write("paid\\n")
    if len(open(sys.argv[2]).readlines()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

with sync.Runtime([pay], store=sys.argv[1], lease=0.5) as rt:
    agent = sync.ReActAgent(rt, ScriptedModel([[("pay", {})], "it is paid"], position="transcript"))
    print(agent.run("pay", thread="t").text, agent.look("t").turns)
"""


def test_a_program_that_was_killed_continues_its_turn(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, sqlite_url(tmp_path), str(tmp_path / "log")]
    runs = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        for _ in range(2)
    ]
    assert runs[0].returncode == -signal.SIGKILL
    assert (runs[1].stdout, runs[1].returncode) == ("it is paid 1\n", 0), runs[1].stderr


def test_editors_and_help_find_everything() -> None:
    assert set(sync.__all__) <= set(dir(sync))
    for name in sync.__all__:
        kind = getattr(sync, name)
        assert inspect.getdoc(kind), name
        for each, member in vars(kind).items():
            if inspect.isfunction(member) and not each.startswith("_"):
                assert not inspect.iscoroutinefunction(member), f"{name}.{each}"
                hints = inspect.signature(member).parameters.values()
                assert all(hint.annotation is not hint.empty for hint in hints if hint.name != "self"), f"{name}.{each}"
