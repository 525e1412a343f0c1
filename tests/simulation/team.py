"""Agents of the workload: a boss that calls tools and a helper, a planner, and the models that they ask, which answer by a script."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from tests.simulation.features import Features
from tests.simulation.loop import NODE
from tests.simulation.money import usage_of
from tests.simulation.scene import Scene, scene, work

from clicket import RetryableError, Runtime, ToolContext, tool
from clicket.agents import PlanExecuteAgent, ReActAgent
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolUse, Usage

__all__ = ["HELP", "NEWS", "Request", "Team", "job", "make_script"]

Script = list[list[tuple[str, dict[str, Any]]]]
HELP = "help"
_WAITS = (0, 0.01, 0.2)
TOKENS = 11
NEWS, STARTED = "[The background call ", "Started in the background as call "


@tool(background=True, timeout=4, max_retries=0)
async def job(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    done = await work(ctx, before, after)
    if scene().refuses("job"):
        raise ValueError("the job does not work")
    return done


class Request:
    """That a model was asked: when, which one, for which message of a user, and which background calls it read of."""

    def __init__(self, at: float, text: str, messages: Sequence[ChatMessage], model: str = "") -> None:
        self.at, self.text, self.model = at, text, model
        self.node = str(NODE.get())
        self.users = [message.content for message in messages if message.role == "user"]
        self.started = [
            message.content.removeprefix(STARTED).partition(". ")[0]
            for message in messages
            if message.role == "tool" and message.content.startswith(STARTED)
        ]
        self.read = [
            message.content.removeprefix(NEWS).partition(" of ")[0]
            for message in messages
            if message.role == "user" and message.content.startswith(NEWS)
        ]


def make_script(here: Scene, calls: Sequence[str]) -> Script:
    """Tool calls of each reply; the last reply has none. `calls`: agents that may be called, the first one by this one, and so on; and the
    tool that runs in the background, if there is one."""
    chance = here.world.chance
    script: Script = []
    for _ in range(chance.randint(0, 3)):
        step: list[tuple[str, dict[str, Any]]] = []
        if here.script == "batches":
            script.append([("look_up", {"before": 0.01, "after": 0, "key": len(script)})] * 3)
            continue
        if here.script == "jobs" and calls[-1:] == ["job"]:
            job = ("job", {"before": chance.uniform(0.1, 2), "after": 0})
            script.append([job, ("put", {"before": chance.uniform(0, 1), "after": 0, "fails": 0})])
            continue
        for _ in range(chance.choice((1, 1, 2, 3))):
            name = chance.choice(
                (
                    "pay",
                    "put",
                    "put",
                    "look_up",
                    "broken",
                    "approved",
                    "nowhere",
                    *(calls[:1] or ("put",)),
                    *calls[-1:] * 2,
                )
            )
            given: dict[str, Any] = {"before": chance.choice(_WAITS), "after": chance.choice(_WAITS)}
            if name in ("pay", "put"):
                given["fails"] = chance.choice((0, 0, 1))
            elif name == "look_up":
                given["key"] = chance.randint(0, 1)
            elif name in ("helper", "junior"):
                here.scripts.append(make_script(here, calls[1:]))
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
        begins = max(
            place
            for place, message in enumerate(messages)
            if message.role == "user" and not message.content.startswith(NEWS)
        )
        step = sum(1 for message in messages[begins:] if message.role == "assistant")
        who, script = self._script(here, messages[begins])
        here.check_new(who, step)
        here.moment("model", NODE.get(), "")
        here.requests.append(Request(here.world.now, messages[begins].content, messages))
        usage = usage_of(here, request) if here.bills else Usage(input_tokens=TOKENS - 1, output_tokens=1)
        here.tokens_asked += usage.total
        await asyncio.sleep(chance.choice((0, 0.01, 0.3)))
        busy = chance.random() < 0.03
        if busy or here.refuses(self._who):
            here.tokens_refused += usage.total
            raise RetryableError("the model is busy") if busy else ValueError("the model refuses this")
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
            blocked = [line.partition(".")[0] for line in text.splitlines() if ". [!]" in line]
            if blocked and here.refuses("again"):
                return "again", [
                    [("plan", {"command": "mark_step", "step_index": int(blocked[0]), "step_status": "not_started"})]
                ]
            if "Every step is completed" in text or blocked:
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

    clerk: Any = None
    """The one of `clerks.py`, if the seed has it."""

    def __init__(self, runtime: Runtime, features: Features) -> None:
        tools = ["pay", "put", "look_up", "broken", "approved", *(["job"] if features.background else [])]
        self.junior = ReActAgent(runtime, Model(HELP), name="junior", tools=tools)
        runtime.add(self.junior.as_tool("junior"))
        self.helper = ReActAgent(runtime, Model(HELP), name="helper", tools=[*tools, "junior"])
        runtime.add(self.helper.as_tool("helper"))
        self.boss = ReActAgent(runtime, Model("boss"), name="boss", tools=[*tools, "helper"])
        self.planner = PlanExecuteAgent(
            runtime, Model("planner"), executor=Model("executor"), name="planner", tools=["put"]
        )
