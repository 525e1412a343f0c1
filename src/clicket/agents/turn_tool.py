"""The internal tool whose calls are the turns of all agents of one name on one runtime, and what these agents share.

Agents of one name with one digest may stand beside each other. An interrupted turn is continued by one with its digest; if there is none,
by the agent that was made last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any
from weakref import WeakSet

from clicket.agents.agent_result import AgentResult
from clicket.agents.event_stream import EventStreams
from clicket.agents.frontend_tool import offers_in
from clicket.agents.identity import Identity, both
from clicket.agents.mailbox import Mailbox, waiting
from clicket.agents.memory import Memory
from clicket.agents.open_calls import STOPPED, end_open_calls
from clicket.agents.run_options import NO_VALUES, Brought, RunValues, model_name, options_in
from clicket.agents.threads import inner_thread, turn_id
from clicket.agents.turn import Turn
from clicket.agents.turn_lifecycle import TurnLifecycle
from clicket.agents.turn_record import begun_in
from clicket.engine.executors import turn_log_of
from clicket.errors import ClicketError, UsageError
from clicket.model import Record
from clicket.model.files import files_in
from clicket.model.ports import AgentHost, StoredDocument
from clicket.tools import Options, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults

__all__ = ["InUse", "TurnTool"]

_TAG = 8
"""Characters of a run's id in the ids of its tool calls."""
_MAX_STARTING = 10_000
_TEXT = {"type": "string"}
_SCHEMA = {
    "type": "object",
    "properties": {
        "message": _TEXT,
        "thread": _TEXT,
        "turn": {"type": "integer"},
        "run": _TEXT,
        "frontend": {"type": "array"},
        "id": _TEXT,
        "options": {"type": "object"},
        "files": {"type": "array"},
    },
    "required": ["message", "thread", "turn", "run"],
    "additionalProperties": False,
}


class InUse:
    """Exists as long as an agent, or a view of it for a caller, does."""

    __slots__ = ("__weakref__",)


class _Standing:
    """Agents of one digest. `lifecycle` is that of the last one; it continues their turns also when no agent is in use any more."""

    __slots__ = ("in_use", "lifecycle", "replaced")

    def __init__(self, lifecycle: TurnLifecycle) -> None:
        self.lifecycle = lifecycle
        self.in_use: WeakSet[InUse] = WeakSet()
        self.replaced = False


class TurnTool(ToolDefaults):
    traits = Traits(internal=True, holds_slot=False, ends_its_calls=True)
    is_async = True
    description = "One turn of an agent."
    input_schema: Mapping[str, Any] = _SCHEMA
    options = Options(timeout=None, max_retries=0, recovery="rerun")

    def __init__(self, name: str, host: AgentHost) -> None:
        self.name = f"agent:{name}"
        self._host = host
        self._standing: dict[str, _Standing] = {}
        """By digest; the agent that was made last is of the last one."""
        self.starting: dict[str, tuple[TurnLifecycle, RunValues]] = {}
        """Turns that an agent has started and whose body has not run yet, by run id."""
        self.endings: dict[str, tuple[AgentResult, BaseException | None] | None] = {}
        """Outcomes of turns that `run` waits for, by run id; None while the turn runs."""
        self.brought = Brought()
        self.memory = Memory(name)
        self.mailbox = Mailbox(name)
        self.work_off: Callable[[AgentHost, str], Awaitable[Any]] | None = None
        """Begins the turn of the first message in a thread's queue."""
        self.turns: dict[tuple[str, str], Turn] = {}
        self.streams = EventStreams(self.turns)

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    def add(self, lifecycle: TurnLifecycle, *, replace: bool) -> InUse:
        """Add an agent. `UsageError`: one of this name that may do something else is in use, and this one does not replace it."""
        identity = lifecycle.identity
        others = [
            each
            for digest, each in self._standing.items()
            if digest != identity.digest and each.in_use and not each.replaced
        ]
        if others and not replace:
            raise UsageError(_refusal(others[-1].lifecycle.identity, identity))
        for each in others:
            each.replaced = True
        self._standing = {digest: each for digest, each in self._standing.items() if each.in_use}
        standing = self._standing.pop(identity.digest, None) or _Standing(lifecycle)
        standing.lifecycle = lifecycle
        standing.replaced = False
        self._standing[identity.digest] = standing
        in_use = InUse()
        standing.in_use.add(in_use)
        return in_use

    async def work_off_of(self, document: StoredDocument) -> None:
        """Work off the queue of a thread, of which this is a message."""
        message = waiting(self._host, document)
        if message is not None and self.work_off is not None:
            host = self._host.acting_for(message.caller, frozenset(message.scopes), frozenset(message.requesters))
            await self.work_off(host, message.thread)

    async def has(self) -> set[str]:
        """What turns may wait for that this process has of models, and that callers have brought for turns which are not here."""
        models = (each.lifecycle.identity.model for each in self._standing.values())
        names = {f"model:{model}" for model in models if model}
        for key in self.brought.turns:
            caller, thread, number = key
            values = self.brought.of(key)
            record = await self._host.acting_for(caller, frozenset()).record(
                turn_id(number), inner_thread(self.name.removeprefix("agent:"), thread)
            )
            if record is None or record.state.is_terminal:
                self.brought.forget(key)
                continue
            names.update(f"dep:{name}" for name in values.deps.values)
            if values.model is not None:
                names.add(f"model:{model_name(values.model)}")
        return names

    def has_all(self, record: Record) -> bool:
        """Has this process all that this turn was run with?"""
        given = record.arguments
        host = self._host.acting_for(record.caller, frozenset())
        lifecycle = self._to_continue(host.entries(record.events, record.id, record.thread))
        values = self.brought.of((record.caller, given["thread"], given["turn"]))
        return not lifecycle.lacking(host, options_in(given.get("options")), values)

    @property
    def latest(self) -> TurnLifecycle:
        """Of the agent that was made last."""
        return next(reversed(self._standing.values())).lifecycle

    def expect(self, run: str, lifecycle: TurnLifecycle, values: RunValues) -> None:
        """A turn begins with this agent. One that is stopped before its body runs leaves its entry: the oldest are dropped."""
        if len(self.starting) >= _MAX_STARTING:
            del self.starting[next(iter(self.starting))]
        self.starting.setdefault(run, (lifecycle, values))

    def tools_of(self, caller: str, thread: str) -> frozenset[str] | None:
        """Names of the tools that a thread's running turn may use; None: all that the hub offers."""
        turn = self.turns.get((caller, thread))
        if turn is not None:
            return both(turn.allowed_tools, turn.tools)
        # A call of the turn was recovered before the turn itself: what each of the agents that may continue it may use.
        return reduce(both, (each.lifecycle.identity.tools for each in self._standing.values()))

    def of_digest(self, digest: str) -> TurnLifecycle:
        """Of the last agent with this digest; if there is none, of the last one."""
        standing = self._standing.get(digest)
        return self.latest if standing is None else standing.lifecycle

    def _to_continue(self, entries: Sequence[dict[str, Any]]) -> TurnLifecycle:
        begun = begun_in(entries)
        return self.of_digest("" if begun is None else begun.digest)

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        log = turn_log_of(ctx)
        thread = bound["thread"]
        number = bound["turn"]
        run = bound["run"]
        started = self.starting.pop(run, None)
        lifecycle = self._to_continue(log.entries) if started is None else started[0]
        try:
            host = self._host.acting_for(ctx.caller, log.scopes, log.requesters).within(self.name, log.entry)
        except UsageError:  # the runtime closes
            log.hand_back()
        key = (host.caller, thread)
        place = (host.caller, thread, number)
        if started is not None and started[1] is not NO_VALUES:
            self.brought.bring(place, started[1])
        try:
            result, raised = await lifecycle.run(
                host,
                log,
                self.streams.feed(*key),
                thread=thread,
                number=number,
                message=bound["message"],
                tag=run[-_TAG:],
                frontend=offers_in(bound.get("frontend", ())),
                id=bound.get("id", ""),
                options=options_in(bound.get("options")),
                brought=self.brought,
                files=files_in(bound.get("files")),
            )
        finally:
            if log.stopping != "elsewhere":  # callers may have brought a part of what it waits for
                self.brought.forget(place)
            self.streams.release(*key)
        if run in self.endings:
            self.endings[run] = (result, raised)
        if self.work_off is not None and log.stopping is None:
            with suppress(ClicketError):  # the runtime closes, or the store is away: the queue is worked off later
                await self.work_off(host, thread)
        if raised is not None:
            raise raised
        return {"turn": number, "state": str(result.state), "stopped": result.stopped, "steps": result.steps}

    async def end_calls(self, bound: dict[str, Any], ctx: ToolContext) -> None:
        log = turn_log_of(ctx)
        thread = bound["thread"]
        turn = self.turns.get((ctx.caller, thread))
        if turn is not None:
            turn.is_over = True
            if turn.pieces is not None:
                turn.pieces.end()
        with suppress(UsageError):  # the runtime is closed: the next process ends them
            await end_open_calls(self._host.acting_for(ctx.caller, log.scopes, log.requesters), log, thread, STOPPED)


def _refusal(known: Identity, given: Identity) -> str:
    names = [
        name
        for name in known.changes_to(given)
        if name in ("kind", "tools", "limits", "middleware", "output", "handoffs", "undo_on")
    ]
    return (
        f"this runtime has an agent {given.name!r} already, and the two differ in {' and '.join(names)}. After a crash one would continue "
        f"the turns of the other. Give this agent a name of its own (name=…), or put it in the place of the other one (replace=True)."
    )
