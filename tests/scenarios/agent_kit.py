"""Shared by the tests of agents: models that a test controls, and the invariants of every turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from clicket.agents import AgentEvent, AgentResult, AgentState
from clicket.kernel import AGENT
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, ToolUse, Usage
from clicket.runtime.agent_host import Host

__all__ = [
    "Gate",
    "Joins",
    "Says",
    "Streams",
    "asks",
    "assert_events_in_order",
    "assert_within",
    "called",
    "check_legal",
    "check_pairs",
    "durable",
    "one",
]


class Says:
    """A model whose answers a function makes from the request; the function may be async, and may raise."""

    name = "says"

    def __init__(self, answer: Callable[[ChatRequest], Any]) -> None:
        self.answer = answer
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        reply = self.answer(request)
        if asyncio.iscoroutine(reply) or isinstance(reply, asyncio.Future):
            reply = await reply
        if isinstance(reply, str):
            return ChatReply(text=reply)
        if isinstance(reply, list):
            return asks(*reply)
        assert isinstance(reply, ChatReply)
        return reply

    @property
    def asked(self) -> int:
        return len(self.requests)


class Streams(Says):
    """`Says` with streaming: one delta for each word."""

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        reply = await self.chat(request)
        for piece in reply.text.split(" "):
            tell(Delta("text", piece))
        return reply


class Gate:
    """A tool or a model waits here until the test opens it. `reached`: one is waiting."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self, *_: Any) -> None:
        self.reached.set()
        await self.opened.wait()

    def open(self) -> None:
        self.opened.set()


class Joins:
    """Counts the callers that have found a turn which was taken over, and continue it or wait for its end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._callers = asyncio.Semaphore(0)
        look = Host.is_unattended

        async def counted(host: Host, id: str, thread: str) -> bool:
            found = await look(host, id, thread)
            self._callers.release()
            return found

        monkeypatch.setattr(Host, "is_unattended", counted)

    async def next(self) -> None:
        await self._callers.acquire()


def asks(*calls: tuple[str, Any] | ToolUse, text: str = "", usage: Usage | None = None) -> ChatReply:
    """A reply with tool calls; arguments are JSON text."""
    uses = tuple(
        call if isinstance(call, ToolUse) else ToolUse(id=f"u{place}", name=call[0], arguments=call[1])
        for place, call in enumerate(calls)
    )
    return ChatReply(text=text, uses=uses, usage=usage or Usage())


def one(name: str, arguments: str = "{}", id: str = "u") -> list[ToolUse]:
    return [ToolUse(id=id, name=name, arguments=arguments)]


# Invariants.


def check_pairs(messages: Sequence[ChatMessage]) -> list[ToolUse]:
    """Each tool call has one result, directly after its message. Returns the calls."""
    calls: list[ToolUse] = []
    ids: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.use_id in waiting, f"{message.use_id!r} answers no waiting call"
            waiting.remove(message.use_id)
            continue
        assert waiting == [], f"no answer to {waiting}"
        waiting = [use.id for use in message.uses]
        assert not ids.intersection(waiting), "the id of another call"
        assert len(set(waiting)) == len(waiting), "two calls with one id"
        assert all(waiting), "an empty id"
        ids.update(waiting)
        calls += message.uses
    assert waiting == [], f"no answer to {waiting}"
    return calls


def check_legal(changes: Iterable[tuple[AgentState, AgentState]], *, first: AgentState | None = None) -> None:
    """Every change of state is an edge of the table, and each starts where the last one ended."""
    listed = [(AgentState(before), AgentState(after)) for before, after in changes]
    for before, after in listed:
        assert after in AGENT.edges[before], f"{before} -> {after}"
    for (_, one), (other, _) in pairwise(listed):
        assert one is other, f"{one} became {other} by itself"
    if listed and first is not None:
        assert listed[0][0] is first


def assert_within(result: AgentResult, *, max_steps: int, max_calls: int | None = None) -> None:
    ends = {"finished": AgentState.FINISHED}
    assert result.state is ends.get(result.stopped, AgentState.IDLE)
    assert result.steps <= max_steps
    assert max_calls is None or result.calls <= max_calls


def called(messages: Sequence[ChatMessage]) -> list[str]:
    return [use.name for message in messages for use in message.uses]


def durable(events: Iterable[AgentEvent]) -> list[AgentEvent]:
    """The recorded events."""
    return [event for event in events if event.id]


def assert_events_in_order(events: Sequence[AgentEvent]) -> None:
    """Ids increase, deltas come before their reply, progress before its result, and the last event is the only final one."""
    places = [tuple(map(int, event.id.replace("-", ".").split("."))) for event in durable(events)]
    assert places == sorted(set(places))
    assert [event.type in ("final", "error") for event in events] == [False] * (len(events) - 1) + [True]
    answered = started = 0
    results: set[str] = set()
    for event in events:
        if event.type == "usage":
            answered = event.step
        elif event.type == "delta":
            assert event.step == answered + 1
        elif event.type == "tool_started":
            started += 1
        elif event.type == "tool_result":
            results.add(event.data["id"])
        elif event.type == "tool_progress":
            assert started > 0
    assert len(results) == started
    check_legal((event.data["from"], event.data["to"]) for event in events if event.type == "state")
