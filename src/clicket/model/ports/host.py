"""What an agent needs of its runtime, on behalf of one caller."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from clicket.errors import ClicketError
from clicket.model import Arguments, CallOptions, Event, Record, ToolResult
from clicket.model.chat import ToolOffer
from clicket.model.files import File, FileRef
from clicket.model.ports.caller import Handle
from clicket.model.ports.clock import Clock
from clicket.model.ports.records import Records
from clicket.model.replayed import Replay
from clicket.model.undo import UndoReport

if TYPE_CHECKING:  # commands that only read need none of it
    from clicket.model.deps import RunDeps
    from clicket.model.ports.spending import Spending

__all__ = ["AgentHost", "Taken", "Watch"]


class Taken(ClicketError):
    """The id of an inner call is in use: a process runs that turn, or has run it."""

    code = "taken"


class Watch(Protocol):
    """Receives durable events of other calls in this process. Neither waits nor raises."""

    def __call__(self, caller: str, thread: str, call_id: str, events: Sequence[Event]) -> None: ...


class AgentHost(Protocol):
    @property
    def clock(self) -> Clock: ...
    @property
    def caller(self) -> str: ...
    @property
    def scopes(self) -> frozenset[str]:
        """What the caller may do."""
        ...

    @property
    def requesters(self) -> frozenset[str]:
        """Names of the person who makes calls in the name of the caller."""
        ...

    @property
    def records(self) -> Records: ...
    @property
    def spending(self) -> Spending: ...
    @property
    def closing(self) -> bool:
        """The runtime takes no more calls."""
        ...

    def while_open(self) -> AbstractContextManager[None]:
        """Inside, the error is `Closed` if the runtime is closed meanwhile, as for a call that is waited for."""
        ...

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something in the background. The runtime waits for it when it closes, a second at most."""
        ...

    @property
    def is_stuck(self) -> bool:
        """Events of running calls cannot be stored until a person has made room."""
        ...

    def acting_for(
        self, caller: str, scopes: frozenset[str], requesters: frozenset[str] = frozenset()
    ) -> AgentHost: ...

    def asking(self, why: str) -> AgentHost:
        """This host for calls about which a person decides, whatever the policy allows; what it denies is denied."""
        ...

    def within(self, tool: str, maker: Any = None) -> AgentHost:
        """This host for calls that a running call of this tool makes: they may be of the tools that are lent to it. `maker`: that call, as
        the journal has it. `Stale`: another process wrote to it, or what it recorded is not in the store, so the call was not made."""
        ...

    # Deps: values of this process for tools.

    def makes_dep(self, name: str) -> bool:
        """Does the runtime make it?"""
        ...

    def lacking_dep(self, tools: Collection[str] | None, brought: Collection[str]) -> str:
        """Why one of these tools (None: of all) cannot run with the deps that a run brings; empty if they can, or if other processes run
        them."""
        ...

    def with_deps(self, deps: RunDeps, thread: str, mark: str) -> AgentHost:
        """This host for the calls of a turn whose run brought these deps. Calls of that turn which this process took over get them, too,
        until `drop_deps`."""
        ...

    def drop_deps(self, thread: str, mark: str) -> None: ...

    async def deps(self) -> Mapping[str, Any]:
        """What calls of this host may read: those of the run, and those that the runtime makes."""
        ...

    def for_parts(self) -> AgentHost:
        """This host for calls of tools that turns of agents alone can call."""
        ...

    # Tools that every caller may call.

    async def offers(self, thread: str) -> tuple[ToolOffer, ...]:
        """What the thread may call now."""
        ...

    def offer(self, name: str) -> ToolOffer | None:
        """One tool of the runtime, listed or not, under the name by which models know it; None: no tool has this name."""
        ...

    async def ranked_tools(self, query: str, among: Collection[str], limit: int) -> list[str]:
        """The names of the tools that fit a query, the best first."""
        ...

    def call(
        self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]
    ) -> Coroutine[Any, Any, ToolResult]: ...

    def call_new(self, tool: str, arguments: Arguments, id: str, thread: str) -> Coroutine[Any, Any, ToolResult]:
        """`call` with an id that was made just now, so that no call was ever made with it."""
        ...

    def is_background(self, tool: str) -> bool:
        """Do the tool's calls go on in the background of a conversation?"""
        ...

    async def start(self, tool: str, arguments: Arguments, *, id: str, thread: str) -> ToolResult | None:
        """Make a call without waiting for its outcome; returns when it is durable, with its result if it has ended already."""
        ...

    def sensitive(self, tool: str) -> frozenset[str]:
        """The fields that a tool declares as sensitive; none for a tool that is not there."""
        ...

    async def refuse(self, tool: str, arguments: Arguments, *, id: str, thread: str, why: str) -> ToolResult:
        """Record a call that is not allowed, as refused."""
        ...

    async def replay(
        self, tool: str, arguments: Arguments, *, id: str, thread: str, replay: Replay, internal: bool = False
    ) -> ToolResult:
        """Make a call that ends with an outcome which `replay` chooses, without a run of its tool; if it chooses none, as `call_new`."""
        ...

    async def made(self, id: str, thread: str) -> Handle | None:
        """A call that was made before, in this process or another."""
        ...

    async def waiting(self, thread: str, waiting_for: str = "approval") -> list[str]:
        """Ids of the thread's calls that wait for a person's approval, or for something else."""
        ...

    async def open_calls(self, thread: str) -> list[Record]:
        """The thread's calls that have not ended, the newest first."""
        ...

    async def waits_for_people(self, thread: str) -> list[tuple[str, str]]:
        """Thread and id of each call that waits for an approval or a credential: of the thread, and of the agents that its calls have
        called, at any depth."""
        ...

    async def keep(self, data: bytes) -> str:
        """Store a file for as long as threads are kept; returns its name."""
        ...

    async def keep_files(self, files: Sequence[File]) -> list[FileRef]:
        """As `keep`, for files of a message. `NotFound`: the caller may not read an artifact that one names."""
        ...

    async def read_file(self, artifact: str, most: int) -> bytes:
        """The first `most` bytes of a file that the caller may read; `NotFound` otherwise."""
        ...

    async def release_calls(self, thread: str) -> None:
        """Calls in this thread that were kept as parts of an agent's turns are subject to retention again."""
        ...

    @property
    def documents(self) -> Any:
        """The caller's documents, see `clicket.engine.executors.CallerDocuments`."""
        ...

    def protect(self, kind: str, key: str, body: bytes) -> bytes:
        """A document's body for the store: sealed or masked if it holds a secret."""
        ...

    def reveal(self, kind: str, key: str, body: bytes) -> bytes | None:
        """The inverse of `protect`; None: this process has no key for it."""
        ...

    async def allow(self, artifact: str) -> None:
        """Let the caller read a file that one of its calls stored, for as long as threads are kept."""
        ...

    def refuse_unknown(self, names: Iterable[str]) -> None:
        """`UsageError` if the runtime has no tool of a name, and none can join it later."""
        ...

    def tools(self) -> Sequence[Any]:
        """The tools of the runtime that are listed."""
        ...

    def lend(self, tool: Any) -> None:
        """Register a tool of clicket's own, under its reserved name, that can be called and is not listed."""
        ...

    def lend_to(self, agent: str, tool: Any) -> str:
        """Register a tool that only turns of this agent can call, and of other agents that it is lent to; returns its name."""
        ...

    def watch(self, watch: Watch) -> None: ...
    def unwatch(self, watch: Watch) -> None: ...

    # Turns: calls of the agent's own.

    def install(self, inner: Any) -> None:
        """Register an inner tool: its calls can be made, and are recovered after a crash."""
        ...

    def installed(self, name: str) -> Any:
        """The inner tool of that name, or None."""
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
        """The recorded entries of an inner call, for readers: values of declared fields are masked."""
        ...

    def lives(self, id: str, thread: str) -> bool:
        """Does the inner call run in this process?"""
        ...

    async def claim(self, id: str, thread: str) -> bool:
        """Take an inner call over whose owner is dead. False: its owner lives, or it has ended."""
        ...

    async def is_unattended(self, id: str, thread: str) -> bool:
        """Was the inner call taken over from the process that began it, and does no caller of this process wait for it? Known from the
        moment in which the call changes its owner."""
        ...

    def attend(self, id: str, thread: str) -> None:
        """A caller of this process waits from now on for an inner call that this process took over."""
        ...

    def leave(self, id: str, thread: str) -> None:
        """A caller that attended an inner call does not wait for it any more."""
        ...

    async def recover(self) -> None:
        """Take over, now, the calls of dead owners whose tools this process has."""
        ...

    async def cancel(self, id: str, thread: str, reason: str) -> bool: ...

    async def undo_turn(self, agent: str, thread: str, turn: int) -> UndoReport:
        """Undo the calls of a turn that is about to end. Calls that have not ended are waited for."""
        ...
