"""The blocking client, with the methods of `clicket.sync.Runtime`, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack

from clicket.agents import AgentEvent, AgentResult, AgentState, Message, Page, Sent, ThreadView
from clicket.agents.mailbox import When
from clicket.client.agent import AgentInfo, RemoteAgent, TurnOptions
from clicket.client.client import Client
from clicket.model.chat import ChatMessage
from clicket.runtime.blocking import Audit, Runtime
from clicket.system.bridge import enter_with

__all__ = ["SyncAgent", "SyncClient"]

T = TypeVar("T")


class _OnlyInTheServer:
    """An attribute of a runtime that a client does not have: reading it raises `AttributeError`, and `dir()` does not list it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(
            f"a client has no {self._name!r}: only the runtime in the server's process has it.",
            name=self._name,
            obj=instance,
        )


class _HidesMissing:
    def __dir__(self) -> list[str]:
        found = ((name, getattr_static(type(self), name, None)) for name in super().__dir__())
        return [name for name, value in found if not isinstance(value, _OnlyInTheServer)]


class _AuditLog(_HidesMissing, Audit):
    record = _OnlyInTheServer()  # the server writes the log; a client reads it


class SyncClient(_HidesMissing, Runtime):
    """`with SyncClient("http://127.0.0.1:8000") as rt: result = rt.call("add", {"a": 1, "b": 2})`."""

    _name = "clicket.client.SyncClient"
    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = enter_with("with", _name, "async with", "clicket.client.Client")
    acting_for = _OnlyInTheServer()
    add = _OnlyInTheServer()
    observers = _OnlyInTheServer()
    registry = _OnlyInTheServer()
    remove = _OnlyInTheServer()
    settings = _OnlyInTheServer()

    def __init__(self, url: str, *, key: str | None = None) -> None:
        self._client = Client(url, key=key)
        self._face(self._client)
        self.url: str = url

    def agent(self, name: str | None = None) -> SyncAgent:
        """An agent of the server, by its name, or the default one: `rt.agent().run("question", thread="t1")`."""
        return SyncAgent(self, self._client.agent(name))

    @property
    def audit(self) -> Audit:
        """The audit log: `rt.audit.list(limit=100)`; needs the scope `admin`."""
        return _AuditLog(self)

    def agents(self) -> list[AgentInfo]:
        """The agents of the server."""
        listed: list[AgentInfo] = self._wait(self._client.agents())
        return listed


class SyncAgent:
    """The same names as `RemoteAgent`, blocking."""

    def __init__(self, client: SyncClient, agent: RemoteAgent) -> None:
        self._client = client
        self._agent = agent
        self.name: str | None = agent.name

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        result: T = self._client._wait(coroutine)
        return result

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
        """Run one turn and wait for its end. Raises the error of a turn that failed. `turn` and `id` as in `Agent.run`."""
        return self._wait(self._agent.run(message, thread=thread, turn=turn, id=id, output=output, **options))

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
        """Start a turn, and return its number as soon as it is durable in the server's store."""
        return self._wait(self._agent.begin(message, thread=thread, turn=turn, id=id, output=output, **options))

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
        """Run one turn and give its events; the last is `final` or `error`."""
        return self._client._iterate(
            self._agent.stream(message, thread=thread, turn=turn, id=id, output=output, **options)
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
        return self._wait(self._agent.send(message, thread=thread, when=when, id=id, output=output, **options))

    def stop(self, thread: str = "default", reason: str = "") -> bool:
        """Cancel the turn under way. False: there is none."""
        return self._wait(self._agent.stop(thread, reason))

    def state(self, thread: str = "default") -> AgentState:
        return self._wait(self._agent.state(thread))

    def look(self, thread: str = "default") -> ThreadView:
        """A thread as the server's store has it."""
        return self._wait(self._agent.look(thread))

    def messages(self, thread: str = "default") -> list[ChatMessage]:
        """The messages of all turns that are over."""
        return self._wait(self._agent.messages(thread))

    def history(self, thread: str = "default", *, after: int = 0, limit: int = 100) -> Page:
        """The turns of a thread that are over, the oldest first; `after` of one page fetches the next."""
        return self._wait(self._agent.history(thread, after=after, limit=limit))

    def events(self, thread: str = "default", *, after: str = "", follow: bool = False) -> Iterator[AgentEvent]:
        """What happened in a thread after the event with the id `after`, then live; as in `RemoteAgent.events`."""
        return self._client._iterate(self._agent.events(thread, after=after, follow=follow))
