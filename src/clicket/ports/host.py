"""What an agent needs of the runtime that it works with, in the name of one caller."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, Unpack

from clicket.errors import ClicketError
from clicket.model import Arguments, CallOptions, Event, Record, ToolResult
from clicket.model.chat import ToolOffer
from clicket.ports.caller import Handle
from clicket.ports.clock import Clock
from clicket.ports.records import Records

__all__ = ["AgentHost", "Taken", "Watch"]


class Taken(ClicketError):
    """The id of an inner call is in use: somebody runs that turn, or has run it."""

    code = "taken"


class Watch(Protocol):
    """Told of events of other calls as they become durable, in this process. Neither waits nor raises."""

    def __call__(self, caller: str, thread: str, call_id: str, events: Sequence[Event]) -> None: ...


class AgentHost(Protocol):
    @property
    def clock(self) -> Clock: ...
    @property
    def caller(self) -> str: ...
    @property
    def records(self) -> Records: ...
    @property
    def closing(self) -> bool:
        """The runtime takes no more calls."""
        ...

    def acting_for(self, caller: str, scopes: frozenset[str]) -> AgentHost: ...

    # Tools that everybody may call.

    async def offers(self, thread: str) -> tuple[ToolOffer, ...]:
        """What the thread may call now."""
        ...

    def call(
        self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]
    ) -> Coroutine[Any, Any, ToolResult]: ...

    async def refuse(self, tool: str, arguments: Arguments, *, id: str, thread: str, why: str) -> ToolResult:
        """Put a call on record that may not be made, as refused."""
        ...

    async def made(self, id: str, thread: str) -> Handle | None:
        """A call that was made before, here or elsewhere."""
        ...

    async def waiting(self, thread: str) -> list[str]:
        """Ids of the thread's calls that wait for a person's approval."""
        ...

    async def keep(self, data: bytes) -> str:
        """Keep a file for as long as threads are kept; its name."""
        ...

    def protect(self, kind: str, key: str, body: bytes) -> bytes:
        """A paper's body as it may be at rest: sealed, or masked, where it holds a secret."""
        ...

    def reveal(self, kind: str, key: str, body: bytes) -> bytes | None:
        """The inverse of `protect`; None: no key of ours opens it."""
        ...

    async def allow(self, artifact: str) -> None:
        """Let the caller read a file that one of its calls kept, for as long as threads are kept."""
        ...

    def lend(self, tool: Any) -> None:
        """A tool of ours that can be called and is not listed; one of the program's own with that name comes first."""
        ...

    def watch(self, watch: Watch) -> None: ...
    def unwatch(self, watch: Watch) -> None: ...

    # Turns: calls of the agent's own.

    def install(self, inner: Any) -> None:
        """From now on calls of this inner tool can be made, and are taken up after a crash."""
        ...

    def installed(self, name: str) -> Any:
        """The inner tool of that name, or None."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside; the runtime waits for it when it closes."""
        ...

    async def conduct(self, tool: str, arguments: Mapping[str, Any], *, id: str, thread: str) -> ToolResult:
        """Run an inner call in the caller's own task. `Taken`: there is one of that id."""
        ...

    async def begin(self, tool: str, arguments: Mapping[str, Any], *, id: str, thread: str) -> None:
        """Run an inner call in a task of its own; returns when it is durable."""
        ...

    async def outcome(self, id: str, thread: str) -> ToolResult:
        """Wait for an inner call's end, wherever it runs."""
        ...

    async def record(self, id: str, thread: str) -> Record | None: ...

    def entries(self, events: Sequence[Event], id: str, thread: str) -> list[dict[str, Any]]:
        """What an inner call has on record."""
        ...

    def lives(self, id: str, thread: str) -> bool:
        """Does the inner call run in this process?"""
        ...

    async def claim(self, id: str, thread: str) -> bool:
        """Take an inner call over whose owner is dead. False: its owner lives, or it has ended."""
        ...

    async def cancel(self, id: str, thread: str, reason: str) -> bool: ...
