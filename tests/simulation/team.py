"""Agents of the workload: a boss that calls tools and a helper, a planner, and the models that they ask, which answer by a script."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from tests.simulation.money import usage_of
from tests.simulation.scene import Scene, scene

from clicket import RetryableError, Runtime
from clicket.agents import PlanExecuteAgent, ReActAgent
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolUse, Usage

__all__ = ["HELP", "Team", "make_script"]

Script = list[list[tuple[str, dict[str, Any]]]]
HELP = "help"
_WAITS = (0, 0.01, 0.2)
TOKENS = 11


def make_script(here: Scene, *, helps: bool) -> Script:
    """Tool calls of each reply; the last reply has none."""
    chance = here.world.chance
    script: Script = []
    for _ in range(chance.randint(0, 3)):
        step: list[tuple[str, dict[str, Any]]] = []
        for _ in range(chance.choice((1, 1, 2, 3))):
            name = chance.choice(
                ("pay", "put", "put", "look_up", "broken", "approved", "nowhere", "helper" if helps else "put")
            )
            given: dict[str, Any] = {"before": chance.choice(_WAITS), "after": chance.choice(_WAITS)}
            if name in ("pay", "put"):
                given["fails"] = chance.choice((0, 0, 1))
            elif name == "look_up":
                given["key"] = chance.randint(0, 1)
            elif name == "helper":
                here.scripts.append(make_script(here, helps=False))
                given = {"task": f"{HELP} {len(here.scripts) - 1}"}
            step.append((name, given))
        script.append(step)
    return [*script, []]


class Model:
    """Replies by the script of the last message of the user, and by how many replies came since."""

    name = "simulated"

    def __init__(self, who: str) -> None:
        self._who = who

    async def chat(self, request: ChatRequest) -> ChatReply:
        here = scene()
        chance, messages = here.world.chance, request.messages
        begins = max(place for place, message in enumerate(messages) if message.role == "user")
        step = sum(1 for message in messages[begins:] if message.role == "assistant")
        who, script = self._script(here, messages[begins])
        here.check_new(who, step)
        usage = usage_of(here, request) if here.bills else Usage(input_tokens=TOKENS - 1, output_tokens=1)
        here.tokens_asked += usage.total
        await asyncio.sleep(chance.choice((0, 0.01, 0.3)))
        if chance.random() < 0.03:
            raise RetryableError("the model is busy")
        uses = tuple(
            ToolUse(
                id=f"{who.replace(' ', '_')}_{step}_{place}", name=name, arguments=msgspec.json.encode(given).decode()
            )
            for place, (name, given) in enumerate(script[step])
        )
        return ChatReply(text="" if uses else f"{who} is done.", uses=uses, usage=usage)

    def _script(self, here: Scene, asked: ChatMessage) -> tuple[str, Script]:
        text = asked.content
        if self._who == "planner":
            if "Every step is completed" in text or "blocked" in text:
                return "end", [[]]
            return "plan", [[("plan", PLAN)]]
        if self._who == "executor":
            number = int(text.partition("Carry out step ")[2].partition(":")[0])
            return f"step {number}", [[("put", {"before": 0.01, "after": 0, "fails": 0})], []]
        return text, here.scripts[int(text.rpartition(" ")[2])]


PLAN = {
    "command": "create",
    "title": "Bills",
    "steps": [
        {"text": "one", "depends_on": []},
        {"text": "two", "depends_on": []},
        {"text": "three", "depends_on": [1, 2]},
    ],
}


class Team:
    """The agents of one runtime, made before it opens: they continue turns of dead processes."""

    def __init__(self, runtime: Runtime) -> None:
        tools = ["pay", "put", "look_up", "broken", "approved"]
        self.helper = ReActAgent(runtime, Model(HELP), name="helper", tools=tools)
        runtime.add(self.helper.as_tool("helper"))
        self.boss = ReActAgent(runtime, Model("boss"), name="boss", tools=[*tools, "helper"])
        self.planner = PlanExecuteAgent(
            runtime, Model("planner"), executor=Model("executor"), name="planner", tools=["put"]
        )
