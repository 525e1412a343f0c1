"""An agent with a chain of models, middleware, checks and typed answers, and programs that send it messages while its turns run.

A message has an id: its sender sends it again, to any process, until that is acknowledged; and may take it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from tests.simulation.conversations import DIED
from tests.simulation.loop import NODE
from tests.simulation.scene import Scene, scene
from tests.simulation.team import Request

from clicket import RetryableError, Runtime, ToolCall
from clicket.agents import Ask, Change, Check, Edit, Memory, Middleware, ReActAgent, Refuse
from clicket.errors import ClicketError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolUse, Usage
from clicket.models import Fallback

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["ADDED", "BEGINS", "OTHER", "Clerks", "Sent", "make_clerk"]

BEGINS, ADDED = "note ", "remember "
"""How messages begin, and those that middleware adds."""
CHANGED = 0.031
"""What a check writes in place of the arguments."""
OTHER = "expert"
"""The agent to which turns are handed over, and its model."""
_TOKENS = 13


class Answer(msgspec.Struct):
    """What the clerk answers with."""

    done: int
    steps: int


class _Judge(Middleware):
    """Decides by chance, so a decision that is made a second time is another one."""

    name = "chance"

    def before_model(self, turn: Any, request: ChatRequest) -> Edit | None:
        here = scene()
        if here.world.chance.random() < 0.7:
            return None
        here.decides(turn, turn.steps + 1, "before_model", self.name, "")
        here.added += 1
        return Edit(add=[ChatMessage(role="user", content=f"{ADDED}{here.added}")])

    def before_tool(self, turn: Any, call: ToolCall) -> Change | Refuse | Ask | None:
        return _of_call(turn, call, "before_tool", self.name)

    def after_tool(self, turn: Any, call: ToolCall, result: Any) -> Change | None:
        here = scene()
        if here.world.chance.random() < 0.7:
            return None
        here.decides(turn, turn.steps, "after_tool", self.name, _use_of(call))
        return Change(f"as it was read at {here.world.now}")


def _use_of(call: ToolCall) -> str:
    return str(call.id).partition(":")[0]


def _of_call(turn: Any, call: ToolCall, on: str, by: str) -> Change | Refuse | Ask | None:
    here, dice = scene(), scene().world.chance.random()
    if dice < 0.6 or call.tool.startswith("hand_to_"):
        return None
    here.decides(turn, turn.steps, on, by, _use_of(call))
    if dice < 0.75:
        return Change({**(call.arguments or {}), "before": CHANGED})
    return Refuse("not now") if dice < 0.9 else Ask("may it?")


async def _check_call(turn: Any, call: ToolCall) -> Change | Refuse | Ask | None:
    await asyncio.sleep(scene().world.chance.choice((0, 0.01, 0.1)))
    return _of_call(turn, call, "tool_call", "_check_call")


async def _check_message(turn: Any, text: str) -> Refuse | Ask | None:
    here, dice = scene(), scene().world.chance.random()
    await asyncio.sleep(here.world.chance.choice((0, 0.01)))
    return None if dice < 0.85 or not text.startswith(BEGINS) else Refuse("no") if dice < 0.92 else Ask("shall it?")


def _check_answer(turn: Any, text: str) -> Refuse | Ask | None:
    dice = scene().world.chance.random()
    return None if dice < 0.85 else Refuse("say it better") if dice < 0.95 else Ask("may it be said?")


class _Model:
    """Replies by the script of the message with which the turn began, then with an answer, sometimes one that does not fit."""

    def __init__(self, name: str, fails: float) -> None:
        self.name, self._fails = name, fails

    async def chat(self, request: ChatRequest) -> ChatReply:
        here, chance = scene(), scene().world.chance
        messages = request.messages
        begins = max(
            place for place, each in enumerate(messages) if each.role == "user" and each.content.startswith(BEGINS)
        )
        script = here.scripts[int(messages[begins].content.removeprefix(BEGINS))]
        step = sum(1 for each in messages[begins:] if each.role == "assistant" and each.uses)
        who = messages[begins].content.replace(" ", "_")
        here.moment("model", NODE.get(), "")
        here.requests.append(Request(here.world.now, messages[begins].content, messages, self.name))
        here.tokens_asked += _TOKENS
        await asyncio.sleep(chance.choice((0, 0.01, 0.3)))
        usage = Usage(input_tokens=_TOKENS - 1, output_tokens=1)
        dice = chance.random()
        if dice < self._fails:
            here.tokens_refused += _TOKENS
            raise RetryableError("the model is away")
        if dice < 2 * self._fails:
            return ChatReply(text="I would rather not.", usage=usage, ended="refusal")
        if step < len(script):
            uses = tuple(
                ToolUse(id=f"{who}_{step}_{place}", name=name, arguments=msgspec.json.encode(given).decode())
                for place, (name, given) in enumerate(script[step])
            )
            return ChatReply(text="", uses=uses, usage=usage)
        fits = chance.random() < 0.8
        return ChatReply(text=f'{{"done": 1, "steps": {step}}}' if fits else "It is done.", usage=usage)


def make_clerk(runtime: Runtime) -> ReActAgent[Answer]:
    """By what its models ask for (`focus.py`) it remembers facts, or hands its turns over to another agent."""
    chain = Fallback(_Model("first", 0.2), _Model("second", 0.1), on=("unavailable", "refusal"), hold=0.5)
    checks = [Check(_check_call, on="tool_call"), Check(_check_message, on="input"), Check(_check_answer, on="output")]
    tools, script = ["pay", "put", "look_up"], scene().script
    handoffs: list[ReActAgent[Answer]] = []
    if script == "hands":
        handoffs.append(ReActAgent(runtime, _Model(OTHER, 0.1), name=OTHER, tools=tools, output=Answer))
    return ReActAgent(
        runtime, chain, name="clerk", tools=tools, middleware=[_Judge(), *([Memory()] if script == "facts" else [])], checks=checks,
        output=Answer, handoffs=handoffs,
    )  # fmt: skip


class Sent:
    """A message that a program sends to a thread. `is_held`: an acknowledgement came. `taken_back`: when that was acknowledged."""

    def __init__(self, number: int, thread: str, text: str, when: Any) -> None:
        self.id, self.thread, self.text, self.when = f"s{number}", thread, text, when
        self.began_at = float("inf")
        self.held_at: float | None = None
        self.taken_back: float | None = None
        self.may_be_taken_back = False
        """Somebody has tried to, acknowledged or not."""


class Asked:
    """Something that was asked of a thread: when that began, and when it was acknowledged."""

    def __init__(self, thread: str, at: float) -> None:
        self.thread, self.began_at = thread, at
        self.ended_at: float | None = None


class Clerks:
    """Programs that send messages."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._world, self._scene = cluster, cluster.world, cluster.scene
        self.sent: list[Sent] = []
        self.sends: list[Asked] = []
        """Each time a message was sent, and each stop of a thread's turn."""
        self.stops: list[Asked] = []

    def send(self, number: int) -> None:
        """A new message, or one that was sent before."""
        chance = self._world.chance
        if self.sent and chance.random() < 0.15:
            self._send(chance.choice(self.sent))
            return
        when = chance.choice(("next", "next", "now", "now", "interrupt", "run"))
        self._scene.scripts.append(_script(self._scene))
        message = Sent(number, f"clerk-{chance.randint(0, 1)}", f"{BEGINS}{len(self._scene.scripts) - 1}", when)
        self.sent.append(message)
        self._send(message)
        if chance.random() < 0.2:
            self._world.loop.call_later(chance.expovariate(1), self.take_back, message)

    def _send(self, message: Sent) -> None:
        if (member := self._cluster.up()) is not None:
            self._world.tell(member.node, f"{message.id} is sent to {message.thread}, {message.when}: {message.text}")
            self._cluster.clients.do(member, self._send_in(member, message), f"send {message.id}")

    async def _send_in(self, member: Member, message: Sent) -> None:
        assert member.team is not None
        message.began_at = min(message.began_at, self._world.now)
        self.sends.append(asked := Asked(message.thread, self._world.now))
        clerk = member.team.clerk
        if message.when == "run":
            try:
                await clerk.run(message.text, thread=message.thread, id=message.id)
            except ClicketError as error:
                if DIED not in error.message:
                    raise
        else:
            await clerk.send(message.text, thread=message.thread, when=message.when, id=message.id)
        asked.ended_at = self._world.now
        self._world.tell("client", f"{message.id} is stored")
        message.held_at = message.held_at or self._world.now

    def stop(self) -> None:
        """A person stops the turn of a thread, and holds its queue until the next message."""
        if (member := self._cluster.up()) is not None and member.team is not None:
            thread = f"clerk-{self._world.chance.randint(0, 1)}"
            self._world.tell("person", f"stops {thread}")
            self._cluster.clients.do(member, self._stop(member, thread), "stop a turn")

    async def _stop(self, member: Member, thread: str) -> None:
        assert member.team is not None
        self.stops.append(asked := Asked(thread, self._world.now))
        await member.team.clerk.stop(thread)
        asked.ended_at = self._world.now

    def take_back(self, message: Sent) -> None:
        if (member := self._cluster.up()) is not None:
            message.may_be_taken_back = True
            self._cluster.clients.do(member, self._take_back(member, message), f"take {message.id} back")

    async def _take_back(self, member: Member, message: Sent) -> None:
        assert member.team is not None
        if await member.team.clerk.unsend(message.id, message.thread):
            self._world.tell("client", f"{message.id} is taken back")
            message.taken_back = message.taken_back or self._world.now

    def send_untaken(self) -> None:
        """At rest a message that was not acknowledged is sent again, and one that waits in a queue which a stop has held, so that it is let
        go. All others begin their turns without help, unless a power loss took them."""
        turns = self.turns() if self.sent else {}
        held = {stop.thread for stop in self.stops}
        for message in self.sent:
            waits = message.held_at is not None and message.thread not in held and not self._cluster.may_forget
            if not waits and not self._is_done(message, turns):
                self._send(message)

    def turns(self) -> dict[str, list[tuple[str, str, int]]]:
        """By message: the thread, "begun" or "heard", and the number of each turn that has taken it."""
        found: dict[str, list[tuple[str, str, int]]] = {message.id: [] for message in self.sent}
        for call in self._cluster.place.calls():
            if call.tool == "agent:clerk":
                events = call.events()
                given = events[0].data["arguments"]
                if given.get("id") in found:
                    found[given["id"]].append((given["thread"], "begun", given["turn"]))
                for event in events:
                    entry = event.data.get("entry") or {}
                    if entry.get("e") == "heard" and entry.get("id") in found:
                        found[entry["id"]].append((given["thread"], "heard", given["turn"]))
        return found

    def is_done(self) -> bool:
        """Is every message acknowledged, and taken by a turn or taken back?"""
        turns = self.turns() if self.sent else {}
        return all(self._is_done(message, turns) for message in self.sent)

    def is_taken(self, message: Sent) -> bool:
        return self._is_done(message, self.turns())

    def _is_done(self, message: Sent, turns: dict[str, list[tuple[str, str, int]]]) -> bool:
        return message.held_at is not None and bool(turns[message.id] or message.may_be_taken_back)


def _script(here: Scene) -> Sequence[Any]:
    chance = here.world.chance
    script: list[Any] = []
    if here.script == "hands":
        script.append([(f"hand_to_{OTHER}", {"reason": "it knows more"})])
    for _ in range(chance.randint(0, 3)):
        uses: list[Any] = []
        if here.script == "facts":
            script.append(
                [("remember", {"fact": f"fact {len(here.scripts)}, {len(script)}, {place}"}) for place in range(2)]
            )
            continue
        for _ in range(chance.choice((1, 1, 2))):
            name = chance.choice(("pay", "put", "put", "look_up"))
            rest = {"key": 0} if name == "look_up" else {"fails": chance.choice((0, 0, 1))}
            uses.append((name, {"before": chance.choice((0, 0.01, 0.2, 0.8)), "after": 0, **rest}))
        script.append(uses)
    return script
