"""Turns with several branches to be killed: a plan whose steps run concurrently, and an agent that calls another
agent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import MESSAGE, Death, Effect, Script, asked_for, doom, effects, thread_of, tools_at
from tests.crash.nest import say_ready
from tests.crash.settle import Place
from tests.crash.tools import append_line
from tests.kit.waiting import eventually

from clicket import Record, Runtime
from clicket.agents import Agent, AgentEvent, PlanExecuteAgent, ReActAgent, TurnDocument
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolUse, Usage
from clicket.model.ids import alias_of

__all__ = ["KINDS", "Life", "Team", "live", "seen", "team_of"]

KINDS = ("plan", "sub")
PLAN = {
    "command": "create",
    "title": "Bills",
    "steps": [
        {"text": "one", "depends_on": []},
        {"text": "two", "depends_on": []},
        {"text": "three", "depends_on": [1, 2]},
    ],
}
TASKS: list[Script] = [
    [[("pay", {"n": 1})], [("put", {"n": 2}), ("look", {"n": 3})], []],
    [[("slow", {"n": 4}), ("pay", {"n": 5})], []],
    [[("fail", {"n": 6})], [("charge", {"n": 7})], []],
]
"""The tool calls that the executor of each step makes."""
ASKS: Script = [[("pay", {"n": 1}), ("helper", {"task": "Help."})], [("put", {"n": 2})], []]
HELPS: Script = [[("look", {"n": 11})], [("pay", {"n": 12}), ("slow", {"n": 13})], []]


class Life(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    kind: str
    death: Death = Death()


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a turn and its child turns left in the store."""

    documents: list[TurnDocument]
    turns: list[Record]
    calls: dict[str, Record]
    """Keyed by the rest of the thread's name, and the id."""
    events: list[AgentEvent]
    effects: list[Effect]
    asked: list[str]


class Scripted:
    """Replies according to the number of messages since the user's last message. Each request is logged."""

    name = "scripted"

    def __init__(self, folder: Path, who: str) -> None:
        self._folder = folder
        self._who = who

    async def chat(self, request: ChatRequest) -> ChatReply:
        messages = request.messages
        begins = max(place for place, message in enumerate(messages) if message.role == "user")
        step = sum(1 for message in messages[begins:] if message.role == "assistant")
        who, script = self._script(messages[begins])
        append_line(self._folder / "asked", f"{who}.{step + 1}")
        uses = tuple(
            ToolUse(id=f"{who}_{step}_{place}", name=name, arguments=msgspec.json.encode(given).decode())
            for place, (name, given) in enumerate(script[step])
        )
        usage = Usage(input_tokens=10, output_tokens=1)
        return ChatReply(text="" if uses else f"{who} is done.", uses=uses, usage=usage)

    def _script(self, asked: ChatMessage) -> tuple[str, Script]:
        if self._who == "executor":
            number = int(asked.content.partition("Carry out step ")[2].partition(":")[0])
            return f"step {number}", TASKS[number - 1]
        if self._who == "planner":
            done = "Every step is completed" in asked.content
            return ("end", [[]]) if done else ("planner", [[("plan", PLAN)]])
        return self._who, ASKS if self._who == "boss" else HELPS


def team_of(rt: Runtime, place: Place, kind: str) -> Agent:
    """The agent whose turn the test observes."""
    folder = Path(place.folder)
    if kind == "plan":
        return PlanExecuteAgent(rt, Scripted(folder, "planner"), executor=Scripted(folder, "executor"))
    helper = _helper(rt, place)
    rt.add(helper.as_tool("helper"))
    return ReActAgent(rt, Scripted(folder, "boss"), name="boss")


def live(given: dict[str, Any]) -> None:
    life = msgspec.convert(given, Life)
    doom(life.death, Path(life.place.folder))
    asyncio.run(_take(life))


async def _take(life: Life) -> None:
    rt = Runtime(tools_at(Path(life.place.folder)), settings=life.place.settings())
    agent = team_of(rt, life.place, life.kind)
    async with rt:
        say_ready()
        await agent.run(MESSAGE, thread=thread_of(life.place))


async def seen(rt: Runtime, agent: Agent, place: Place, kind: str) -> Team:
    thread = thread_of(place)
    await eventually(lambda: _quiet(rt))
    records = [
        await rt.get(record.id, thread=record.thread)
        for record in (await rt.history(limit=1_000)).items
        if thread in record.thread.split("/")
    ]
    documents = (await agent.history(thread)).turns
    if kind == "sub":
        (asked,) = [record for record in records if record.tool == "helper"]
        documents = [*documents, *(await _helper(rt, place).history(f"{thread}/{alias_of(asked.id)}")).turns]
    return Team(
        documents=documents,
        turns=[record for record in records if record.tool.startswith("agent:")],
        calls={
            f"{one.thread.removeprefix(thread)} {alias_of(one.id)}": one
            for one in records
            if not one.tool.startswith("agent:")
        },
        events=[event async for event in agent.events(thread)],
        effects=effects(Path(place.folder)),
        asked=asked_for(Path(place.folder), str),
    )


async def _quiet(rt: Runtime) -> bool:
    """Has every call ended? A turn's own call ends a moment after the turn's readers see its end."""
    return not (await rt.history(active=True)).items


def _helper(rt: Runtime, place: Place) -> Agent:
    return ReActAgent(rt, Scripted(Path(place.folder), "helper"), name="helper", tools=["look", "pay", "slow"])
