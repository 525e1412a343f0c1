"""`Runtime.undo`: takes back the effects of a call, or of a turn of an agent, the last one first.

The undo of a call is a call of the inner tool `undo:NAME`, whose id follows from the undone call's: so it is made once, in whichever
process. What is decided about a call is in `engine/call/undoing.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from clicket.engine import CallHandle, Engine
from clicket.engine.call.undoing import Abilities, Judged, judge
from clicket.engine.live_call import Origin
from clicket.engine.records.undone_calls import LOST_FOR_UNDO
from clicket.errors import ClicketError, Conflict, NotFound, StoreUnavailable, UsageError
from clicket.model import Record, ToolCall, read
from clicket.model.ids import agent_of, alias_of
from clicket.model.names import AGENT_TAG
from clicket.model.ports import Query, Stored
from clicket.model.request import check_name
from clicket.model.undo import UNDO_PART, CallUndo, UndoReport, arguments_of_undo, reconcile_tool, undo_id, undo_tool
from clicket.tools import Registry

__all__ = ["UNDO_OF", "undo"]

UNDO_OF = "undo_of"
"""The key of an undo's metadata under which the id of the undone call is."""
_PAGE = 200
_NO_EFFECTS = ("agent:", "check:", "reconcile:", "undo:")
"""Calls of clicket's own parts. Those of `undo:` are undone with nothing."""


class _Runtime(Protocol):
    _caller: str | None
    _origin: Origin
    _registry: Registry

    @property
    def _opened(self) -> Engine: ...
    async def _submit(self, request: ToolCall) -> CallHandle: ...
    def acting_for(self, caller: str, scopes: Any = (), requesters: Any = ()) -> Any: ...
    def _from(self, origin: Origin) -> Any: ...


async def undo(
    runtime: _Runtime,
    id: str | None = None,
    *,
    thread: str | None = None,
    turn: int | None = None,
    agent: str | None = None,
    strict: bool = True,
    retry: bool = False,
    dry: bool = False,
) -> UndoReport:
    """Undo a call, or all calls of a turn of an agent: `undo(id)`, `undo(thread="t1", turn=3)`. Waits until it is done.

    A call is undone if it completed, or if its tool's check or a person says that it happened, by the function of `@tool(undo=…)`. Of a
    turn these are its calls, those in the background and those of the agents that it called; the one that ended last is undone first. The
    first undo that fails stops the rest. A call of which it is not known whether it happened is in `unknown`, and earlier ones wait for it:
    settle it with `resolve`, or go on without it (`strict=False`). `impossible` says what cannot be undone, and why.

    The undo of a call is one call: asked again, it has the outcome that is on record. `retry`: run those again that failed. `dry`: change
    nothing; `waiting` says what would be undone. `agent`: whose turn it is, if several agents use the thread. `Conflict`: the turn, or a
    call of it, has not ended.
    """
    if (id is None) is (turn is None):
        raise UsageError('undo takes the id of a call, undo(id), or a turn of a thread, undo(thread="t1", turn=3).')
    undoing = Undoing(runtime, strict=strict, retry=retry, dry=dry)
    if id is not None:
        return await undoing.of_call(id, thread)
    if thread is None or type(turn) is not int or turn < 1:
        raise UsageError(f"a turn is undone by its thread and its number, from 1, not {thread!r} and {turn!r}.")
    check_name("thread", thread)
    return await undoing.of_turn(thread, turn, agent)


class Undoing:
    """One request. `waits`: for calls that have not ended, in place of refusing them."""

    def __init__(
        self, runtime: _Runtime, *, strict: bool = True, retry: bool = False, dry: bool = False, waits: bool = False
    ) -> None:
        self._runtime = runtime
        self._engine = runtime._opened
        self._registry = runtime._registry
        self._strict = strict
        self._retry = retry
        self._dry = dry
        self._waits = waits
        self._nothing: list[CallUndo] = []
        """Calls that had no effect."""
        self._report = UndoReport(undone=[], unknown=[], failed=[], impossible=[], waiting=[])

    async def of_call(self, id: str, thread: str | None) -> UndoReport:
        stored = await self._engine.stored_calls.find_named(id, thread, self._runtime._caller)
        call = read(stored.id, stored.events)
        if call.tool.startswith(_NO_EFFECTS):
            how = "`undo(thread=…, turn=…)` undoes a turn" if call.tool.startswith("agent:") else "it has no undo"
            raise UsageError(f"call {id!r} is one of clicket's own ({call.tool}): {how}.")
        calls = await self._with_inner_calls([call])
        await self._undo(calls)
        if not any(msgspec.structs.astuple(self._report)):
            self._report.impossible.extend(each for each in self._nothing if each.id == call.id)
        agent = agent_of(call.id)
        if agent:
            await self._tell(agent, call.thread, int(alias_of(call.id).split(".")[1]))
        return self._report

    async def of_turn(self, thread: str, turn: int, agent: str | None, *, is_own: bool = False) -> UndoReport:
        """`is_own`: the turn itself asks, at its end."""
        calls = [call async for call in self._calls_of(thread, f".{turn}.") if _is_of(call.id, turn, agent)]
        agents = {agent_of(call.id) for call in calls} or ({agent} if agent else set())
        if len(agents) > 1:
            raise UsageError(
                f"thread {thread!r} has a turn {turn} of several agents: {', '.join(sorted(agents))}. Say whose: agent=…"
            )
        for name in agents:
            await self._refuse_running(name, thread, turn, has_calls=bool(calls), is_own=is_own)
        if not agents:
            raise NotFound(f"thread {thread!r} has no turn {turn} with tool calls.")
        await self._undo(await self._with_inner_calls(calls))
        await self._tell(agents.pop(), thread, turn)
        return self._report

    async def _refuse_running(self, agent: str, thread: str, turn: int, *, has_calls: bool, is_own: bool) -> None:
        from clicket.agents.threads import inner_thread, turn_id  # a runtime without agents does not load them

        found = await self._engine.store.load(turn_id(turn), inner_thread(agent, thread), self._caller)
        if not found and not has_calls:
            raise NotFound(f"the agent {agent!r} has no turn {turn} in thread {thread!r}.")
        if found and found[0].damaged is None and not found[0].events[-1].state.is_terminal and not is_own:
            raise Conflict(f"turn {turn} of thread {thread!r} has not ended. Wait for it, or stop it; then undo it.")

    @property
    def _caller(self) -> str:
        return self._runtime._caller or ""

    # Which calls.

    async def _calls_of(
        self, thread: str, id_contains: str | None = None, caller: str | None = None
    ) -> AsyncIterator[Record]:
        """The calls of a thread, without those of clicket's own parts."""
        whose = self._caller if caller is None else caller
        query = Query(thread=thread, caller=whose, id_contains=id_contains, ascending=True, limit=_PAGE)
        while True:
            some = await self._engine.store.history(query)
            for stored in some:
                if stored.damaged is None and not stored.events[0].data["tool"].startswith(_NO_EFFECTS):
                    yield read(stored.id, stored.events)
            if len(some) < _PAGE:
                return
            query = msgspec.structs.replace(query, after=some[-1].key)

    async def _with_inner_calls(self, calls: Sequence[Record]) -> list[Record]:
        """With the calls of the agents that these called, and with those that ran one of them again; the one that ended last first."""
        from clicket.agents.task_threads import thread_of_task  # a runtime without agents does not load them

        known = {(call.thread, call.id): call for call in calls}
        todo = list(calls)
        while todo:
            call = todo.pop()
            more: list[Record] = []
            if call.resolution is not None and call.resolution["rerun_as"]:
                more += await self._loaded(call, call.resolution["rerun_as"])
            if self._may_be_agent(call):
                more += [
                    each async for each in self._calls_of(thread_of_task(call.thread, call.id), caller=call.caller)
                ]
            new = [each for each in more if (each.thread, each.id) not in known]
            known.update({(each.thread, each.id): each for each in new})
            todo += new
        found = [await self._ended(call) for call in known.values()]
        return sorted(found, key=lambda call: call.ended_at or 0.0, reverse=True)

    def _may_be_agent(self, call: Record) -> bool:
        tool = self._registry.get(call.tool)
        return tool is None or AGENT_TAG in tool.options.tags

    async def _ended(self, call: Record) -> Record:
        if call.state.is_terminal:
            return call
        if not self._waits:
            raise Conflict(
                f"call {call.id!r} of {call.tool!r} has not ended: it is {call.state}. Wait for it, or cancel it; then undo it."
            )
        view = self._view(call)
        await (await view.handle(call.id, thread=call.thread)).result()
        return (await self._loaded(call, call.id))[0]

    async def _loaded(self, call: Record, id: str) -> list[Record]:
        """The call of an id in the thread of this one, if it is there."""
        found: list[Stored] = await self._engine.store.load(id, call.thread, call.caller)
        return [read(stored.id, stored.events) for stored in found if stored.damaged is None]

    # What becomes of them.

    async def _undo(self, calls: Sequence[Record]) -> None:
        stopped = False
        for call in calls:
            judged, undos = await self._judged(call)
            if judged.standing in ("ready", "failed", "unknown") and not stopped and not self._dry:
                judged, undos = await self._settled(call, judged, undos)
            entry = self._entry(call, judged.reason, undos)
            match judged.standing:
                case "nothing":
                    self._nothing.append(entry)
                case "ready":
                    self._report.waiting.append(entry)
                case "undone" | "impossible" | "failed" | "unknown":
                    getattr(self._report, judged.standing).append(entry)
            stopped = stopped or judged.standing == "failed" or (judged.standing == "unknown" and self._strict)

    async def _judged(self, call: Record) -> tuple[Judged, list[Record]]:
        undos: list[Record] = []
        while some := await self._loaded(call, undo_id(call.id, len(undos) + 1)):
            undos += some
        tool = self._registry.get(call.tool)
        reads = tool is not None and (tool.options.read_only or AGENT_TAG in tool.options.tags)
        abilities = Abilities(reads=reads, undoes=self._registry.get(undo_tool(call.tool)) is not None)
        now, undo_for = self._engine.clock.now(), self._engine.retention.undo
        judged = judge(call, undos, abilities, now=now, undo_for=undo_for)
        if judged.standing == "ready" and self._engine.arguments.in_force(call.id, call.events)[2]:
            judged = Judged("impossible", LOST_FOR_UNDO)
        return judged, undos

    async def _settled(self, call: Record, judged: Judged, undos: list[Record]) -> tuple[Judged, list[Record]]:
        """Ask the tool's check about what is in doubt; then undo the call, at most once."""
        if undos and not undos[-1].state.is_terminal:  # another request undoes it
            await self._wait(call, undos[-1].id)
            judged, undos = await self._judged(call)
        judged, undos = await self._without_doubt(call, judged, undos)
        if judged.standing == "ready" or (judged.standing == "failed" and self._retry and self._can_try(call)):
            why = await self._run(call, undo_id(call.id, len(undos) + 1))
            judged, undos = await self._without_doubt(call, *await self._judged(call))
            if why or judged.standing == "ready":
                judged = Judged("failed", why or "its undo did not happen, as its check says")
        return judged, undos

    async def _without_doubt(self, call: Record, judged: Judged, undos: list[Record]) -> tuple[Judged, list[Record]]:
        """Ask a tool's check, if there is a doubt."""
        if judged.doubt is None:
            return judged, undos
        why = await self._reconciled(judged.doubt)
        if why is not None:
            return judged._replace(reason=f"{judged.reason}{why}"), undos
        return await self._judged((await self._loaded(call, call.id))[0])

    def _can_try(self, call: Record) -> bool:
        return self._registry.get(undo_tool(call.tool)) is not None

    async def _run(self, call: Record, id: str) -> str:
        """Make the call that undoes a call, and wait for its end. Returns why it could not be made."""
        request = ToolCall(
            undo_tool(call.tool),
            arguments_of_undo(call),
            id=id,
            thread=call.thread,
            request_id=call.request_id,
            metadata={UNDO_OF: call.id},
        )
        try:
            handle = await self._view(call)._submit(request)
            await handle.result()
        except StoreUnavailable:
            raise
        except ClicketError as error:  # a call of another tool has the id, or the queue is full
            if self._engine.is_closing:
                raise
            return f"its undo could not be made: {error.message}"
        return ""

    async def _wait(self, call: Record, id: str) -> None:
        with suppress(NotFound):
            await (await self._view(call).handle(id, thread=call.thread)).result()

    async def _reconciled(self, doubt: Record) -> str | None:
        """Ask the check of a tool about a call that has ended. None: its answer is on record as a resolution; else what it said."""
        name = reconcile_tool(doubt.tool)
        if self._registry.get(name) is None:
            return ""
        request = ToolCall(name, {"call": doubt.id}, thread=doubt.thread, metadata={"reconciles": doubt.id})
        result = await (await self._view(doubt)._submit(request)).result()
        found = result.output if result.success and type(result.output) is dict else {}
        if type(found.get("happened")) is not bool:
            return f"; its check: {found.get('reason') or result.error or 'no answer'}"
        stored = await self._engine.stored_calls.find(doubt.id, doubt.thread, doubt.caller)
        note = f"call {result.call_id}"
        with suppress(Conflict):  # a person was quicker
            await self._engine.resolutions.resolve(
                stored, happened=found["happened"], output=found.get("output"), by=name, note=note
            )
        return None

    def _view(self, call: Record) -> Any:
        """The runtime for calls about this one: they belong to its caller; the policy judges them by the scopes of the one who asks."""
        runtime = self._runtime
        own = runtime._origin
        view = runtime if call.caller == own.caller else runtime.acting_for(call.caller, own.scopes)
        return view._from(msgspec.structs.replace(view._origin, within=UNDO_PART, asks="", deps=None))

    def _entry(self, call: Record, reason: str, undos: Sequence[Record] = ()) -> CallUndo:
        return CallUndo(
            id=call.id, tool=call.tool, thread=call.thread, reason=reason, undo=undos[-1].id if undos else ""
        )

    # What the model reads.

    async def _tell(self, agent: str, thread: str, turn: int) -> None:
        """The next turn of the thread reads what was undone."""
        if self._report.undone and not self._dry:
            from clicket.agents.undo_turn import tell  # a runtime without agents does not load them

            await tell(self._runtime.acting_for(self._caller).host, agent, thread, turn, self._report.undone)


def _is_of(id: str, turn: int, agent: str | None) -> bool:
    """Is it the id of a tool call of this turn? None: of any agent's."""
    found = agent_of(id)
    return found != "" and agent in (None, found) and alias_of(id).split(".")[1] == str(turn)
