"""Messages to agents. A message has an id: its sender sends it again, to any process, until it has the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.servers import SERVED
from tests.simulation.team import make_script

from clicket.agents import Agent
from clicket.errors import ClicketError

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["DIED", "Conversations", "Message"]

DIED = "its process died too often"
"""In the error of a turn that was under way whenever a tool killed its process."""


class Message:
    """`caller`: empty for a program in the cluster; else it is sent over HTTP."""

    def __init__(self, number: int, agent: str, thread: str, text: str, caller: str) -> None:
        self.id, self.agent, self.thread, self.text, self.caller = f"m{number}", agent, thread, text, caller
        self.is_sent = False
        self.answers: list[tuple[str, str]] = []
        """What its sender got each time: the text, and why the turn ended."""


class Conversations:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._world, self._scene = cluster, cluster.world, cluster.scene
        self.messages: list[Message] = []

    def send(self, number: int) -> None:
        """A new message, or one that was sent before."""
        chance = self._world.chance
        if self.messages and chance.random() < 0.3:
            message = chance.choice(self.messages)
        else:
            plans = 0.8 if self._cluster.features.focus.plans else 0.25
            agent = "planner" if chance.random() < plans else "boss"
            text = "Plan it."
            if agent == "boss":
                self._scene.scripts.append(make_script(self._scene, self._calls()))
                text = f"do {len(self._scene.scripts) - 1}"
            served = self._cluster.features.servers and chance.random() < 0.4
            thread = f"{agent}-{'http' if served else chance.randint(0, 1)}"
            message = Message(number, agent, thread, text, SERVED[0] if served else "")
            self.messages.append(message)
        self._send(message)

    def _calls(self) -> list[str]:
        has = self._cluster.features
        return ["helper", *(["junior"] if has.deep else []), *(["job"] if has.background else [])]

    def stop(self) -> None:
        """A person stops the turn of a thread, if one is under way."""
        open_ = [message for message in self.messages if not message.answers]
        if not open_:
            return
        message = self._world.chance.choice(open_)
        if message.caller:
            self._cluster.http.do(self._cluster.http.stop(message), "stop a turn")
        elif (member := self._cluster.up()) is not None:
            self._cluster.clients.do(member, self._stop(member, message), "stop a turn")

    async def _stop(self, member: Member, message: Message) -> None:
        self.stopped(message, took=False)
        if await self._agent(member, message).stop(message.thread):
            self.stopped(message, took=True)

    def stopped(self, message: Message, *, took: bool) -> None:
        if took:
            self._world.tell("person", f"the turn of {message.thread} is stopped")
        self._scene.stops.append((self._world.now, message.thread, took))

    def _agent(self, member: Member, message: Message) -> Agent:
        assert member.team is not None
        return member.team.planner if message.agent == "planner" else member.team.boss

    def send_unanswered(self) -> None:
        for message in self.messages:
            if not message.answers:
                self._send(message)

    def _send(self, message: Message) -> None:
        if message.caller:
            if not message.is_sent:  # one program sends it until it has the answer
                message.is_sent = True
                self._cluster.http.do(self._cluster.http.send(message), message.id)
        elif (member := self._cluster.up()) is not None:
            self._world.tell(
                member.node, f"message {message.id} to {message.agent} in {message.thread}: {message.text}"
            )
            self._cluster.clients.do(member, self._run(member, message), message.id)

    async def _run(self, member: Member, message: Message) -> None:
        try:
            result = await self._agent(member, message).run(message.text, thread=message.thread, id=message.id)
        except ClicketError as error:
            if DIED not in error.message:
                raise
            self.answered(message, "", "error")
        else:
            self.answered(message, result.text, result.stopped)

    def answered(self, message: Message, text: str, stopped: str) -> None:
        self._world.tell("client", f"message {message.id} is answered: {text} ({stopped})")
        message.answers.append((text, stopped))
