"""Turns a running tool's output, progress and heartbeats into events. Memory does not grow with a slow reader or a fast tool.

A call journals at most 1,000 output events, and at most 1 MiB of output; later output goes to the artifact only, and one
`note` has its byte offset. Progress and heartbeats that come faster than they are stored are merged.

The sink masks secrets. If the end of a text may be the beginning of a secret, the sink holds it back until the next text or the end
of the attempt, so a secret that is split over texts gets into neither the journal nor the artifact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from clicket.engine.executors.artifacts import ArtifactSource, allow_reading, chunks_of, name_of, read_artifact, spooled
from clicket.engine.executors.caller_documents import CallerDocuments
from clicket.engine.executors.checkpoints import Checkpoints
from clicket.engine.executors.inputs import Questions
from clicket.engine.executors.lent_credentials import LentCredentials
from clicket.engine.executors.spool import Spool
from clicket.engine.executors.stopping import attempt_of
from clicket.engine.executors.turn_log import TurnLog
from clicket.engine.journal import Journal
from clicket.engine.live_call import Attempt, Call
from clicket.kernel import State
from clicket.model import Record
from clicket.model.codec import clean, decode
from clicket.model.output import encode_output
from clicket.model.ports import Store
from clicket.model.spend import usd
from clicket.safety.vault import Vault, Window, has_token, hide, hide_text
from clicket.tools import ToolContext
from clicket.tools.costs import COST, Costs, costs_in, read_cost
from clicket.tools.nested import NestedCalls
from clicket.tools.pending import digest_of, new_token

__all__ = [
    "CallSink",
    "SinkParts",
    "context_for",
    "documents_of",
    "gave_token",
    "progress_data",
    "questions",
    "relay",
    "sent_context",
    "turn_log_of",
]

MAX_OUTPUT_EVENTS = 1_000
MAX_OUTPUT_BYTES = 1024 * 1024
MAX_REPORTS = 1_000
_REPORT_EVERY = 1.0
_OURS = frozenset(
    {
        "approval_closed",
        "claims",
        "declared",
        "entry",
        "external",
        "external_closed",
        "masked",
        "sealed",
        "waiting_for",
        "waits",
    }
)
"""Fields of notes that the runtime reads back after a crash. A tool's notes do not have them."""
_REASONS = frozenset({"checkpoint", "output_limit"})


class SinkParts(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What the sinks of all calls share."""

    journal: Journal
    store: Store
    vault: Vault
    credentials: LentCredentials
    on_cost: Callable[[Call], None]
    """Called whenever a call reports a cost."""
    limit: Callable[[Call, float], None]
    """Sets the seconds that an attempt has left."""
    nest: Callable[[Call], NestedCalls]
    """Makes the calls of a call."""
    read_call: Callable[[Call, str], Awaitable[tuple[Record, Record]]]
    """Reads another call of its caller and thread: as it is on record, and with its real arguments."""


class CallSink:
    """For bodies on the loop. One per call; attempts share it, and each attempt starts with empty output."""

    __slots__ = (
        "_attempt", "_call", "_checkpoints", "_clock", "_credentials", "_journal", "_last_report", "_left", "_limit", "_nest", "_on_cost",
        "_read_call", "_store", "_token",
        "_token_given", "_vault", "_window", "active_at", "announced", "attempt_at", "costs", "deadline_at", "spool",
    )  # fmt: skip

    def __init__(
        self,
        parts: SinkParts,
        call: Call,
    ) -> None:
        self._call = call
        self._journal = journal = parts.journal
        self._store = parts.store
        self._vault = parts.vault
        self._credentials = parts.credentials
        self._on_cost = parts.on_cost
        self._limit = parts.limit
        self._nest = parts.nest
        self._read_call = parts.read_call
        self.costs: Costs | None = None
        """What the call has reported with `ctx.spend`, in all attempts; None: nothing here."""
        self._attempt: Attempt = attempt_of(call)
        self._clock = journal.clock.monotonic
        self._last_report = 0.0
        self._window: Window | None = None
        self._checkpoints: Checkpoints | None = None
        self._token, self._token_given = (0, ""), False
        self.spool: Spool | None = None
        self.announced = False
        self.active_at = self.attempt_at = self._clock()
        self.deadline_at: float | None = None
        self._left: float | None = None

    def begin(self, timeout: float | None) -> None:
        """A new attempt: its clock starts, its output is empty."""
        self.active_at = self.attempt_at = self._clock()
        self.deadline_at = None if timeout is None else self.attempt_at + timeout
        self._window = None
        if self.spool is not None:
            self.spool.close()
            self.spool = None

    @property
    def cancelled(self) -> bool:
        return self._call.stopping is not None

    @property
    def stop_reason(self) -> str | None:
        """Why the body is being stopped (`Call.stopping`); None: it is not, or its caller's task was cancelled."""
        return self._call.stopping

    @property
    def time_left(self) -> float | None:
        return None if self.deadline_at is None else self.deadline_at - self._clock()

    @property
    def nested(self) -> NestedCalls:
        """Makes calls of the running call's own."""
        assert self._nest is not None, "a running call has an engine"
        return self._nest(self._call)

    async def read_call(self, id: str) -> tuple[Record, Record]:
        """Another call of this caller and thread; see `SinkParts`."""
        return await self._read_call(self._call, id)

    def hold_clock(self) -> None:
        """The attempt's time stands still; its timer is the runner's."""
        self._left = self.time_left
        self.deadline_at = None

    def release_clock(self) -> float | None:
        """The attempt's time goes on; returns what is left of it."""
        if self._left is not None:
            self.deadline_at = self._clock() + self._left
        return self._left

    def _is_over(self) -> bool:
        """Is the call stopped or ended? Then the tool's reports are ignored."""
        return self._call.ending or self._call.stopping is not None

    def emit(self, chunk: Any) -> None:
        if type(chunk) is not str:
            chunk = decode(encode_output(chunk))
        elif not chunk.isascii():
            encode_output(chunk)  # refuses text that is not UTF-8
        if self._is_over():
            return
        self.active_at = self._clock()
        if type(chunk) is str:
            if self._window is None:
                self._window = Window(self._call.secrets)
            shown = self._window.push(chunk)
            if shown or not chunk:
                self._publish(shown)
            return
        self.flush()
        if self._call.secrets is not None or has_token(chunk):
            chunk = hide(chunk, self._call.secrets)
        self._publish(chunk)

    def flush(self) -> None:
        """Publish the held-back end of a text, masked: no more text comes."""
        if self._window is not None and not self._call.ending:
            rest = self._window.flush()
            if rest:
                self._publish(rest)

    def _publish(self, chunk: Any) -> None:
        entry = self._call.entry
        attempt = self._attempt
        if self.spool is None:
            self.spool = Spool(MAX_OUTPUT_BYTES)
        offset = self.spool.add(chunk)
        if entry.state is State.RUNNING:
            self._journal.advance(entry, State.STREAMING)
        if attempt.outputs < MAX_OUTPUT_EVENTS and self.spool.size <= MAX_OUTPUT_BYTES and not self.announced:
            attempt.outputs += 1
            self._journal.record(entry, "output", {"content": chunk, "offset": offset})
        elif not self.announced:
            self.announced = True
            text = "Further output is not in the journal; it goes to the artifact that the outcome names."
            self._journal.record(entry, "note", {"text": text, "offset": offset, "reason": "output_limit"})
        else:
            return
        self._journal.commit(entry)

    def progress(self, step: float, total: float | None, text: str) -> None:
        call = self._call
        if self._is_over():
            return
        now = self.active_at = self._clock()
        progress = progress_data(step, total, hide_text(clean(text), call.secrets), now - self.attempt_at)
        self._attempt.progress = progress
        self._report("progress", progress, now)

    def heartbeat(self) -> None:
        if not self._is_over():
            now = self.active_at = self._clock()
            self._report("heartbeat", {}, now)

    def _report(self, kind: Any, data: dict[str, Any], now: float) -> None:
        entry = self._call.entry
        attempt = self._attempt
        if self._journal.replace_last(entry, kind, data):  # not written yet: the newer one replaces it
            pass
        elif attempt.reports >= MAX_REPORTS and now - self._last_report < _REPORT_EVERY:
            return
        else:
            attempt.reports += 1
            self._journal.record(entry, kind, data)
        self._last_report = now
        if kind == "progress":
            attempt.recorded_progress = data
        self._journal.commit(entry)

    def note(self, text: str, data: Mapping[str, Any]) -> None:
        call = self._call
        cost = read_cost(data) if len(data) == 1 and COST in data else None
        if cost is not None and not call.ending:
            self._note_cost(text, *cost)
        elif not self._is_over() and self._attempt.reports < MAX_REPORTS:
            self._attempt.reports += 1
            shown = _foreign(hide(decode(encode_output(dict(data))), call.secrets))
            self._journal.record(call.entry, "note", {**shown, "text": hide_text(clean(text), call.secrets)})
            self._journal.commit(call.entry)

    def _note_cost(self, text: str, key: str, amount: tuple[int, int]) -> None:
        """A cost is kept also while the call is being stopped; at most 1,000 of them under different keys."""
        call = self._call
        if self.costs is None:
            self.costs = costs_in(call.entry.events)
        key = hide_text(clean(key), call.secrets)
        if len(self.costs) >= MAX_REPORTS and key not in self.costs:
            return
        self.active_at = self._clock()
        self.costs[key] = amount
        shown = {"key": key, "usd": usd(amount[0]), "tokens": amount[1]}
        self._journal.record(call.entry, "note", {"text": hide_text(clean(text), call.secrets), COST: shown})
        self._journal.commit(call.entry)
        self._on_cost(call)

    async def drain(self) -> None:
        entry = self._call.entry
        if entry.is_idle:
            await asyncio.sleep(0)  # a generator that never waits must let other tasks run
        else:
            await self._journal.flush(entry)

    async def put_artifact(self, data: ArtifactSource) -> str:
        """Store bytes for as long as the call, and let its caller read them."""
        self.active_at = self._clock()
        call = self._call
        if isinstance(data, bytes | list | tuple):
            name, pieces, size = await name_of(data)
            await self._store.put_artifact(name, pieces)
        else:
            async with aclosing(chunks_of(data)) as chunks, spooled(chunks) as whole:
                await self._store.put_artifact(whole.name, whole.chunks)
            name, size = whole.name, whole.size
            self.active_at = self._clock()  # however long the source took, it was not the tool's silence
        await allow_reading(self._store, call.caller, name)
        if not call.ending and name not in call.tool_artifacts:  # after the end a sweep removes it
            call.tool_artifacts |= {name}
            self._journal.name_artifact(call.entry, name, size)
            self._journal.commit(call.entry)
        return name

    async def artifact(self, name: str, start: int, end: int | None) -> bytes:
        return await read_artifact(self._store, self._call.caller, name, start, end)

    async def checkpoint(self, key: str, data: bytes) -> None:
        self.active_at = self._clock()
        await self._own_checkpoints().keep(key, data)
        self.active_at = self._clock()  # time that the store took does not count as the tool's silence

    async def checkpoints(self) -> dict[str, bytes]:
        self.active_at = self._clock()
        return await self._own_checkpoints().load()

    def _own_checkpoints(self) -> Checkpoints:
        if self._checkpoints is None:
            self._checkpoints = Checkpoints(self._journal, self._store, self._vault, self._call)
        return self._checkpoints

    async def renew_credential(self, provider: str, used: str, refused: bool) -> str:
        assert self._credentials is not None, "only a tool with credentials asks"
        self.active_at = self._clock()
        return await self._credentials.renew(self._call, provider, used, refused=refused)

    @property
    def gave_token(self) -> bool:
        """Has the body of this attempt asked for its token?"""
        return self._token[0] == self._call.entry.attempts and self._token_given

    def make_token(self) -> None:
        """Make the token of this attempt before its body runs. It works once its hash is durable."""
        if self._token[0] != self._call.entry.attempts:
            self._token, self._token_given = (self._call.entry.attempts, new_token(self._call.entry.id)), False
            self._issue("")

    def pending(self, token_for: str) -> str:
        """The token of this attempt, for its body."""
        known = self._token[0] == self._call.entry.attempts
        if not known:
            self._token = (self._call.entry.attempts, new_token(self._call.entry.id))
        if not known or (token_for and not self._is_over()):
            self._issue(token_for)
        self._token_given = True
        return self._token[1]

    def _issue(self, token_for: str) -> None:
        shown = hide_text(clean(token_for), self._call.secrets)[:200]
        issued = {"hash": digest_of(self._token[1]), "for": shown, "attempt": self._call.entry.attempts}
        self._journal.record(
            self._call.entry, "note", {"text": "A token that ends this call was issued.", "external": issued}
        )
        self._journal.commit(self._call.entry)

    @property
    def documents(self) -> CallerDocuments:
        return CallerDocuments(self._store, self._vault, self._call.caller, self._journal.clock)

    def turn_log(self) -> TurnLog:
        return TurnLog(self._journal, self._vault, self._call)

    def questions(self) -> Questions:
        return Questions(self._journal, self._call, pause=self._pause)

    def _pause(self, seconds: float, left: float | None = None) -> float | None:
        """A person is asked, for this many seconds, and `left` after that: none of it counts as silence. Returns the time left now."""
        before = self.time_left
        self.active_at = self._clock() + seconds
        if before is not None and not self._is_over():
            self.deadline_at = self.active_at + (before if left is None else left)
            self._limit(self._call, self.deadline_at - self._clock())
        return before


def questions(ctx: ToolContext) -> Questions:
    """What an async tool asks people."""
    assert isinstance(ctx.sink, CallSink), "a tool that asks is async, and runs on the loop"
    return ctx.sink.questions()


def gave_token(call: Call) -> bool:
    """Has the body of the call's attempt asked for its token? From then on another system may end the call."""
    sink: CallSink | None = None if call.attempt is None else call.attempt.sink
    return sink is not None and sink.gave_token


def documents_of(ctx: ToolContext) -> CallerDocuments:
    """What an async tool of clicket's own keeps for the call's caller."""
    assert isinstance(ctx.sink, CallSink), "such a tool runs on the loop"
    return ctx.sink.documents


def turn_log_of(ctx: ToolContext) -> TurnLog:
    """The log of the turn that an internal tool runs: such a tool is async, and runs on the loop."""
    sink = ctx.sink
    assert isinstance(sink, CallSink), "an internal tool runs on the loop"
    return sink.turn_log()


def _foreign(data: dict[str, Any]) -> dict[str, Any]:
    """A tool's note without what would make it look like one of the runtime's own."""
    return {
        name: value
        for name, value in data.items()
        if name not in _OURS and not (name == "reason" and type(value) is str and value in _REASONS)
    }


def progress_data(step: float, total: float | None, text: str, elapsed: float) -> dict[str, Any]:
    """The data of a progress event. The estimate assumes a constant speed."""
    percentage = left = None
    if total is not None and total > 0:
        done = min(max(step / total, 0.0), 1.0)
        percentage = round(done * 100, 2)
        left = round(elapsed / done * (1 - done), 3) if done > 0 else None
    return {
        "step": step,
        "total_steps": total,
        "percentage": percentage,
        "status": text[:2_000],
        "estimated_time_remaining": left,
    }


def context_for(call: Call, sink: Any) -> ToolContext:
    """The context of one attempt."""
    entry, attempt = call.entry, call.attempt
    return ToolContext(
        sink,
        call_id=entry.id,
        tool=entry.tool,
        thread=entry.thread,
        attempt=entry.attempts,
        idempotency_key=call.idempotency_key,
        metadata=call.request.metadata or {},
        caller=entry.caller,
        credentials=None if attempt is None else attempt.tokens,
        deps=None if attempt is None else attempt.deps,
    )


def sent_context(call: Call, timeout: float | None) -> dict[str, Any]:
    """The context of one attempt, for a body in another process."""
    entry = call.entry
    tokens = attempt_of(call).tokens
    return {
        **({} if tokens is None else {"credentials": dict(tokens)}),
        "call_id": entry.id,
        "tool": entry.tool,
        "thread": entry.thread,
        "caller": entry.caller,
        "attempt": entry.attempts,
        "idempotency_key": call.idempotency_key,
        "metadata": dict(call.request.metadata or {}),
        "time_left": call.request.timeout or timeout,
    }


def relay(sink: CallSink, kind: str, data: Any) -> None:
    """Report what a body in another process has sent."""
    if kind == "emit":
        sink.emit(data)
    elif kind == "progress":
        sink.progress(data["step"], data["total"], data["text"])
    elif kind == "heartbeat":
        sink.heartbeat()
    elif kind == "note":
        sink.note(data["text"], data["data"])
