"""For any answers of a model: each turn ends within its limits, by valid changes of state; each tool call has one result, directly
after it; both vendors accept the transcript; each call is in the journal once; and the thread can always run again."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from tests.kit.examples import in_long_runs
from tests.kit.waiting import PATIENCE
from tests.models_kit.aimock import Aimock, serving
from tests.models_kit.transcripts import taken_by_both
from tests.models_kit.vendor_rules import accepted_by_anthropic, accepted_by_openai
from tests.scenarios.agent_chaos import SCRIPTS, Chaos, Raised, Tame
from tests.scenarios.agent_kit import assert_events_in_order, assert_within, check_legal, check_pairs
from tests.scenarios.kit import assert_sound, make, sqlite_url

from clicket import Runtime, tool
from clicket.agents import Agent, AgentResult, AgentState, PlanExecuteAgent, ReActAgent
from clicket.errors import ClicketError
from clicket.model.chat import ChatMessage, ChatRequest, ToolOffer
from clicket.models.anthropic import _Messages
from clicket.models.connection import Capabilities
from clicket.models.openai import _Chat
from clicket.models.transcript import Names

# A long script is shown whole when it fails.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

MAX_STEPS, MAX_CALLS, THREADS, TURNS = 5, 12, 3, 2
LIMITS: dict[str, Any] = {"max_steps": MAX_STEPS, "max_calls": MAX_CALLS, "max_repeats": 4, "max_tokens": 60}


@tool
async def echo(text: str = "") -> str:
    await asyncio.sleep(0)
    return text


@tool(max_retries=0)
async def fail() -> str:
    raise ValueError("\ud800 broken")


class Conversation:
    """One thread of one agent, driven by a script."""

    def __init__(self, rt: Runtime, script: list[Any], number: int, kind: type[Agent]) -> None:
        self.rt, self.thread, self.kind = rt, f"t{number}", kind
        self.changes: list[tuple[AgentState, AgentState]] = []
        self.model = Chaos(script, self.wish)
        self.agent = self.made(self.model, **LIMITS)
        self.run: asyncio.Task[AgentResult] | None = None
        self.stops: list[asyncio.Task[bool]] = []
        self.calls = 0
        self.cut = False

    def made(self, model: Any, **limits: Any) -> Agent:
        make_one: Any = self.kind
        agent: Agent = make_one(
            self.rt, model, name="chaos", retry_delay=0, on_state_changed=self.note, replace=True, **limits
        )
        return agent

    def note(self, before: AgentState, after: AgentState, thread: str) -> None:
        self.changes.append((before, after))

    def wish(self, what: str) -> None:
        self.cut = self.cut or what != "nothing"
        if what.startswith("stop"):
            self.stops.append(asyncio.create_task(self.agent.stop(self.thread)))
        elif what == "leave" and self.run is not None:
            self.run.cancel()

    async def go(self) -> None:
        for turn in range(1, TURNS + 1):
            self.run = asyncio.create_task(self.agent.run(f"message {turn}", thread=self.thread))
            try:
                result = await self.run
            except asyncio.CancelledError:
                assert self.cut
            except (Raised, ConnectionError, ExceptionGroup, RuntimeError, TypeError, ClicketError):
                self.cut = True
                view = await self.agent.look(self.thread)
                assert (view.state, bool(view.error)) == (AgentState.ERROR, True)
            else:
                assert_within(result, max_steps=MAX_STEPS, max_calls=MAX_CALLS)
                assert result.turn == turn
                self.calls += result.calls
                check_pairs(result.messages)
            await asyncio.gather(*self.stops)
            view = await self.agent.look(self.thread)
            assert (view.turns, view.state is AgentState.RUNNING) == (turn, False)
            assert self.agent.state(self.thread) is view.state

    async def check(self) -> None:
        after = Tame()
        last = await self.made(after).run("still there?", thread=self.thread)
        assert (last.text, last.turn, last.steps) == ("fine", TURNS + 1, 1)
        check_pairs(last.messages)
        check_legal(self.changes, first=AgentState.IDLE)
        for request in (*self.model.requests[-2:], *after.requests):
            accepted_by_both(request)
        started: list[str] = []
        for turn in range(1, TURNS + 2):
            events = [e async for e in self.agent.events(self.thread, after=f"{turn}-0.0") if e.turn == turn]
            assert_events_in_order(events)
            started += [e.data["call_id"] for e in events if e.type == "tool_started"]
        items = (await self.rt.history(thread=self.thread, limit=1_000)).items
        ids = [item.id for item in items]
        assert len(set(ids)) == len(ids)
        assert set(ids) <= set(started)
        ran = [item for item in items if item.attempts]
        assert len(ran) <= MAX_CALLS * TURNS
        if not self.cut and self.kind is ReActAgent:  # a planner's calls are no calls of the runtime
            assert len(ran) <= self.calls
            assert set(ids) == set(started), "each requested call is recorded, refused ones too"
        for item in items:
            assert_sound(item)
            assert item.state.is_terminal
        for turn in (await self.agent.history(self.thread)).turns:
            assert_within_paper(turn.steps, turn.calls)


def assert_within_paper(steps: int, calls: int) -> None:
    assert steps <= MAX_STEPS
    assert calls <= MAX_CALLS


def accepted_by_both(request: ChatRequest) -> None:
    """By the SDKs' own types, in the format that our models send."""
    names = Names(request)
    body = _Chat("m", None, {}).body(request, Capabilities(), names)
    accepted_by_openai(body["messages"], body=body)
    body = _Messages("m", 100, {}).body(request, Capabilities(), names)
    accepted_by_anthropic(body["messages"], body=body)


async def play(store: str, scripts: Sequence[list[Any]], kind: type[Agent] = ReActAgent) -> list[list[ChatMessage]]:
    """Each script in its own thread, concurrently. Returns the transcripts."""
    async with make([echo, fail], store) as rt:
        conversations = [Conversation(rt, script, number, kind) for number, script in enumerate(scripts)]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(conversation.go() for conversation in conversations))
            for conversation in conversations:
                await conversation.check()
        assert rt.held_calls() == []
        shared = rt.host.installed(f"agent:{conversations[0].agent.name}")
        assert (shared.streams.feeds, shared.starting) == ({}, {})
        return [await conversation.agent.messages(conversation.thread) for conversation in conversations]


def scripts_of(script: list[Any]) -> list[list[Any]]:
    """Concurrent threads that do different things at the same time."""
    return [script[place:] + script[:place] for place in range(min(THREADS, len(script)))]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.first
@settings(max_examples=in_long_runs(500, else_=15))
@given(script=SCRIPTS)
def test_whatever_a_model_answers_in_memory(script: list[Any]) -> None:
    asyncio.run(play("memory://", scripts_of(script)))


@pytest.mark.first
@settings(max_examples=in_long_runs(500, else_=15))
@given(script=SCRIPTS)
def test_whatever_planner_and_executors_answer(script: list[Any]) -> None:
    asyncio.run(play("memory://", scripts_of(script), PlanExecuteAgent))


@settings(max_examples=in_long_runs(240, else_=8))
@given(script=SCRIPTS)
def test_whatever_a_model_answers_on_disk(script: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(sqlite_url(Path(folder)), scripts_of(script)))


@pytest.fixture(scope="module")
def vendors() -> Iterator[Aimock]:
    with serving() as made:
        yield made


@settings(max_examples=in_long_runs(200, else_=6))
@given(script=SCRIPTS)
def test_the_transcript_is_taken_by_a_server_of_both_protocols(vendors: Aimock, script: list[Any]) -> None:
    async def main() -> None:
        for messages in await play("memory://", [script]):
            await taken_by_both(vendors, messages, [ToolOffer(name="echo", input_schema=echo.input_schema)])

    asyncio.run(main())
