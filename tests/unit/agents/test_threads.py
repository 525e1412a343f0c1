"""Turns whose calls ended without a document: what is on record becomes their document."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from clicket.agents.entries import Reply
from clicket.agents.threads import Threads
from clicket.agents.turn_limits import Limits
from clicket.errors import ClicketError
from clicket.kernel import AgentState, State
from clicket.model import ToolError
from clicket.model.chat import ChatMessage, ToolUse, Usage


class Host:
    """A store with the call of one turn, which was abandoned when it was cancelled."""

    caller = ""

    state = State.CANCELLED
    error: ToolError | None = None

    def __init__(self, on_record: list[dict[str, Any]]) -> None:
        self._on_record = on_record

    def while_open(self) -> nullcontext[None]:
        return nullcontext()

    def lives(self, id: str, thread: str) -> bool:
        return True

    async def outcome(self, id: str, thread: str) -> None:
        return None

    async def record(self, id: str, thread: str) -> Any:
        return SimpleNamespace(
            state=self.state, error=self.error, events=[], updated_at=2.0, arguments={"message": "go"}
        )

    def entries(self, events: Any, id: str, thread: str) -> list[dict[str, Any]]:
        return self._on_record


class Memory:
    def __init__(self) -> None:
        self.saved: Any = None

    async def turn(self, host: Any, thread: str, number: int) -> Any:
        return None

    async def save(self, host: Any, thread: str, document: Any) -> Any:
        self.saved = document
        return document

    async def until(self, host: Any, thread: str, number: int) -> list[ChatMessage]:
        return list(self.saved.messages)


def reply(step: int, *uses: ToolUse, branch: str = "", mark: str = "react.1") -> dict[str, Any]:
    message = ChatMessage(role="assistant", content="", uses=uses)
    entry = Reply.of(message, mark=mark, tag="tag", step=step, usage=Usage(), total=Usage(), took=0.1, at=1.0)
    made: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(entry, branch=branch))
    return made


def uses(*arguments: str) -> list[ToolUse]:
    return [ToolUse(id=f"u{place}", name="echo", arguments=text) for place, text in enumerate(arguments)]


async def ended(on_record: list[dict[str, Any]], **limits: Any) -> Any:
    host: Any = Host(on_record)
    memory: Any = Memory()
    return await Threads(host, memory, "agent:react", Limits(**limits)).ended("t", 1)


async def test_only_calls_that_the_limits_allowed_are_counted() -> None:
    asked = reply(1, *uses('{"a":1}', '{"a":2}', '{"a":3}', '{"a":4}', '{"a":5}'))
    result = await ended([asked], max_calls=3)
    assert (result.calls, result.steps, result.stopped, result.state) == (3, 1, "cancelled", AgentState.IDLE)


async def test_a_turn_that_killed_its_processes_says_how_to_go_on() -> None:
    host: Any = Host([])
    host.state, host.error = (
        State.FAILED,
        ToolError(code="outcome_unknown", message="its worker died 10 times.", type="OutcomeUnknown"),
    )
    memory: Any = Memory()
    with pytest.raises(ClicketError, match="send the message again, under another id if it had one"):
        await Threads(host, memory, "agent:react", Limits()).ended("t", 1)


async def test_repeats_are_counted_for_each_fork() -> None:
    same = uses('{"a":1}', '{"a": 1}', '{ "a":1}')
    assert (await ended([reply(1, *same)], max_repeats=2)).calls == 2
    assert (await ended([reply(1, *same, branch="one"), reply(1, *same, branch="two")], max_repeats=2)).calls == 4


async def test_commands_of_a_planner_are_no_calls() -> None:
    assert (await ended([reply(1, *uses("{}"), mark=""), reply(2, *uses("{}"))])).calls == 1
