"""The client for programs without an event loop: the same names as `clicket.sync.Runtime`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clicket.agents import AgentEvent, AgentResult, AgentState, Page, ThreadView
from clicket.client.agent import AgentInfo, RemoteAgent
from clicket.client.client import Client
from clicket.model.chat import ChatMessage
from clicket.sync import Runtime

__all__ = ["SyncAgent", "SyncClient"]


class SyncClient(Runtime):
    """`with SyncClient("http://127.0.0.1:8000") as rt: result = rt.call("add", {"a": 1, "b": 2})`."""

    _name = "clicket.client.SyncClient"

    def __init__(self, url: str, *, key: str | None = None) -> None:
        self._client = Client(url, key=key)
        self._face(self._client)
        self.url: str = url

    def agent(self, name: str | None = None) -> SyncAgent:
        """An agent of the server, by its name, or the default one: `rt.agent().run("question", thread="t1")`."""
        return SyncAgent(self, self._client.agent(name))

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

    def _wait(self, coroutine: Any) -> Any:
        return self._client._wait(coroutine)

    def run(self, message: str, *, thread: str = "default") -> AgentResult:
        """One turn to its end; the error of one that failed is raised."""
        result: AgentResult = self._wait(self._agent.run(message, thread=thread))
        return result

    def begin(self, message: str, *, thread: str = "default", turn: int | None = None) -> int:
        """Start a turn, and return its number as soon as it is durable there."""
        return int(self._wait(self._agent.begin(message, thread=thread, turn=turn)))

    def stream(self, message: str, *, thread: str = "default") -> Iterator[AgentEvent]:
        """One turn, told as it happens; the last event is `final` or `error`."""
        return self._client._iterate(self._agent.stream(message, thread=thread))

    def stop(self, thread: str = "default", reason: str = "") -> bool:
        """Cancel the turn under way. False: there is none."""
        return bool(self._wait(self._agent.stop(thread, reason)))

    def state(self, thread: str = "default") -> AgentState:
        state: AgentState = self._wait(self._agent.state(thread))
        return state

    def look(self, thread: str = "default") -> ThreadView:
        """A thread as the server's store has it."""
        view: ThreadView = self._wait(self._agent.look(thread))
        return view

    def messages(self, thread: str = "default") -> list[ChatMessage]:
        """The messages of all turns that are over."""
        found: list[ChatMessage] = self._wait(self._agent.messages(thread))
        return found

    def history(self, thread: str = "default", *, after: int = 0, limit: int = 100) -> Page:
        """The turns of a thread that are over, the oldest first; `after` of one page fetches the next."""
        page: Page = self._wait(self._agent.history(thread, after=after, limit=limit))
        return page

    def events(self, thread: str = "default", *, after: str = "", follow: bool = False) -> Iterator[AgentEvent]:
        """What happened in a thread after the event with the id `after`, then live; as in `RemoteAgent.events`."""
        return self._client._iterate(self._agent.events(thread, after=after, follow=follow))
