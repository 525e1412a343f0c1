"""A call while somebody in this process works on it. Its state is changed by the journal alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from clicket.errors import ClicketError
from clicket.kernel import State

if TYPE_CHECKING:
    from clicket.model import Event, Stage, ToolCall, ToolError, ToolResult
    from clicket.ports import Append, CacheUse, OutcomeStats, Timer
    from clicket.tools import Tool
    from clicket.vault import Secrets

__all__ = ["LiveCall", "Then"]

Then = Callable[["LiveCall", ClicketError | None], None]


class LiveCall(msgspec.Struct, eq=False, kw_only=True):
    """Many values, most never touched in a life without trouble. A Struct sets their defaults in C: one call has one."""

    request: ToolCall
    id: str
    caller: str
    created_at: float
    submitted_at: float
    idempotency_key: str

    # What the journal knows.
    key: int = 0
    fence: int = 1
    fenced: bool = False
    state: State = State.PENDING
    seq: int = 0
    events: list[Event] = []
    staged: list[Event] = []
    thens: list[Then] = []
    inflight: tuple[Append, list[Then]] | None = None
    waiting_for: str | None = None
    ended_at: float | None = None
    owned: bool = True
    """False: the next commit gives the call away."""
    cache_use: CacheUse | None = None
    stats: OutcomeStats | None = None
    """What the next commit adds to the store's figures; said once."""
    ending: OutcomeStats | None = None

    # What the stages work with.
    tool: Tool | None = None
    arguments: dict[str, Any] | None = None
    """As the tool gets them; what others may see is in the journal."""
    secrets: Secrets | None = None
    """What is to be hidden of this call; None when there is nothing."""
    edited: tuple[str, dict[str, Any]] | None = None
    """The hash and the arguments of an approver of this process, which the journal has masked."""
    hidden: bool = False
    """Something of its output was hidden."""
    lost: bool = False
    """Its arguments are masked, and no key opens them."""
    check: Any = None
    bound: Any = None
    cache_key: str | None = None
    flight: str | None = None
    """The slot that says, to all processes, that this call runs for all its equals."""
    cached: bool = False
    verdict: str = "allow"
    asked_because: str = ""
    """Why the policy asks, or why it denies."""
    approval_timeout: float | None = None
    """Seconds that a person has to decide."""
    scopes: frozenset[str] = frozenset()
    """What its caller may do; a policy may ask."""
    inner: bool = False
    """Of one of clicket's own parts: it holds no slot, and neither the hub nor the policy is asked about it."""
    denied: str = ""
    """Why whoever makes it may not use its tool: an agent may have some of the runtime's tools alone."""
    vouched: bool = False
    """The hub was asked about it just now."""
    trial: str | None = None
    """The slot that says, to all processes, that this call tries a tool that had failed."""
    stages: list[tuple[str, Stage]] = []
    """The stages that ended and are on record."""
    stage_at: float = 0.0
    work: list[tuple[str, Stage]] = []
    """The stages whose end goes on record with the outcome."""
    lane: str = "loop"
    needs: tuple[Any, ...] = ()
    prefer_sync: bool = False
    attempt: int = 0
    retries_left: int = 0
    worker: Any = None
    task: asyncio.Task[Any] | None = None
    cancels: int = 0
    """How often that task had been cancelled when the attempt began."""
    late: tuple[Any, BaseException | None] | None = None
    started_at: float | None = None
    sink: Any = None
    outputs: int = 0
    reported: int = 0
    progress: dict[str, Any] | None = None
    progress_kept: dict[str, Any] | None = None
    output: Any = None
    content: str = ""
    truncated: bool = False
    artifact: str | None = None
    kept: tuple[tuple[str, int], ...] = ()
    """Artifacts that the call names from its next commit on, with their sizes."""
    keeps: frozenset[str] = frozenset()
    """Artifacts that its tool kept: they go with this call, so its output cannot serve equal ones."""
    error: ToolError | None = None
    outcome: State = State.FAILED
    blameless: bool = False
    """It failed, and its tool is not to blame."""
    metadata: dict[str, Any] = {}
    duration: float = 0.0

    span: Any = None
    """The trace's part of it, where somebody traces calls."""

    # Who holds it, stops it, waits for it.
    direct: bool = False
    ready: bool = False
    detached: bool = False
    caller_left: bool = False
    turn: asyncio.Future[Any] | None = None
    gate: asyncio.Future[None] | None = None
    held: asyncio.Future[Any] | None = None
    must_stop: bool = False
    slot: bool = False
    shared: bool = False
    """Holds a slot that all processes share."""
    queued: bool = False
    place: int = 0
    stopping: str | None = None
    stopper: Callable[[], object] | None = None
    cancel_reason: str = ""
    settling: bool = False
    settled: bool = False
    abandoned: bool = False
    attempt_deadline: Timer | int | None = None
    idle_timer: Timer | None = None
    deadline_timer: Timer | None = None
    grace_timer: Timer | None = None
    queue_timer: Timer | None = None
    result: ToolResult | None = None
    refused: ClicketError | None = None
    gone: ClicketError | None = None
    accepted: asyncio.Future[None] | None = None
    waiters: list[asyncio.Future[Any]] = []
    watchers: list[asyncio.Future[None]] = []

    @property
    def thread(self) -> str:
        return self.request.thread

    @property
    def tool_name(self) -> str:
        return self.request.tool

    @property
    def visible_state(self) -> State:
        """The state that the store has: what others may be told."""
        return self.events[-1].state if self.events else State.PENDING

    def required_tool(self) -> Tool:
        assert self.tool is not None, "the find stage has run"
        return self.tool
