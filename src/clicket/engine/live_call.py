"""A call while this process works on it: its caller, its needs, its progress, its outcome.

The journal's `Entry` has what is on record; only the journal writes it. Every other field has one writer, named in `WRITERS`; a
test checks it in the syntax tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clicket.engine.journal import Entry
from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model.deps import RunDeps
from clicket.model.printable import repr_without

if TYPE_CHECKING:
    from clicket.model import Stage, ToolCall, ToolError, ToolResult
    from clicket.model.files import FileRef
    from clicket.model.ports import OutcomeStats, Timer
    from clicket.safety.vault import Secrets
    from clicket.tools import Check, Tool

__all__ = ["WRITERS", "Attempt", "Call", "Late", "Need", "Origin", "Plan", "Question"]

Late = tuple[Any, BaseException | None]
"""What a body returned or raised after it was stopped: a value or an error."""
Need = tuple[Any, ...]
"""A limit on concurrent calls; its last part is the capacity."""


class Origin(msgspec.Struct, frozen=True):
    """Where calls come from: one for each view of a runtime."""

    caller: str = ""
    scopes: frozenset[str] = frozenset()
    """What the caller may do; policies read it."""
    prefer_sync: bool = False
    """A blocking caller waits: a tool that also has a blocking body runs that one."""
    requesters: frozenset[str] = frozenset()
    """Names of a person who makes calls in the name of the caller, as an admin may. That person may not approve them."""
    within: str = ""
    """The tool whose running call makes these calls; empty: they come from outside."""
    asks: str = ""
    """Why a person decides about each of them, whatever the policy allows; empty: the policy alone asks."""
    deps: RunDeps | None = None
    """Those of the agent's run that makes these calls."""
    maker: Entry | None = None
    """The call that makes them, if none may be made that is not its owner's, or before what its owner has recorded."""


class Question(msgspec.Struct, frozen=True, gc=False):
    """What the policy asks for, if it asks."""

    rule: str = ""
    """The hash of the rule that asks."""
    approvers: int = 1
    """How many different people must approve."""
    self_approval: bool = False
    """The caller may approve its own call."""


class Plan(msgspec.Struct, frozen=True, gc=False):
    """How a call runs: the lane of its body, the slots it needs, and the number of retries."""

    lane: str = "loop"
    needs: tuple[Need, ...] = ()
    max_retries: int = 0
    is_simple: bool = False
    """It needs one slot, the runtime's, and no preparation: it starts as soon as it has the slot."""


class Attempt(msgspec.Struct, eq=False):
    """The running body, if it can be stopped. Created when a body first waits: most bodies of plain calls never do."""

    sink: Any = None
    """Receives the body's output, progress and heartbeats; attempts share it."""
    stopper: Callable[[], object] | None = None
    """Stops the body."""
    deadline: Timer | int | None = None
    idle_timer: Timer | None = None
    grace_timer: Timer | None = None
    task: asyncio.Task[Any] | None = None
    """The task in which the body runs."""
    cancels: int = 0
    """How often that task had been cancelled when the attempt began."""
    gate: asyncio.Future[None] | None = None
    """The future that the caller awaits while the body waits, if the body runs in the caller's task."""
    held: asyncio.Future[Any] | None = None
    """What the body waits for."""
    must_stop: bool = False
    """The body is cancelled at its next step: it waits for nothing that can be cancelled."""
    detached: bool = False
    """The body did not stop, and goes on in a task of its own."""
    abandoned: bool = False
    """The call ended without its body, which still has its slot."""
    caller_left: bool = False
    """The caller's task was cancelled."""
    late: Late | None = None
    prepared: Any = None
    """A child process, or a place on the Ray cluster, that is ready for the body."""
    retries: int = 0
    """How many retries were spent."""
    reports: int = 0
    """How many progress reports, heartbeats and notes are on record."""
    outputs: int = 0
    """How many outputs are on record."""
    progress: dict[str, Any] | None = None
    """The last report of progress."""
    recorded_progress: dict[str, Any] | None = None
    """The last report that is on record: reports that come fast are merged."""
    parked: str = ""
    """Why the body is over without an outcome; empty otherwise."""
    doubt: BaseException | None = None
    """What ended the attempt, if its tool is asked whether it had its effect."""
    wait: Any = None
    """The wait for a result from outside."""
    tokens: dict[str, str] | None = None
    """The caller's tokens by provider, for this attempt alone."""
    deps: Mapping[str, Any] | None = None
    """What the body gets as `ctx.deps`."""
    asking: asyncio.Future[Any] | None = None
    """The answer that the body waits for, to a question of its own to a person."""

    def __repr__(self) -> str:
        return repr_without(self, "tokens", "deps", "late")


class Call(msgspec.Struct, eq=False):
    """A plain call never changes most fields: a struct sets their defaults in C, which costs almost nothing."""

    # Set when it is made; WRITERS lists those that may change.
    entry: Entry
    request: ToolCall
    origin: Origin
    submitted_at: float
    """On the monotonic clock."""
    idempotency_key: str
    given: Any
    """The arguments to validate: those of the request, or an approver's."""
    in_callers_task: bool = False
    """The caller runs the body in its own task."""
    hub_checked: bool = False
    """The hub has just read the store for this call."""
    denied: str = ""
    """Why its caller may not use the tool: an agent may have only some of the runtime's tools."""
    arguments_lost: bool = False
    """Its recorded arguments are masked, and this process has no key to unseal them."""
    trial: str | None = None
    """The shared slot of the one call, among all processes, that tries a failed tool."""
    attending: int = 0
    """Callers of this process that wait for the call since this process took it over."""

    # Find, authorize, validate.
    tool: Tool | None = None
    check: Check | None = None
    verdict: str = "allow"
    reason: str = ""
    """Why the policy asks, or denies."""
    approval_timeout: float | None = None
    """Seconds that a person has to decide."""
    question: Question = Question()
    is_allowed: bool = False
    """A person, or a grant, has let it run."""
    arguments: dict[str, Any] | None = None
    """As the tool gets them; the journal has the masked form."""
    bound: Any = None
    secrets: Secrets | None = None
    """The secrets of this call; None: it has none."""

    # Waiting and running.
    plan: Plan = Plan()
    slot: bool = False
    """Its attempt starts, runs, or waits for its next one, here. True also of a call that needs no slot, such as a turn of an agent."""
    queued: bool = False
    place: int = 0
    """In the queue; a call that comes back to it keeps its place."""
    shared_slot: bool = False
    """It holds a slot that all processes share."""
    token: bool = False
    """It has a token of its tool's rate."""
    credentials: tuple[str, ...] = ()
    """The ids of the caller's credentials that the call was let through with; a cached result belongs to them."""
    cache_key: str | None = None
    runs_itself: bool = False
    """No result of an equal call serves it."""
    flight: str | None = None
    """The shared slot of the one call, among all processes, that runs for its equals."""
    wait_timer: Timer | None = None
    """The timer of the wait in the queue or for a person's decision."""
    deadline_timer: Timer | None = None
    ready: bool = False
    """The attempt's start is durable: the caller's task may run the body."""
    start_waiter: asyncio.Future[Any] | None = None
    """The future that the caller awaits until then."""
    attempt: Attempt | None = None
    stopping: str | None = None
    """Why the body is being stopped: cancel, shutdown, attempt, idle, deadline."""
    cancel_reason: str = ""

    # Execute, process: the outcome as it comes about.
    outcome: State = State.FAILED
    output: Any = None
    content: str = ""
    truncated: bool = False
    artifact: str | None = None
    files: tuple[FileRef, ...] = ()
    """The images and files of its output: they are removed with this call, so its output cannot serve equal calls."""
    is_masked: bool = False
    """A part of its output was masked."""
    tool_artifacts: frozenset[str] = frozenset()
    """Artifacts that its tool stored: they are removed with this call, so its output cannot serve equal calls."""
    cached: bool = False
    answered: bool = False
    """A person answered in the tool's place."""
    error: ToolError | None = None
    traceback: str = ""
    """Where the tool raised in the last attempt; the journal has it masked."""
    is_blameless: bool = False
    """It failed, but not because of its tool."""
    metadata: dict[str, Any] | None = None
    stage_at: float = 0.0
    stages: dict[str, Stage] = {}
    """How its stages ended, in order."""
    recorded_stages: int = 3
    """How many of these are on record, or staged: those of admission, which are fewer if it refused the call."""
    duration: float = 0.0
    stats: OutcomeStats | None = None
    """What the outcome added to stats and to the tool's health."""
    edited: tuple[str, dict[str, Any]] | None = None
    """The hash and the arguments that an approver gave in this process; the journal has them masked."""

    # Ending.
    ending: bool = False
    """The store is writing its outcome or its release: nothing else can end it."""
    result: ToolResult | None = None
    """Set once its outcome is durable."""
    failure: ClicketError | None = None
    """Why nothing more will come of the call here."""
    waiters: tuple[asyncio.Future[Any], ...] = ()
    accepted: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<call {self.entry.id} {self.entry.state}>"

    @property
    def ended(self) -> bool:
        """Is its outcome durable?"""
        return self.result is not None

    @property
    def id(self) -> str:
        return self.entry.id

    @property
    def thread(self) -> str:
        return self.entry.thread

    @property
    def caller(self) -> str:
        return self.entry.caller

    def seal(self) -> None:
        """Mark the call as ending: nothing else can end it from now on."""
        self.ending = True

    def replace_given(self, arguments: Any) -> None:
        """Replace the arguments to validate, by others or by the same ones as plain values."""
        self.given = arguments

    def attend(self) -> None:
        """A caller waits from now on for a call that was taken over."""
        self.attending += 1

    def leave(self) -> None:
        """One of the callers that attended has stopped waiting."""
        self.attending = max(
            self.attending - 1, 0
        )  # it may have attended the call before another process had it in between

    def hold_trial(self, slot: str) -> None:
        """The call tries a failed tool; while it holds `slot`, no other process tries it."""
        self.trial = slot

    def take_trial(self) -> str | None:
        """Take the trial's slot from the call; the code that takes it must give it back."""
        slot, self.trial = self.trial, None
        return slot

    def add_metadata(self, name: str, value: Any) -> None:
        """Add a note to the outcome, beside the output."""
        if self.metadata is None:
            self.metadata = {}
        self.metadata[name] = value

    def replace_metadata(self, metadata: dict[str, Any]) -> None:
        self.metadata = metadata

    def required_tool(self) -> Tool:
        assert self.tool is not None, "the find stage has run"
        return self.tool


WRITERS: dict[str, str | tuple[str, ...]] = {
    # Of a call.
    "denied": "clicket.engine.lifecycle.admission",
    "arguments_lost": "clicket.engine.recovery.recovery",
    "trial": "clicket.engine.live_call",
    "attending": "clicket.engine.live_call",
    "tool": "clicket.engine.stages.find",
    "check": "clicket.engine.stages.find",
    "given": "clicket.engine.live_call",
    "verdict": "clicket.engine.stages.authorize",
    "reason": "clicket.engine.stages.authorize",
    "approval_timeout": "clicket.engine.stages.authorize",
    "question": "clicket.engine.stages.authorize",
    "is_allowed": "clicket.engine.lifecycle.approvals",
    "arguments": "clicket.engine.stages.validate",
    "bound": "clicket.engine.stages.validate",
    # The tokens that are lent to an attempt are secrets of the call from then on.
    "secrets": ("clicket.engine.stages.validate", "clicket.engine.executors.lent_credentials"),
    # Admission knows the plan of most tools; the part that makes plans sets those that differ from call to call.
    "plan": ("clicket.engine.lifecycle.admission", "clicket.engine.slots.plans"),
    "slot": "clicket.engine.executors.limiter",
    "queued": "clicket.engine.executors.limiter",
    "place": "clicket.engine.executors.limiter",
    "shared_slot": "clicket.engine.slots.gate",
    "token": "clicket.engine.slots.gate",
    "credentials": "clicket.engine.lifecycle.credential_waits",
    "cache_key": "clicket.engine.cache.caching",
    "runs_itself": "clicket.engine.cache.single_flight",
    "flight": "clicket.engine.cache.single_flight",
    "wait_timer": "clicket.engine.local.timers",
    "deadline_timer": "clicket.engine.local.timers",
    "in_callers_task": "clicket.engine.lifecycle.running",
    "ready": "clicket.engine.lifecycle.running",
    "start_waiter": "clicket.engine.lifecycle.running",
    "attempt": "clicket.engine.executors.stopping",
    "stopping": "clicket.engine.executors.stopping",
    "cancel_reason": "clicket.engine.executors.stopping",
    "outcome": "clicket.engine.stages.pipeline",
    # The lane writes what the body returned; the process stage replaces it by its plain form or a cached one. A second
    # field would cost every call a write.
    "output": (
        "clicket.engine.executors.loop_lane",
        "clicket.engine.lifecycle.runner",
        "clicket.engine.stages.process",
    ),
    "content": "clicket.engine.stages.process",
    "truncated": "clicket.engine.stages.process",
    "artifact": "clicket.engine.stages.process",
    "files": "clicket.engine.stages.process",
    "is_masked": "clicket.engine.stages.process",
    "tool_artifacts": "clicket.engine.executors.sink",
    "cached": "clicket.engine.stages.pipeline",
    "answered": "clicket.engine.stages.pipeline",
    "error": "clicket.engine.stages.pipeline",
    "traceback": "clicket.engine.stages.pipeline",
    "is_blameless": "clicket.engine.stages.pipeline",
    "metadata": "clicket.engine.live_call",
    "stage_at": "clicket.engine.stages.pipeline",
    "stages": "clicket.engine.stages.pipeline",
    "recorded_stages": "clicket.engine.stages.pipeline",
    "duration": "clicket.engine.stages.persist",
    "stats": "clicket.engine.stages.persist",
    "edited": "clicket.engine.records.arguments",
    # A call of a method would cost every call a step.
    "ending": ("clicket.engine.live_call", "clicket.engine.stages.pipeline"),
    "result": "clicket.engine.lifecycle.ending",
    "failure": "clicket.engine.lifecycle.ending",
    "waiters": "clicket.engine.lifecycle.ending",
    "accepted": "clicket.engine.lifecycle.ending",
    # Of an attempt.
    "sink": "clicket.engine.lifecycle.runner",
    "stopper": "clicket.engine.executors.stopping",
    "deadline": "clicket.engine.executors.clocks",
    "idle_timer": "clicket.engine.executors.clocks",
    "grace_timer": "clicket.engine.executors.clocks",
    "task": "clicket.engine.lifecycle.runner",
    "cancels": "clicket.engine.executors.loop_lane",
    "gate": "clicket.engine.executors.caller_task",
    "held": "clicket.engine.executors.caller_task",
    "must_stop": "clicket.engine.executors.caller_task",
    "detached": "clicket.engine.executors.loop_lane",
    "abandoned": "clicket.engine.executors.stopping",
    "caller_left": "clicket.engine.executors.stopping",
    "late": "clicket.engine.executors.stopping",
    # Each of the two lanes prepares its own kind of process.
    "prepared": ("clicket.engine.executors.process_lane", "clicket.engine.executors.ray_lane"),
    "retries": "clicket.engine.lifecycle.runner",
    "reports": "clicket.engine.executors.sink",
    "outputs": "clicket.engine.executors.sink",
    "progress": "clicket.engine.executors.sink",
    "recorded_progress": "clicket.engine.executors.sink",
    "parked": "clicket.engine.executors.stopping",
    "doubt": "clicket.engine.executors.stopping",
    "wait": "clicket.engine.lifecycle.external",
    "tokens": "clicket.engine.executors.lent_credentials",
    "deps": "clicket.engine.executors.deps",
    "asking": "clicket.engine.executors.inputs",
}
"""The module that writes each field after its constructor; the others call a function of that module. Fields that are not here
never change. Only `clicket.engine.journal` writes to entries."""
