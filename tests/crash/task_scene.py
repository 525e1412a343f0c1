"""What people ask an agent to do, one small task each, in a process that is killed: tool calls with faults, typed answers, handoffs,
checks and others.

A tool that pays may not be repeated. Each task ends with a text that says what the model read of every payment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom
from tests.crash.settle import Place, read_lines
from tests.crash.tools import append_line
from tests.kit.waiting import eventually

from clicket import Image, Policy, Runtime, ToolContext, tool
from clicket.agents import (
    Actor,
    Agent,
    Change,
    Check,
    ContextWindow,
    Handoff,
    Limits,
    Memory,
    PlanExecuteAgent,
    ReActAgent,
    Refuse,
    Skills,
    Stopped,
    Todo,
    Turn,
    Workspace,
)
from clicket.errors import ClicketError, RetryableError
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage
from clicket.models import Fallback
from clicket.testing import ScriptedModel

__all__ = ["BILLS", "TASKS", "Scene", "play", "runtime_at"]

Step = str | list[tuple[str, dict[str, Any] | str]]
"""A text, or calls of tools; arguments that are a text need not be JSON."""
BILLS = ("rent", "gas", "phone")
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    task: str
    death: Death = Death()


class Model:
    """Says what its script has next, by how often it has spoken; at the end, what it read of the payments."""

    sees_images = True

    def __init__(self, *script: Step, name: str = "model", tokens: int = 10) -> None:
        self.name = name
        self._script = script
        self._tokens = tokens

    async def chat(self, request: ChatRequest) -> ChatReply:
        messages = request.messages
        said = sum(message.role == "assistant" for message in messages)
        usage = Usage(input_tokens=self._tokens, output_tokens=1)
        step = self._script[said] if said < len(self._script) else _read(request)
        if isinstance(step, str):
            return ChatReply(text=step, usage=usage)
        uses = tuple(
            ToolUse(
                id=f"{self.name}_{said}_{number}",
                name=name,
                arguments=given if isinstance(given, str) else msgspec.json.encode(given).decode(),
            )
            for number, (name, given) in enumerate(step)
        )
        return ChatReply(uses=uses, usage=usage)


def _read(request: ChatRequest) -> str:
    results = {message.use_id: message.content for message in request.messages if message.role == "tool"}
    asked = {use.id: use for message in request.messages for use in message.uses if use.name == "pay"}
    return "; ".join(f"{asked[id].arguments}: {content}" for id, content in results.items() if id in asked) or "done"


def pay(bill: str) -> tuple[str, dict[str, Any]]:
    return "pay", {"bill": bill}


def runtime_at(place: Place, **options: Any) -> Runtime:
    folder = Path(place.folder)

    @tool(name="pay")
    async def paying(bill: str, ctx: ToolContext) -> str:
        append_line(folder / "effects", [ctx.caller, bill])
        return "paid"

    @tool(name="report", background=True)
    async def reporting(bill: str, ctx: ToolContext) -> str:
        append_line(folder / "effects", [ctx.caller, bill])
        return "reported"

    @tool(name="draw", idempotent=True)
    async def drawing() -> list[str | Image]:
        return ["Drawn:", Image(PNG)]

    @tool(name="read_long", idempotent=True)
    async def reading() -> str:
        return "a long text " * 400

    tools = [paying, reporting, drawing, reading]
    return Runtime(tools, settings=place.settings(), **options)


# The tasks. Each returns what its caller was told.

Task = Callable[[Runtime, Path], Awaitable[str]]


async def _said(agent: Agent[Any], message: str = "Go.", thread: str = "t") -> str:
    result = await agent.run(message, thread=thread, id=message)
    return f"{result.stopped}: {result.text}"


async def tool_loop(rt: Runtime, folder: Path) -> str:
    """Bad JSON, a wrong name, arguments of a wrong type: the model reads of each, and goes on."""
    script: tuple[Step, ...] = (
        [("pay", '{"bill": ')],
        [("play", {"bill": "rent"})],
        [("pay", {"bill": 7})],
        [pay("rent"), pay("gas")],
        [pay("phone")],
    )
    return await _said(ReActAgent(rt, Model(*script)))


async def six_payments(rt: Runtime, folder: Path) -> str:
    return await _said(ReActAgent(rt, Model(*([pay(f"bill {number}")] for number in range(6)))))


class Trip(msgspec.Struct):
    city: str
    days: int


async def typed_answer(rt: Runtime, folder: Path) -> str:
    script: tuple[Step, ...] = ([pay("rent")], '{"city": "Rome"}', '{"city": "Rome", "days": 3}')
    result = await ReActAgent(rt, Model(*script), output=Trip).run("Plan.", thread="t", id="plan")
    assert result.value == Trip("Rome", 3), result.text
    return f"{result.stopped}: {result.value}"


async def handoff(rt: Runtime, folder: Path) -> str:
    billing = ReActAgent(rt, Model("", "", [pay("gas")], name="billing"), name="billing")
    script: tuple[Step, ...] = ([pay("rent")], [("hand_to_billing", {"reason": "money"})])
    return await _said(ReActAgent(rt, Model(*script), name="triage", handoffs=[Handoff(billing, history="all")]))


async def approval_in_a_sub_agent(rt: Runtime, folder: Path) -> str:
    clerk = ReActAgent(rt, Model([pay("rent")], name="clerk"), name="clerk")
    rt.add(clerk.as_tool(description="It pays."))
    boss = ReActAgent(rt, Model([("clerk", {"message": "Pay."})], name="boss"), name="boss")
    run = asyncio.ensure_future(_said(boss))
    while not (await asyncio.wait([run], timeout=0.01))[0]:  # a person looks now and then
        for record in (await rt.history(waiting_for="approval")).items:
            try:
                await rt.approve(record.id, by="a person", thread=record.thread)
            except ClicketError:  # it was decided meanwhile
                continue
    return run.result()


async def messages_during_a_turn(rt: Runtime, folder: Path) -> str:
    agent = ReActAgent(rt, Model([pay("rent")], [pay("gas")]))
    run = asyncio.ensure_future(agent.run("Go.", thread="t", id="go"))
    await agent.send("And the phone?", thread="t", when="next", id="next")
    first = await run

    async def both() -> bool:
        return (await agent.look("t")).turns == 2

    await eventually(both)
    turns = (await agent.history("t")).turns
    assert [turn.messages[0].content for turn in turns] == ["Go.", "And the phone?"]
    return first.text


class Away:
    """It answers nobody."""

    name = "away"

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise RetryableError("HTTP 503", reason="unavailable")


async def fallback(rt: Runtime, folder: Path) -> str:
    return await _said(ReActAgent(rt, Fallback(Away(), Model([pay("rent"), pay("gas")]))))


def _no_card(turn: Turn, value: str) -> Change:
    return Change(value.replace("4111", "****"))


def _no_paid(turn: Turn, value: str) -> Refuse | None:
    return Refuse("Say it politely.") if value == "paid!" else None


async def checks(rt: Runtime, folder: Path) -> str:
    agent = ReActAgent(
        rt,
        Model([pay("rent")], "paid!"),
        checks=[Check(_no_card, on="input"), Check(_no_paid, on="output")],
    )
    said = await _said(agent, "My card is 4111.")
    turn = (await agent.history("t")).turns[0]
    assert turn.messages[0].content == "My card is ****."
    return said


async def long_context(rt: Runtime, folder: Path) -> str:
    script: tuple[Step, ...] = ([pay("rent")], *([("read_long", {})] for _ in range(4)), [pay("gas")])
    return await _said(ReActAgent(rt, Model(*script), window=ContextWindow(1_500, keep_steps=2)))


async def memory_across_threads(rt: Runtime, folder: Path) -> str:
    ann = rt.acting_for("ann")
    agent = ReActAgent(ann, Model([("remember", {"fact": "Ann drinks tea."}), pay("rent")]), middleware=[Memory()])
    said = await _said(agent)
    assert [fact.text for fact in await rt.memory.list(caller="ann")] == ["Ann drinks tea."]
    return said


async def image_in_a_result(rt: Runtime, folder: Path) -> str:
    agent = ReActAgent(rt, Model([("draw", {}), pay("rent")]))
    said = await _said(agent)
    turn = (await agent.history("t")).turns[0]
    assert any(message.files for message in turn.messages if message.role == "tool")
    return said


async def background_tool(rt: Runtime, folder: Path) -> str:
    return await _said(ReActAgent(rt, Model([("report", {"bill": "rent"}), pay("gas")], [pay("phone")])))


async def coding(rt: Runtime, folder: Path) -> str:
    files, skills = folder / "files", folder / "skills"
    (skills / "style").mkdir(parents=True, exist_ok=True)
    (skills / "style" / "SKILL.md").write_text("---\nname: style\ndescription: How code is written.\n---\nShort.\n")
    if not files.exists():
        files.mkdir()
        (files / "main.py").write_text("print(1)\nend\n")
    edit = {"path": "main.py", "old": "end\n", "new": "print(2)\nend\n"}
    script: tuple[Step, ...] = (
        [("load_skill", {"name": "style"}), ("write_todo", {"items": [{"text": "edit"}]})],
        [("edit_file", edit)],
        [("edit_file", {**edit, "new": "print(3)\nend\n"}), pay("rent")],
    )
    agent = ReActAgent(rt, Model(*script), middleware=[Workspace(files, shell=False), Todo(), Skills(skills)])
    said = await _said(agent)
    assert (files / "main.py").read_text() == "print(1)\nprint(2)\nprint(3)\nend\n"
    return said


async def stream_and_reconnect(rt: Runtime, folder: Path) -> str:
    """A reader that remembers the last event which it has read gets each one once."""
    agent = ReActAgent(rt, Model([pay("rent")], [pay("gas")]))
    await agent.begin("Go.", thread="t", id="go")
    known = [*read_lines(folder / "events", str)]
    async for event in agent.events("t", after=known[-1] if known else ""):
        if event.id:
            append_line(folder / "events", event.id)
    assert read_lines(folder / "events", str) == [event.id for event in await agent.recorded("t", 1)]
    result = await agent.wait("t", 1)
    assert result is not None
    return f"{result.stopped}: {result.text}"


async def scripted(rt: Runtime, folder: Path) -> str:
    """A model for tests, which knows its place by the conversation."""

    def last(request: ChatRequest) -> str:
        return _read(request)

    return await _said(ReActAgent(rt, ScriptedModel([[pay("rent")], [pay("gas")], last], position="transcript")))


class Planner:
    """Plans two payments."""

    name = "planner"

    async def chat(self, request: ChatRequest) -> ChatReply:
        steps = [{"text": f"Pay {bill}", "depends_on": []} for bill in ("rent", "gas")]
        said = sum(message.role == "assistant" for message in request.messages)
        arguments = (
            {"command": "finish", "summary": "All is paid."}
            if said
            else {"command": "create", "title": "Bills", "steps": steps}
        )
        return ChatReply(
            uses=(ToolUse(id=f"plan_{said}", name="plan", arguments=msgspec.json.encode(arguments).decode()),)
        )


class Payer:
    """Makes the payment of a plan's step."""

    name = "payer"

    async def chat(self, request: ChatRequest) -> ChatReply:
        if request.messages[-1].role == "tool":
            return ChatReply(text=_read(request))
        name, given = pay("rent" if request.messages[-1].content.endswith("rent") else "gas")
        return ChatReply(
            uses=(ToolUse(id=f"pay_{given['bill']}", name=name, arguments=msgspec.json.encode(given).decode()),)
        )


async def plan(rt: Runtime, folder: Path) -> str:
    agent = PlanExecuteAgent(rt, Planner(), executor=Payer())
    said = await _said(agent)
    steps = ((await agent.look("t")).plan or {})["steps"]
    return "; ".join([said, *(f"{step['status']}: {step['notes']}" for step in steps)])


async def limited(rt: Runtime, folder: Path) -> str:
    """The third payment would be over the limit of calls."""
    return await _said(ReActAgent(rt, Model(*([pay(bill)] for bill in BILLS)), max_calls=2))


async def two_callers(rt: Runtime, folder: Path) -> str:
    said = []
    for caller in ("ann", "bob"):
        agent = ReActAgent(rt.acting_for(caller), Model([pay("rent")], [pay("gas")]))
        said.append(await _said(agent))
    bob = rt.acting_for("bob")
    assert {record.caller for record in (await bob.history()).items} == {"bob"}
    return " | ".join(said)


async def own_loop(rt: Runtime, folder: Path) -> str:
    actor = Actor()

    async def drive(turn: Turn) -> tuple[Stopped, str]:
        answers = [await actor.call(turn, *pay(bill)) for bill in BILLS]
        return "finished", turn.say("; ".join(answer.content for answer in answers)).content

    return await _said(Agent(rt, drive, name="own", limits=Limits(max_steps=20)))


TASKS: dict[str, Task] = {
    task.__name__: task
    for task in (
        tool_loop,
        six_payments,
        typed_answer,
        handoff,
        approval_in_a_sub_agent,
        messages_during_a_turn,
        fallback,
        checks,
        long_context,
        memory_across_threads,
        image_in_a_result,
        background_tool,
        coding,
        stream_and_reconnect,
        scripted,
        plan,
        limited,
        two_callers,
        own_loop,
    )
}


def options_of(task: str) -> dict[str, Any]:
    return {"policy": Policy(ask=["pay"])} if task == "approval_in_a_sub_agent" else {}


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    folder = Path(scene.place.folder)
    async with runtime_at(scene.place, **options_of(scene.task)) as rt:
        append_line(folder / "told", await TASKS[scene.task](rt, folder))
