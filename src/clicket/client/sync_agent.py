"""`SyncAgent`, and what it gives: the async classes for programs without an event loop.

Written by `scripts/blocking.py`: change the async classes, then run `make docs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

from clicket.agents import AgentEvent, AgentResult, AgentState, Fork, Message, Page, Sent, ThreadView
from clicket.agents.again import Effects
from clicket.agents.mailbox import QueuedMessage, When
from clicket.client.agent import RemoteAgent as AsyncRemoteAgent
from clicket.client.agent import TurnOptions
from clicket.model.chat import ChatMessage
from clicket.runtime.blocking_base import BlockingPart

__all__ = ["SyncAgent"]


class SyncAgent(BlockingPart[AsyncRemoteAgent]):
    """`agent = client.agent("helper")`; without a name the server's default."""

    @property
    def name(self) -> str | None:
        return self._async.name

    def run(
        self,
        message: Message,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Any = None,
        **options: Unpack[TurnOptions],
    ) -> AgentResult:
        """Run one turn and wait for its end. A turn that failed raises its error. Cancelling the wait does not stop the turn. `turn` and
        `id` as in `Agent.run`. Files of the message are uploaded.
        """
        return self._loop.call(self._async.run(message, thread=thread, turn=turn, id=id, output=output, **options))

    def begin(
        self,
        message: Message,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Any = None,
        **options: Unpack[TurnOptions],
    ) -> int:
        """Start a turn, and return its number as soon as it is durable in the server's store; `turn` and `id` as in `Agent.run`."""
        return self._loop.call(self._async.begin(message, thread=thread, turn=turn, id=id, output=output, **options))

    def stream(
        self,
        message: Message,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Any = None,
        **options: Unpack[TurnOptions],
    ) -> Iterator[AgentEvent]:
        """Run one turn and give its events; the last is `final` or `error`. A stream that breaks is opened again after the last event.
        `turn` and `id` as in `Agent.run`.
        """
        return self._loop.iterate(
            self._async.stream(message, thread=thread, turn=turn, id=id, output=output, **options)
        )

    def send(
        self,
        message: Message,
        *,
        thread: str = "default",
        when: When = "next",
        id: str | None = None,
        output: Any = None,
        **options: Unpack[TurnOptions],
    ) -> Sent:
        """Store a message for a thread; it is read exactly once. As `Agent.send`."""
        return self._loop.call(self._async.send(message, thread=thread, when=when, id=id, output=output, **options))

    def stop(self, thread: str = "default", reason: str = "") -> bool:
        """Cancel the turn under way. False: there is none."""
        return self._loop.call(self._async.stop(thread, reason))

    def queued(self, thread: str = "default") -> list[QueuedMessage]:
        """The messages of a thread that wait for a turn, in their order. As `Agent.queued`."""
        return self._loop.call(self._async.queued(thread))

    def unsend(self, id: str, thread: str = "default") -> bool:
        """Take a message back. False: a turn has taken it, or there is none."""
        return self._loop.call(self._async.unsend(id, thread))

    def fork(
        self, thread: str = "default", *, after: int | None = None, step: int | None = None, to: str | None = None
    ) -> ThreadView:
        """A new thread with the turns of this one up to a number, or a step. As `Agent.fork`."""
        return self._loop.call(self._async.fork(thread, after=after, step=step, to=to))

    def forks(self, thread: str = "default") -> list[Fork]:
        """The forks of a thread, the oldest first, each with its own forks."""
        return self._loop.call(self._async.forks(thread))

    def rerun(
        self,
        thread: str = "default",
        *,
        turn: int,
        system: str | None = None,
        effects: Effects = "recorded",
        to: str | None = None,
    ) -> AgentResult:
        """Run a turn again, in a fork of the thread before it; `r.thread` is the fork. As `Agent.rerun`, without its `model`."""
        return self._loop.call(self._async.rerun(thread, turn=turn, system=system, effects=effects, to=to))

    def resume(self, thread: str = "default") -> AgentResult | None:
        """Continue a turn that a fork has up to a step, or that a crash interrupted; None: there is none."""
        return self._loop.call(self._async.resume(thread))

    def state(self, thread: str = "default") -> AgentState:
        return self._loop.call(self._async.state(thread))

    def look(self, thread: str = "default") -> ThreadView:
        """A thread as the server's store has it."""
        return self._loop.call(self._async.look(thread))

    def messages(self, thread: str = "default") -> list[ChatMessage]:
        """The messages of all turns that are over."""
        return self._loop.call(self._async.messages(thread))

    def history(self, thread: str = "default", *, after: int = 0, limit: int = 100) -> Page:
        """The turns of a thread that are over, the oldest first; `after` of one page fetches the next."""
        return self._loop.call(self._async.history(thread, after=after, limit=limit))

    def events(self, thread: str = "default", *, after: str = "", follow: bool = False) -> Iterator[AgentEvent]:
        """What happened in a thread after the event with the id `after` (without one: in its last turn), then live.

        Ends with the turn under way, or at once; with `follow` it goes on with the turns to come.
        """
        return self._loop.iterate(self._async.events(thread, after=after, follow=follow))
