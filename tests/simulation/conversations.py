"""Messages to agents. A message has an id: its sender sends it again, to any process, until it has the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.team import make_script

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["Conversations", "Message"]


class Message:
    def __init__(self, number: int, agent: str, thread: str, text: str) -> None:
        self.id, self.agent, self.thread, self.text = f"m{number}", agent, thread, text
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
            agent = "planner" if chance.random() < 0.25 else "boss"
            text = "Plan it."
            if agent == "boss":
                self._scene.scripts.append(make_script(self._scene, helps=True))
                text = f"do {len(self._scene.scripts) - 1}"
            message = Message(number, agent, f"{agent}-{chance.randint(0, 1)}", text)
            self.messages.append(message)
        self._send(message)

    def send_unanswered(self) -> None:
        for message in self.messages:
            if not message.answers:
                self._send(message)

    def _send(self, message: Message) -> None:
        if (member := self._cluster.up()) is not None:
            self._world.tell(
                member.node, f"message {message.id} to {message.agent} in {message.thread}: {message.text}"
            )
            self._cluster.clients.do(member, self._run(member, message), message.id)

    async def _run(self, member: Member, message: Message) -> None:
        assert member.team is not None
        agent = member.team.planner if message.agent == "planner" else member.team.boss
        result = await agent.run(message.text, thread=message.thread, id=message.id)
        self._world.tell("client", f"message {message.id} is answered: {result.text} ({result.stopped})")
        message.answers.append((result.text, result.stopped))
