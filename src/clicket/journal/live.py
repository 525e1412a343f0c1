"""A call while somebody in this process works on it. Its state is changed by the journal alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clicket.errors import ClicketError
from clicket.kernel import State

if TYPE_CHECKING:
    from clicket.model import Event, Stage, ToolCall, ToolError, ToolResult
    from clicket.ports import Append, Timer
    from clicket.tools import Tool

__all__ = ["LiveCall", "Then"]

Then = Callable[["LiveCall", ClicketError | None], None]


class LiveCall:
    """Slots, as a call has many values and most are never touched in a life without trouble."""

    __slots__ = (
        "abandoned",
        "accepted",
        "approved_by",
        "arguments",
        "artifact",
        "attempt",
        "bound",
        "caller",
        "cancel_reason",
        "content",
        "created_at",
        "deadline_timer",
        "duration",
        "ended_at",
        "error",
        "events",
        "fence",
        "fenced",
        "grace_timer",
        "id",
        "idempotency_key",
        "inflight",
        "key",
        "lane",
        "late",
        "metadata",
        "needs",
        "outcome",
        "output",
        "outputs",
        "prefer_sync",
        "priority",
        "progress",
        "progress_kept",
        "queue_timer",
        "queued",
        "refused",
        "reported",
        "request",
        "result",
        "retries_left",
        "seq",
        "settled",
        "settling",
        "sink",
        "slot",
        "stage_at",
        "staged",
        "stages",
        "started_at",
        "state",
        "stopper",
        "stopping",
        "stream_artifact",
        "submitted_at",
        "thens",
        "thread",
        "tool",
        "tool_name",
        "truncated",
        "verdict",
        "waiters",
        "waiting_for",
        "watchers",
        "worker",
    )

    def __init__(  # noqa: PLR0915  # one line per value
        self, request: ToolCall, *, id: str, caller: str, created_at: float, submitted_at: float, idempotency_key: str
    ) -> None:
        self.request = request
        self.id = id
        self.caller = caller
        self.thread = request.thread
        self.tool_name = request.tool
        self.priority = request.priority
        self.idempotency_key = idempotency_key
        self.created_at = created_at
        self.submitted_at = submitted_at
        self.events: list[Event] = []
        self.staged: list[Event] = []
        self.thens: list[Then] = []
        self.stages: dict[str, Stage] = {}
        self.metadata: dict[str, Any] = {}
        self.waiters: list[asyncio.Future[Any]] = []
        self.watchers: list[asyncio.Future[None]] = []

        # What the journal knows.
        self.key = 0
        self.fence = 1
        self.fenced = False
        self.state = State.PENDING
        self.seq = 0
        self.inflight: tuple[Append, list[Then]] | None = None
        self.waiting_for: str | None = None
        self.ended_at: float | None = None

        # What the stages work with.
        self.tool: Tool | None = None
        self.arguments: dict[str, Any] | None = None
        self.bound: Any = None
        self.verdict = "allow"
        self.approved_by: str | None = None
        self.lane = "loop"
        self.needs: tuple[Any, ...] = ()
        self.prefer_sync = False
        self.attempt = 0
        self.retries_left = 0
        self.worker: Any = None
        self.late: tuple[Any, BaseException | None] | None = None
        self.started_at: float | None = None
        self.sink: Any = None
        self.outputs = 0
        self.reported = 0
        self.progress: dict[str, Any] | None = None
        self.progress_kept: dict[str, Any] | None = None
        self.output: Any = None
        self.content = ""
        self.truncated = False
        self.artifact: str | None = None
        self.stream_artifact: str | None = None
        self.error: ToolError | None = None
        self.outcome: State = State.FAILED
        self.duration = 0.0
        self.stage_at = 0.0

        # Who holds it, stops it, waits for it.
        self.slot = False
        self.queued = False
        self.stopping: str | None = None
        self.stopper: Callable[[], object] | None = None
        self.cancel_reason = ""
        self.settling = False
        self.settled = False
        self.abandoned = False
        self.deadline_timer: Timer | None = None
        self.grace_timer: Timer | None = None
        self.queue_timer: Timer | None = None
        self.result: ToolResult | None = None
        self.accepted: asyncio.Future[None] | None = None
        self.refused: ClicketError | None = None

    @property
    def visible_state(self) -> State:
        """The state that the store has: what others may be told."""
        return self.events[-1].state if self.events else State.PENDING

    def required_tool(self) -> Tool:
        assert self.tool is not None, "the find stage has run"
        return self.tool
