"""The lifecycle of a turn: begin, drive, end. Each change of state goes through the agent table. However a turn ends, its thread is
recorded, each tool call has a result, and the next turn can begin."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from clicket.agents.agent_result import AgentResult
from clicket.agents.chain import NO_MIDDLEWARE, Chain
from clicket.agents.checking import check_message
from clicket.agents.entries import Begun, Change, Changed, Ended, HandedOver, UndoneCalls
from clicket.agents.event_feed import EventFeed
from clicket.agents.forked_turn import begin_fork, with_entries
from clicket.agents.handoff import Handoff
from clicket.agents.identity import Identity, both
from clicket.agents.mailbox import Mailbox
from clicket.agents.memory import Head, Known, Memory, TurnDocument, key_of
from clicket.agents.middleware import at_end, bring_tools
from clicket.agents.model_spend import count_summaries
from clicket.agents.outages import Outages
from clicket.agents.output import Output
from clicket.agents.pieces import PieceLog, remove_pieces
from clicket.agents.rerun import bring_recorded
from clicket.agents.run_options import NO_OPTIONS, NO_VALUES, Brought, RunOptions, RunValues, model_name
from clicket.agents.threads import (
    document_of,
    ended_document,
    ending_of,
    failure_of,
    ids_of,
    recorded_ending,
    result_of,
)
from clicket.agents.turn import Role, Turn, TurnHandedOver, TurnStopped
from clicket.agents.turn_limits import NO_STEPS, Ending, Limits, Stopped
from clicket.agents.turn_record import TurnRecord
from clicket.agents.undo_turn import undo_at_end, undoes
from clicket.agents.undone import undone_message
from clicket.engine.executors import TurnLog
from clicket.errors import AgentChanged, ClicketError, StoreUnavailable, UsageError
from clicket.kernel import AGENT, AgentState
from clicket.model.chat import ToolOffer, ToolUse
from clicket.model.codec import clean, decode
from clicket.model.files import FileRef
from clicket.model.names import place_in, place_queue
from clicket.model.ports import AgentHost, put_away, sleep
from clicket.model.ports.model_trace import MODEL_TRACE
from clicket.safety.vault import hide_text

__all__ = ["Deltas", "Drive", "OnChange", "ReturnTo", "StateChanged", "TurnLifecycle"]

logger = logging.getLogger("clicket.agents")

Drive = Callable[[Turn], Awaitable[Ending]]
StateChanged = Callable[[AgentState, AgentState, str], Any]
"""A function of `(before, after, thread)`; it may be async."""
OnChange = Literal["continue", "refuse"]
"""What becomes of an interrupted turn whose agent could do something else than the present one of its name."""
Deltas = Literal["live", "stored"]
"""Who can read the pieces of an answer before it is on record: readers in the process that runs the turn, or in any process."""
ReturnTo = Literal["last", "first"]
"""Which agent begins the next turn of a thread that was handed over."""
_MAX_ERROR = 4_000
_MAX_REASON = 4_000
_LOOK_EVERY = 0.5
"""Seconds between two looks for an agent that a turn was handed to, or for the folder of a workspace."""


class _Run(NamedTuple):
    """A turn that is to be driven. `identity`: the agent as this run uses it."""

    turn: Turn
    head: Head
    identity: Identity
    options: RunOptions
    values: RunValues


class _Differs(Exception):
    """An agent has changed since its part of the turn was recorded, and does not continue it then."""

    def __init__(self, agent: str, what: dict[str, Any]) -> None:
        self.agent = agent
        self.what = what


class TurnLifecycle:
    """Runs turns of one agent. `turns` are those that run in this process, by caller and thread. `handoffs`: by the names of their tools;
    `others`: the agents among them that were given as such, by name."""

    def __init__(
        self,
        identity: Identity,
        memory: Memory,
        drive: Drive,
        limits: Limits,
        hook: StateChanged,
        turns: dict[tuple[str, str], Turn],
        *,
        on_change: OnChange = "continue",
        middleware: Chain = NO_MIDDLEWARE,
        output: Output[Any] | None = None,
        handoffs: Mapping[str, Handoff] | None = None,
        others: Mapping[str, TurnLifecycle] | None = None,
        max_handoffs: int = 0,
        return_to: ReturnTo = "last",
        deltas: Deltas = "live",
    ) -> None:
        self.handoffs: Mapping[str, Handoff] = handoffs or {}
        self.others: Mapping[str, TurnLifecycle] = others or {}
        self._max_handoffs = max_handoffs
        self._return_to = return_to
        self._deltas = deltas
        self.turns = turns
        self.identity = identity
        self._on_change = on_change
        self._middleware = middleware
        self.output = output
        self._on_record = identity.on_record()
        self._memory = memory
        self._drive = drive
        self.limits = limits
        self._hook = hook

    async def run(
        self,
        host: AgentHost,
        log: TurnLog,
        feed: EventFeed,
        *,
        thread: str,
        number: int,
        message: str,
        tag: str,
        frontend: Sequence[ToolOffer] = (),
        id: str = "",
        options: RunOptions = NO_OPTIONS,
        brought: Brought | None = None,
        files: Sequence[FileRef] = (),
    ) -> tuple[AgentResult, BaseException | None]:
        """Run a turn, or continue it after a crash. Returns its result, and the exception to raise instead, if any.

        A cancelled turn records its end before it raises. When the runtime closes nothing is recorded: the next process continues.
        """
        try:
            done, known = await self._read(host, log, thread, number)
            log = await self._with_past(host, log, known.head, thread, number)
        except asyncio.CancelledError:
            if log.stopping != "cancel":
                raise
            await log.flush()
            log = log.read_again()  # the turn finds the stop on record, and ends the calls that it made
            done, known = await self._read(host, log, thread, number)
        record = TurnRecord(log.entries)
        over = recorded_ending(record, log.must_stop)
        if done is None and over is not None:
            done = document_of(number, message, TurnRecord(log.shown_entries), over, id, files)
            if record.begun is not None and undoes(record.begun.undo_on, over.state, over.stopped):
                waits = over.stopped != "cancelled"
                await undo_at_end(host, Outages(host, log), self.identity.name, thread, number, waits=waits)
            await self._taken(host, Outages(host, log), thread, id, record.heard)
        if done is not None:  # it had ended when its process died
            done = await self._memory.save(host, thread, done)
            if self._deltas == "stored":
                host.spawn(remove_pieces(host, key_of(host.caller, thread, self.identity.name), number))
            known = await self._memory.load(host, thread)
            failed = done.state is AgentState.ERROR
            result = result_of(done, self.identity.name, thread, known.messages)
            return result, failure_of(done, f"turn {number}") if failed else None
        values = NO_VALUES if brought is None else brought.of((host.caller, thread, number))
        if not log.must_stop:
            if record.begun is not None:
                self._leave_to_its_place(log, record.begun)
            if lacking := self.lacking(host, options, values):
                kind, _, name = lacking.partition(":")
                text = f"This process does not have the {kind} {name!r}: run or resume brings it, or a process that has it goes on."
                log.leave_to(put_away(log.entry.tool), lacking, text)
        identity = self.identity.for_run(options)
        began = identity if record.begun is None else Identity.in_entry(record.begun)
        turn = Turn(
            host,
            log,
            feed,
            thread=thread,
            number=number,
            mark=f"{identity.name}.{number}",
            message=message,
            history=known.messages,
            limits=began.limits_of_turn(),
            role=self._role(began, both(began.tools, identity.tools), self._middleware, values),
            tag=tag,
            frontend=frontend,
            id=id,
            record=record,
            max_handoffs=began.limits.get("max_handoffs", self._max_handoffs),
            metadata=options.metadata,
            files=files,
            pieces=self._pieces(host, feed, thread, number),
        )
        place = (host.caller, thread)
        self.turns[place] = turn
        try:
            if began.digest != identity.digest:
                self._take_change(turn, began, identity)
            return await self._drive_to_end(_Run(turn, known.head, identity, options, values))
        except _Differs as differs:
            return await self._refuse(turn, differs)
        finally:
            if turn.pieces is not None and not turn.goes_on_elsewhere:
                turn.pieces.end()
            turn.host.drop_deps(thread, turn.mark)
            if self.turns.get(place) is turn:
                del self.turns[place]

    def _pieces(self, host: AgentHost, feed: EventFeed, thread: str, number: int) -> PieceLog | None:
        """The log of the turn's pieces, if they are stored. In one process the offsets of a turn never go back."""
        if self._deltas == "live":
            feed.pieces = None
            return None
        before = feed.pieces
        start = before.offset if before is not None and before.turn == number else 0
        key = key_of(host.caller, thread, self.identity.name)
        feed.pieces = PieceLog(host, key, number, start=start)
        return feed.pieces

    def _role(self, began: Identity, tools: frozenset[str] | None, middleware: Chain, values: RunValues) -> Role:
        """Of this agent, in a turn that began, or was handed over, with `began`."""
        return Role(
            agent=self.identity.name,
            middleware=middleware,
            tools=tools,
            system=began.system_in_place_of(self.identity.system),
            output=self._output_of(began, values),
            model=values.model,
            handoffs={tool: each for tool, each in self.handoffs.items() if each.label in began.handoffs},
            bounds=began.limits,
        )

    def _leave_to_its_place(self, log: TurnLog, begun: Begun) -> None:
        """Hand the turn to the processes of its workspace, if this is none of them: it waits until one is there."""
        for name in begun.middleware:
            place = place_in(name)
            if place and place not in self._middleware.places:
                log.leave_to(
                    place_queue(place), place, f"The turn goes on where its workspace is: {place.partition(':')[2]}."
                )

    async def _be_at_its_place(self, turn: Turn) -> None:
        """Wait until the folder of the turn's workspace is there."""
        for place, middleware in self._middleware.places.items():
            while not middleware.is_here:
                turn.wait_for(place, f"The folder of {place!r} is not there: the turn waits for it.")
                await sleep(turn.clock, _LOOK_EVERY)
        turn.wait_for(None, "The folder is there.")

    def _output_of(self, began: Identity, values: RunValues) -> Output[Any] | None:
        """What the turn was asked for when it began."""
        for known in (values.output, self.output):
            if known is not None and began.output == known.schema:
                return known
        return Output.from_schema(began.output) if began.output else None

    async def _read(self, host: AgentHost, log: TurnLog, thread: str, number: int) -> tuple[TurnDocument | None, Known]:
        """The turn, if its end is on record, and its thread."""

        async def read() -> tuple[TurnDocument | None, Known]:
            done = await self._memory.turn(host, thread, number) if log.entries else None
            known = await self._memory.load(host, thread)
            if (
                done is None and known.head.turns >= number
            ):  # another process took it over, and ended it, and this one was slow
                done = await self._memory.turn(host, thread, number)
            return done, known

        try:
            return await read()
        except StoreUnavailable as error:
            return await Outages(host, log).through(read, error)

    async def _with_past(self, host: AgentHost, log: TurnLog, head: Head, thread: str, number: int) -> TurnLog:
        """The log, with what a fork took along of the turn."""
        read = partial(with_entries, host, log, self.identity.name, head, thread, number)
        try:
            return await read()
        except StoreUnavailable as error:
            return await Outages(host, log).through(read, error)

    def _take_change(self, turn: Turn, began: Identity, present: Identity, handed_to: str = "") -> None:
        """The agent, or the one of the name `handed_to`, differs from the recorded one."""
        what = began.changes_to(present)
        if not what:
            return
        if self._on_change == "refuse":
            raise _Differs(self.identity.name, what)
        if turn.record.changed_to.get(handed_to) != present.digest:
            name = f"agent {handed_to}" if handed_to else "agent"
            text = f"The {name} has changed since the turn began ({', '.join(what)}): it goes on with the tools that both may use."
            turn.write(text, Changed(what=what, digest=present.digest, agent=handed_to, at=turn.clock.now()))

    async def _refuse(self, turn: Turn, differs: _Differs) -> tuple[AgentResult, BaseException | None]:
        """End the turn as an error. Its tool calls that have not ended are cancelled."""
        await turn.cancel_open_calls("the agent has changed")
        refused = AgentChanged(
            f"the agent {differs.agent!r} has changed since turn {turn.number} of thread {turn.thread!r} began "
            f"({', '.join(differs.what)}), and on_change='refuse' does not let it continue the turn. Send the message again, under another "
            "id if it had one."
        )
        on_record = turn.shown_record()
        ending = ending_of(on_record, turn.limits, turn.clock.now(), refused.message, refused.code)
        turn.write(f"Turn {turn.number} ends: {refused.code}.", ending)
        document = document_of(turn.number, turn.message, on_record, ending, turn.id, turn.files)
        document = await self._saved(turn, document, AGENT.advance(AgentState.RUNNING, AgentState.ERROR))
        messages = [*turn.messages[: turn.begins], *document.messages]
        return result_of(document, self.identity.name, turn.thread, messages), refused

    async def _begin(self, run: _Run) -> None:
        turn = run.turn
        head = run.head
        if turn.record.begun is not None:
            await count_summaries(turn)
            self._read_undone(run)
            return
        states = [AgentState.IDLE] if head.state is AgentState.IDLE else [head.state, AgentState.IDLE]
        states.append(AgentState.RUNNING)
        changes = [Change(before, AGENT.advance(before, after)) for before, after in pairwise(states)]
        begun = Begun(
            turn=turn.number,
            message=turn.message,
            states=changes,
            id=turn.id,
            metadata=run.options.metadata,
            deps=run.options.deps,
            at=turn.clock.now(),
            files=list(turn.files),
            **(self._on_record if run.identity is self.identity else run.identity.on_record()),
        )
        turn.keep_files()
        looked_at = [turn.message, *filter(None, (run.identity.system,)), *([begun.metadata] if begun.metadata else ())]
        turn.write(
            f"Turn {turn.number} begins.",
            begun,
            looked_at,
            soon=True,
        )
        self._read_undone(run)
        last = self._find(turn, head.agent) if head.agent and self._return_to == "last" else None
        if last is not None:  # else this process does not have it: the turn begins with the thread's own agent
            turn.record_handoff(self._handed_over(run, last))
        await self._report(changes, turn.thread)

    def _read_undone(self, run: _Run) -> None:
        """What was undone since the last turn is on record before the first request, which has it."""
        turn = run.turn
        entry = turn.record.undone
        if entry is None and run.head.undone and not turn.record.replies:
            entry = turn.record.undone = UndoneCalls(items=list(run.head.undone), at=turn.clock.now())
            turn.write(f"{len(entry.items)} calls of earlier turns were undone.", entry)
        if entry is not None:
            turn.messages.append(undone_message(entry.items))

    async def _driven(self, run: _Run) -> Ending:
        """Drive the turn to its end. When the store does not answer, wait for it, and drive the turn again from its entries."""
        turn = run.turn
        outages: Outages | None = None
        while True:
            try:
                await self._begin(run)
                await begin_fork(turn, run.head)
                await bring_recorded(turn, run.options.again)
                if self._middleware.places and not turn.must_stop:
                    await self._be_at_its_place(turn)
                await self._bring(run)
                if turn.middleware.tools:
                    await bring_tools(turn)
                return await at_end(turn, await self._ending(run))
            except StoreUnavailable as error:
                turn.leave_if_closing()
                outages = outages or turn.outages()
                await outages.wait(error)
                await outages.note_end()
                turn.leave_if_closing()
                turn.replay()

    async def _bring(self, run: _Run) -> None:
        """Give the turn the model and the deps that it was run with."""
        turn, values, options = run.turn, run.values, run.options
        if options.model:
            turn.model = values.model
            turn.first = turn.first._replace(model=values.model)
        if options.deps:
            turn.host = turn.host.with_deps(values.deps, turn.thread, turn.mark)
        turn.deps = await turn.host.deps()

    def lacking(self, host: AgentHost, options: RunOptions, values: RunValues) -> str:
        """The first thing that a turn was run with, and that this process does not have: `model:NAME`, `dep:NAME`."""
        named, model = options.model, values.model
        if named not in ("", self.identity.model) and (model is None or model_name(model) != named):
            return f"model:{named}"
        missing = (name for name in options.deps if name not in values.deps.values and not host.makes_dep(name))
        return next((f"dep:{name}" for name in missing), "")

    async def _ending(self, run: _Run) -> Ending:
        turn = run.turn
        try:
            if turn.middleware.input:
                await check_message(turn)
            driver = self
            before = turn.recorded_handoff()
            if before is not None:
                driver = await self._hand_to(run, before)
            while True:
                try:
                    return _checked_ending(await driver._drive(turn))
                except TurnHandedOver as over:
                    driver = await self._handed(run, driver, over)
        except TurnStopped as over:
            return over.stopped, over.message

    # Handoffs. The turn stays with this agent: its thread, limits, spend and checks of messages.

    async def _handed(self, run: _Run, driver: TurnLifecycle, over: TurnHandedOver) -> TurnLifecycle:
        """Record a handoff, unless it is on record, and let the other agent drive the turn."""
        turn = run.turn
        entry = turn.recorded_handoff()
        if entry is None:
            other = await self._there(turn, over.handoff.name, driver=driver)
            entry = self._handed_over(run, other, over)
            trace = MODEL_TRACE.get()
            with nullcontext() if trace is None else trace.part("handoff", entry.agent, turn.agent, turn.thread):
                turn.record_handoff(entry)
            await turn.flush()
        turn.take_handoff(entry)
        return await self._hand_to(run, entry, driver)

    async def _hand_to(self, run: _Run, entry: HandedOver, driver: TurnLifecycle | None = None) -> TurnLifecycle:
        turn, options = run.turn, run.options
        other = await self._there(turn, entry.agent, entry.digest, driver)
        if other is self:
            role = turn.first
        else:
            began, present = Identity.in_entry(entry), other.identity
            if began.digest != present.digest:
                other._take_change(turn, began, present.as_handed(), entry.agent)
            tools = both(both(began.tools, present.tools), None if options.tools is None else frozenset(options.tools))
            role = other._role(began, tools, other._middleware.with_input_of(self._middleware), NO_VALUES)
            role = role._replace(output=turn.output) if options.output else role
            if other._middleware.places and not turn.must_stop:
                await other._be_at_its_place(turn)
        turn.act_as(role)
        if turn.middleware.tools:
            await bring_tools(turn)
        return other

    def _handed_over(self, run: _Run, other: TurnLifecycle, over: TurnHandedOver | None = None) -> HandedOver:
        turn = run.turn
        identity = run.identity if other is self else other.identity
        of_agent = identity.as_handed().on_record()
        at = turn.clock.now()
        if over is None:
            return HandedOver(by=turn.agent, at=at, **of_agent)
        return HandedOver(
            step=turn.steps,
            by=turn.agent,
            use=over.use.id,
            reason=_reason(over.use),
            history=over.handoff.history,
            at=at,
            **of_agent,
        )

    async def _there(
        self, turn: Turn, agent: str, digest: str = "", driver: TurnLifecycle | None = None
    ) -> TurnLifecycle:
        """The agent of this name and digest, or the last one of this name. Waits until this process has one."""
        while (found := self._find(turn, agent, digest, driver)) is None:
            turn.wait_for(
                f"agent:{agent}", f"This process does not have the agent {agent!r}, which was handed the turn."
            )
            if turn.must_stop:
                turn.give_in()
            await sleep(turn.clock, _LOOK_EVERY)
            turn.leave_if_closing()
        turn.wait_for(None, f"The agent {agent!r} is there.")
        return found

    def _find(
        self, turn: Turn, agent: str, digest: str = "", driver: TurnLifecycle | None = None
    ) -> TurnLifecycle | None:
        """Agents that were given to the one that hands over come first: others of their name may stand beside them."""
        if agent == self.identity.name:
            return self
        given = (driver or self).others.get(agent) or self.others.get(agent)
        if given is not None and digest in ("", given.identity.digest):
            return given
        tool = turn.host.installed(f"agent:{agent}")
        found: TurnLifecycle | None = given if tool is None else tool.of_digest(digest)
        return found

    async def _drive_to_end(self, run: _Run) -> tuple[AgentResult, BaseException | None]:
        turn = run.turn
        raised: BaseException | None = None
        stopped: Stopped | None
        try:
            stopped, text = await self._driven(run)
            state = AgentState.FINISHED if stopped == "finished" else AgentState.IDLE
        except asyncio.CancelledError as cancelled:
            if turn.stopping == "shutdown" or turn.lost:
                raise
            if _cancelled(turn):
                await _end_calls(turn)
                raised = cancelled
                state = AgentState.IDLE
                stopped = "cancelled"
                text = "Terminated: Cancelled" if turn.spent.steps else NO_STEPS
            else:
                raised = RuntimeError("the model, or a window, raised CancelledError, but the run was not cancelled")
                state, stopped, text = AgentState.ERROR, None, ""
        except _Differs:
            raise
        except Exception as error:
            turn.leave_if_closing()
            raised = error
            state = AgentState.ERROR
            stopped = None
            text = ""
        AGENT.advance(AgentState.RUNNING, state)
        return await self._end(turn, state, stopped, text, raised), raised

    async def _end(
        self, turn: Turn, state: AgentState, stopped: Stopped | None, text: str, raised: BaseException | None
    ) -> AgentResult:
        spent, mask = turn.spent, turn.sensitive
        error = "" if state is not AgentState.ERROR or raised is None else mask.text(_error_text(raised))
        code = raised.code if error and isinstance(raised, ClicketError) else ""
        ending = Ended(
            state=state,
            stopped=stopped or "",
            text=text,
            steps=spent.steps,
            calls=spent.calls,
            usage=spent.usage,
            at=turn.clock.now(),
            ended=turn.answer_end if stopped == "finished" else None,
            value=turn.answer.value if stopped == "finished" and turn.answer is not None else None,
            error=error,
            code=code,
            agent="" if turn.agent == self.identity.name else turn.agent,
            called=spent.called if spent.called.total or spent.called.cost else None,
        )
        messages = turn.new_messages
        if not mask.is_empty:
            messages = [mask.message(message) for message in messages]
        document = ended_document(turn.number, messages, mask.plan(turn.plan), mask.entry(ending), turn.id, turn.unread)
        cancelled = await _flush_spend(turn)
        if turn.record.ended is None:
            turn.write(f"Turn {turn.number} ends: {error or stopped}.", ending, (text, error))
        elif stopped == "cancelled":  # its process died after its end was on record: a stop does not change that
            document = document_of(
                turn.number, turn.message, turn.shown_record(), turn.record.ended, turn.id, turn.files
            )
        document = await self._saved(turn, document, state)
        if cancelled is not None:
            raise cancelled
        messages = [*turn.messages[: turn.begins], *document.messages]
        return result_of(document, self.identity.name, turn.thread, messages)

    async def _saved(self, turn: Turn, document: TurnDocument, state: AgentState) -> TurnDocument:
        """Report the change of state, then save the turn; from then on the next one may begin. A stop meanwhile does not change how the
        turn ended: it is raised once the turn is saved."""
        stop = await _flush_end(turn)
        turn.leave_if_lost()  # only the turn's owner writes the memory
        stop = await self._undo(turn, document) or stop
        document = msgspec.structs.replace(document, undone=ids_of(turn.record.undone))
        try:
            await self._changed(AgentState.RUNNING, state, turn.thread)
            saved = await self._save(turn, document)
        except asyncio.CancelledError as cancelled:
            if turn.stopping == "shutdown":
                raise
            saved, stop = await self._save(turn, document), cancelled
        if stop is not None:
            raise stop
        return saved

    async def _undo(self, turn: Turn, document: TurnDocument) -> asyncio.CancelledError | None:
        """Undo the calls of a turn that ends so. A stop meanwhile does not end the undo, but the wait for it: it is returned."""
        begun = turn.record.begun
        undo_on = self.identity.undo_on if begun is None else begun.undo_on
        if not undoes(undo_on, document.state, document.stopped):
            return None
        place = (turn.host, turn.outages(), self.identity.name, turn.thread, turn.number)
        stop: asyncio.CancelledError | None = None
        try:
            await undo_at_end(*place, waits=document.stopped != "cancelled")
        except asyncio.CancelledError as cancelled:
            if turn.stopping == "shutdown":
                raise
            await undo_at_end(*place, waits=False)
            stop = cancelled
        return stop

    async def _taken(self, host: AgentHost, outages: Outages, thread: str, id: str, heard: Iterable[str]) -> None:
        """Remove messages from the thread's queue that the turn has taken: once they are on record in it, or a crash loses them, and before
        the turn is saved: then no message of the queue is in an earlier turn."""
        remove = partial(Mailbox(self.identity.name).remove, host, thread, [*filter(None, (id,)), *heard])
        try:
            await remove()
        except StoreUnavailable as error:
            await outages.through(remove, error)

    async def _save(self, turn: Turn, document: TurnDocument) -> TurnDocument:
        # A message that was heard before a crash may not have been reached again.
        heard = list(dict.fromkeys((*turn.record.heard, *turn.heard)))
        await self._taken(turn.host, turn.outages(), turn.thread, turn.id, heard)
        save = partial(self._memory.save, turn.host, turn.thread, msgspec.structs.replace(document, heard=heard))
        try:
            return await save()
        except StoreUnavailable as error:
            return await turn.outages().through(save, error)

    async def _report(self, changes: Sequence[Change], thread: str) -> None:
        """Call the hook for each change, in order. A stop while it waits is raised after the last one: no change is left out."""
        cancelled: asyncio.CancelledError | None = None
        for change in changes:
            try:
                await self._changed(change.before, change.after, thread)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def _changed(self, before: AgentState, after: AgentState, thread: str) -> None:
        try:
            waiting = self._hook(before, after, thread)
            if inspect.isawaitable(waiting):
                await waiting
        except Exception:
            logger.exception("on_state_changed failed on %s -> %s; the agent is not affected", before, after)


def _reason(use: ToolUse) -> str:
    try:
        return str(decode(use.arguments)["reason"])[:_MAX_REASON]
    except (msgspec.MsgspecError, ValueError, RecursionError, LookupError, TypeError):  # a check has changed them
        return ""


def _checked_ending(ending: Any) -> Ending:
    """What a drive has returned."""
    match ending:
        case (str(stopped), str()) if stopped in get_args(Stopped):
            return ending  # type: ignore[no-any-return]
    raise UsageError(
        f"a drive returns why the turn ends and its text, such as ('finished', 'the answer'), not {ending!r:.100}. The first is one of "
        f"{', '.join(get_args(Stopped))}."
    )


async def _flush_spend(turn: Turn) -> asyncio.CancelledError | None:
    """Write the spend of a run that ends, so that no entry of it is known to its journal alone. A stop meanwhile does not change how
    the turn ended: it is returned, to be raised once the turn is saved, and the ledger writes the rest by itself."""
    try:
        await turn.spending.flush(turn.spender)
    except asyncio.CancelledError as cancelled:
        if turn.stopping == "shutdown":
            raise
        return cancelled
    return None


async def _end_calls(turn: Turn) -> None:
    """End the calls of a stopped turn, before its end is recorded: after that no process would look for them. A second stop does not leave
    one out."""
    while True:
        try:
            return await turn.cancel_open_calls()
        except asyncio.CancelledError:
            if turn.stopping == "shutdown":
                raise


async def _flush_end(turn: Turn) -> asyncio.CancelledError | None:
    """Wait until the end of the turn is on record, or is refused. A stop meanwhile is returned, as by `_flush_spend`; at a second one the
    turn is left to what its call has on record."""
    stop: asyncio.CancelledError | None = None
    while True:
        try:
            with suppress(ClicketError):
                await turn.flush()
            return stop
        except asyncio.CancelledError as cancelled:
            if turn.stopping == "shutdown" or stop is not None:
                raise
            stop = cancelled


def _cancelled(turn: Turn) -> bool:
    """Was the turn stopped, or the caller's task in which it runs?"""
    task = asyncio.current_task()
    return turn.stopping is not None or (task is not None and task.cancelling() > 0)


def _error_text(error: BaseException) -> str:
    try:
        text = error.message if isinstance(error, ClicketError) else f"{type(error).__name__}: {error}"
    except Exception:  # `__str__` of a foreign exception may raise
        text = type(error).__name__
    return hide_text(clean(text), None)[:_MAX_ERROR]
