"""One running turn. Each step is recorded before the next one depends on it. After a crash the same code runs again, and gets the
recorded replies and results instead of new ones.

`Turn.over` decides whether the model
may be asked again. `turn_limits.py` has the limits and the counters that a turn shares with its branches; repeats are counted for each
branch by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn

import msgspec

from clicket.agents.agent_result import AgentEvent, AgentEventType
from clicket.agents.background import OpenCalls, news_message, result_message
from clicket.agents.chain import NO_MIDDLEWARE, Chain, Method
from clicket.agents.decision_words import in_words
from clicket.agents.decisions import Decisions
from clicket.agents.entries import (
    Answer,
    Decision,
    Entry,
    HandedOver,
    Heard,
    Held,
    News,
    PlanState,
    Refusal,
    Reply,
    Restart,
    Result,
    Results,
    Summary,
    Tried,
    call_id,
    events_of,
)
from clicket.agents.event_feed import EventFeed
from clicket.agents.handoff import Handoff, hidden_from
from clicket.agents.identity import both
from clicket.agents.mailbox import Mailbox, QueuedMessage
from clicket.agents.open_calls import STOPPED, end_calls, end_open_calls
from clicket.agents.outages import Outages
from clicket.agents.output import Output
from clicket.agents.pieces import PieceLog
from clicket.agents.recorded_calls import RecordedCalls
from clicket.agents.sensitive_values import SensitiveValues
from clicket.agents.task_threads import thread_of_task
from clicket.agents.transcript import assistant_message, paired
from clicket.agents.turn_limits import AnswerEnd, Ending, Limits, Repeats, Spent, Stopped, counted
from clicket.agents.turn_record import Branch, Replay, TurnRecord, note_of
from clicket.agents.verdicts import Edit
from clicket.engine.executors import TurnLog
from clicket.engine.spend import spender_of_turn
from clicket.errors import ClicketError, StoreUnavailable, UsageError
from clicket.model.chat import ChatMessage, ChatReply, Delta, ToolOffer, ToolUse, Usage
from clicket.model.files import FileRef, shown_in
from clicket.model.ids import is_of_turn
from clicket.model.ports import AgentHost, ChatModel, Clock, Taken
from clicket.model.ports.spending import Spending
from clicket.model.spend import Spender
from clicket.safety.vault import MASK

__all__ = ["Role", "Turn", "TurnHandedOver", "TurnStopped"]

REFUSED: dict[str, Any] = {"clicket": {"refused": True}}
"""Marks an answer that was refused, and why, in the messages of a running turn."""
_PAUSE = 0.1
"""Seconds after which another process may own the turn."""
REFERENCE = "Read it with read_result: artifact "
"""Part of the note under a result that was cut; the artifact's name follows."""


class TurnStopped(ClicketError):
    """A limit is reached: the turn ends with `stopped` and the error's message as its text."""

    code = "stopped"

    def __init__(self, stopped: Stopped, text: str) -> None:
        super().__init__(text)
        self.stopped: Stopped = stopped


class TurnHandedOver(ClicketError):
    """The turn goes on with another agent: the call `use` of the tool of `handoff` succeeded."""

    code = "handed_over"

    def __init__(self, handoff: Handoff, use: ToolUse) -> None:
        super().__init__(f"the turn goes on with the agent {handoff.name!r}. A drive lets this error through.")
        self.handoff: Handoff = handoff
        self.use: ToolUse = use


class Role(NamedTuple):
    """What a turn has of the agent that drives it."""

    agent: str
    middleware: Chain = NO_MIDDLEWARE
    tools: frozenset[str] | None = None
    system: str | None = None
    output: Output[Any] | None = None
    model: ChatModel | None = None
    handoffs: Mapping[str, Handoff] = {}
    """By the names of the tools."""
    bounds: Mapping[str, Any] = {}
    """Limits of the agent as they are on record, by name, also those of its kind alone."""


class Turn:
    """`mark` identifies the turn, or the branch of one, in its thread: it is part of the ids of its tool calls."""

    __slots__ = (
        "__weakref__",
        "_ids",
        "_log",
        "_recorded",
        "_repeats",
        "_replay",
        "agent",
        "allowed_tools",
        "answer",
        "answer_end",
        "begins",
        "bell",
        "bounds",
        "branch",
        "clock",
        "decisions",
        "denied",
        "deps",
        "feed",
        "files",
        "first",
        "frontend",
        "handed",
        "handoffs",
        "has_references",
        "heard",
        "host",
        "id",
        "is_over",
        "journaled",
        "limits",
        "mailbox",
        "mark",
        "masked_uses",
        "max_handoffs",
        "max_steps",
        "message",
        "messages",
        "metadata",
        "middleware",
        "model",
        "must_stop",
        "number",
        "open_calls",
        "output",
        "pieces",
        "plan",
        "record",
        "recorded",
        "refusal",
        "refusals",
        "resumed",
        "sensitive",
        "spender",
        "spending",
        "spent",
        "steps",
        "system",
        "tag",
        "thread",
        "tools",
        "unread",
    )  # fmt: skip

    def __init__(  # noqa: PLR0915  # it sets the fields, and does nothing else
        self,
        host: AgentHost,
        log: TurnLog,
        feed: EventFeed,
        *,
        thread: str,
        number: int,
        mark: str,
        message: str,
        history: Sequence[ChatMessage],
        limits: Limits,
        role: Role,
        tag: str = "",
        branch: str = "",
        spent: Spent | None = None,
        sensitive: SensitiveValues | None = None,
        frontend: Sequence[ToolOffer] = (),
        id: str = "",
        record: TurnRecord | None = None,
        max_handoffs: int = 0,
        metadata: Mapping[str, Any] | None = None,
        files: Sequence[FileRef] = (),
        pieces: PieceLog | None = None,
    ) -> None:
        """`record`: the fold of the log's entries, if it is there. `role`: of the agent that begins it."""
        self.host: AgentHost = host
        self.clock: Clock = host.clock
        self.thread: str = thread
        self.message: str = message
        """The user's message."""
        self.files: tuple[FileRef, ...] = tuple(files)
        """Those of the message."""
        self.number: int = number
        self.id: str = id  # that its caller gave it, or empty
        self.mark: str = mark
        owner = mark.partition(".")[0]
        self.agent: str = role.agent
        """The name of the agent that drives it: the one whose thread it is in, or the one to which it was handed."""
        self.spending: Spending = host.spending
        self.spender: Spender = spender_of_turn(host.caller, thread, owner, number)
        """Whose spend its requests are: this run's, and that of the runs that called its agent."""
        self.limits: Limits = limits
        self.branch: str = branch
        self.has_references: bool = _has_reference(history)
        """Some result was cut: the model is offered the tool `read_result`."""
        self.first: Role = role
        """Of the agent that began it."""
        self.tools: frozenset[str] | None = role.tools
        """Names of the tools that its agent may use, and the agent that began it; None: all of the runtime."""
        self.allowed_tools: frozenset[str] | None = role.tools
        """Names of the tools that may be called now: a part of `tools`, see `allow`. None: all of the runtime."""
        self.system: str | None = role.system
        """The instructions with which it began, if its agent has others by now; they hold to its end."""
        self.middleware: Chain = role.middleware
        self.mailbox: Mailbox = Mailbox(owner)
        self.frontend: dict[str, ToolOffer] = {offer.name: offer for offer in frontend}
        """Tools that the caller's own program runs, by name."""
        self.handoffs: Mapping[str, Handoff] = role.handoffs
        """To which agents its agent may hand it, by the names of the tools."""
        self.bounds: Mapping[str, Any] = role.bounds
        """Limits of its agent as they are on record: those of a plan's executors, say."""
        self.handed: int = 0
        """How often that was done."""
        self.max_handoffs: int = max_handoffs
        self.journaled: bool = True
        """Its tool calls are calls of the runtime. Those of a planner only change its plan."""
        self.max_steps: int | None = None
        """Set for branches only."""
        self.steps: int = 0
        """Steps of this turn or branch; `spent` counts a turn and its branches together."""
        self.spent: Spent = Spent() if spent is None else spent
        self._repeats: Repeats = Counter()
        self.denied: dict[str, str] = {}
        """Tool calls that the limits forbid, by the model's ids, and why."""
        self.sensitive: SensitiveValues = SensitiveValues(host.sensitive) if sensitive is None else sensitive
        """Masks values of sensitive fields in records, events and history."""
        self.masked_uses: set[str] = set()
        """Tool calls, by the model's ids, whose arguments were recorded masked and cannot be restored."""
        self.messages: list[ChatMessage] = [*history, ChatMessage(role="user", content=message, files=self.files)]
        self.begins: int = len(history)
        self.open_calls: OpenCalls = OpenCalls()
        """Background calls, of this turn and earlier ones, whose results the model has not read."""
        self.plan: dict[str, Any] | None = None
        self.answer_end: AnswerEnd | None = None  # of the model's last answer
        self.model: ChatModel | None = role.model
        """Asked in place of the agent's, in this turn."""
        self.deps: Mapping[str, Any] = {}
        """Values of this process, by name: what its caller brought (`deps=`), and what the runtime makes."""
        self.metadata: Mapping[str, Any] = metadata or {}
        """What its caller said of it; JSON."""
        self.output: Output[Any] | None = role.output
        """What its answer must be; None: a text."""
        self.answer: Answer | None = None  # that the model's last reply gives
        self.heard: list[str] = []
        """Ids of messages that came while it ran."""
        self.bell: int = 0
        """Version of the thread's bell when it looked for such messages last."""
        self.recorded: RecordedCalls | None = None
        """Outcomes for its calls, if it is another turn, run again."""
        self.refusal: Refusal | None = None  # of the model's last answer
        self.unread: str = ""
        """The caller's message, if a check has changed or refused it, so that no model reads it."""
        self.refusals: Counter[str] = Counter()
        """How many answers were refused, by `Refusal.stopped`."""
        self.record: TurnRecord = TurnRecord(log.entries) if record is None else record
        """What was on record when this process began with it."""
        self.resumed: bool = not self.record.is_empty
        self.is_over: bool = False
        """Its body did not stop in its grace, and the turn ends without it: it makes no more calls."""
        self.feed: EventFeed = feed
        self.pieces: PieceLog | None = pieces
        """Of its answers, if they are stored; its branches share it."""
        self._log = log
        self.must_stop: bool = log.must_stop
        """The turn was stopped while no process ran it."""
        self._recorded: Branch = self.record.branch(branch)
        self._replay: Replay = Replay(self._recorded, is_resumed=self.resumed)
        self.tag: str = tag if self._recorded.tag is None else self._recorded.tag
        """Makes the ids of its tool calls unique in the store."""
        if spent is None:
            self.spent.ahead = len(self.record.replies)
        self.decisions: Decisions = Decisions(self._recorded.decisions, self.begins)
        self._ids = {use.id for message in history for use in message.uses}

    # Recording.

    def write(self, text: str, entry: Entry, looked_at: Sequence[Any] = (), soon: bool = False) -> None:
        """Record an entry, and publish its events when it is durable. `soon`: the commit may wait for the next entry."""
        if self.branch:
            entry = msgspec.structs.replace(entry, branch=self.branch)
        pieces = self.pieces
        if pieces is not None:
            entry = msgspec.structs.replace(entry, log=pieces.place)
        shown = entry
        then: Callable[[bool], None] | None = None
        sensitive = self.sensitive
        if not sensitive.is_empty:
            shown, text = sensitive.entry(entry), sensitive.text(text)
        if self.feed.readers:
            held = self.feed.hold(events_of(shown, self._log.count + 1, self.thread, self.number))
            then = partial(self.feed.release, held)
        if pieces is not None and pieces.take(entry):
            then = _then(then, partial(pieces.recorded, entry, pieces.offset))
        raw = msgspec.to_builtins(entry)
        self._log.write(text, raw, looked_at, raw if shown is entry else msgspec.to_builtins(shown), then, soon)

    def keep_files(self, files: Sequence[FileRef] | None = None) -> None:
        """With the next entry: the files of its message, or these ones, live as long as the turn."""
        self._log.keep_files(self.files if files is None else files)

    async def flush(self) -> None:
        await self._log.flush()

    def shown_record(self) -> TurnRecord:
        """What is on record of it now, as readers get it."""
        return TurnRecord(self._log.shown_entries)

    def has_paused(self, started: float, since: float) -> bool:
        """Did a step take longer than `_PAUSE` by either clock? After a suspended process or a sleeping machine another process may own
        the turn, so flush. After a short step the order of the writes is enough.

        `started` and `since`: `clock.monotonic()` and `clock.now()` at the step's begin.
        """
        monotonic, now = self.clock.monotonic, self.clock.now
        return monotonic() - started > _PAUSE or now() - since > _PAUSE

    def sent(self) -> Awaitable[None] | None:
        """None: no call that is made from now on can be durable before the entries written so far. Else await that."""
        return self._log.sent()

    @property
    def stopping(self) -> str | None:
        return self._log.stopping

    def leave_if_closing(self) -> None:
        """Hand the turn back if the runtime closes: the next process over the store continues it."""
        if self.host.closing:
            self._log.hand_back()
        if self._log.entry.fenced or self.is_over:
            self._leave()

    def give_in(self) -> NoReturn:
        self._log.give_in()

    def report_waiting(self) -> None:
        """Record that a tool call of the turn waits for an approval."""
        self._log.waits(f"Step {self.steps}: waits for an approval.")

    def wait_for(self, what: str | None, text: str) -> None:
        """Record what the turn waits for, as `waiting_for` shows it; None: it goes on."""
        self._log.wait_for(what, text)

    @property
    def lost(self) -> bool:
        """Another process owns the turn, because this one did not renew its lease."""
        return self._log.entry.fenced

    @property
    def goes_on_elsewhere(self) -> bool:
        """Another process owns the turn, or will continue it: this one stops it for itself alone, and its calls are not cancelled."""
        return self.lost or self.stopping == "shutdown" or self.host.closing

    def leave_if_lost(self) -> None:
        if self._log.entry.fenced:
            self._leave()

    def _leave(self) -> NoReturn:
        raise Taken(f"turn {self.number} of thread {self.thread!r} is owned by another process now.")

    async def catch_up(self) -> None:
        """The store refused a call as stale: read what another process wrote into the turn, and leave the turn if it has another owner."""
        with suppress(ClicketError):
            await self._log.catch_up()
        self.leave_if_closing()

    def outages(self) -> Outages:
        return Outages(self.host, self._log)

    def replay(self) -> None:
        """Begin again with the entries on record, as after a crash. All of them are durable."""
        Turn.__init__(
            self,
            self.host,
            self._log.read_again(),
            self.feed,
            thread=self.thread,
            number=self.number,
            mark=self.mark,
            message=self.message,
            history=self.messages[: self.begins],
            limits=self.limits,
            role=self.first,
            tag=self.tag,
            frontend=tuple(self.frontend.values()),
            id=self.id,
            max_handoffs=self.max_handoffs,
            metadata=self.metadata,
            files=self.files,
            pieces=self.pieces,
        )

    # Handoffs.

    def act_as(self, role: Role) -> None:
        """Let another agent drive it from now on."""
        self.agent, self.middleware, self.system, self.output, self.model = (
            role.agent, role.middleware, role.system, role.output, role.model,
        )  # fmt: skip
        self.tools = self.allowed_tools = role.tools
        self.handoffs = role.handoffs
        self.bounds = role.bounds
        self.answer = None
        self.journaled = True
        self.decisions.brought.clear()
        self.decisions.hidden = hidden_from(role.agent, self.messages)

    def recorded_handoff(self) -> HandedOver | None:
        """That of this step, if it is on record."""
        return self._recorded.handoffs.get(self.steps)

    def record_handoff(self, entry: HandedOver) -> None:
        self._recorded.handoffs[self.steps] = entry
        text = f"Step {self.steps}: {entry.by} hands over to {entry.agent}." if entry.use else f"{entry.agent} goes on."
        self.write(text, entry, (entry.reason, *filter(None, (entry.system,))))

    def take_handoff(self, entry: HandedOver) -> None:
        """Add what the other agent reads."""
        if entry.use:
            self.handed += 1
            self.messages.append(note_of(entry))

    def deny_handoffs(self, uses: Sequence[ToolUse]) -> None:
        """Only the first one of a reply counts, and a turn has a limit of them."""
        asked = [use for use in uses if self.hands(use) and use.id not in self.denied]
        for place, use in enumerate(asked):
            if self.handed >= self.max_handoffs:
                often = f"the turn was handed over {self.handed} times, which is its limit (max_handoffs). Answer it yourself"
                self.denied[use.id] = often
            elif place:
                self.denied[use.id] = f"a reply hands over once, and {asked[0].name} came first"

    def hands(self, use: ToolUse) -> bool:
        return use.name in self.handoffs and use.name not in self.frontend

    def leave_if_handed(self, message: ChatMessage, results: Mapping[str, Result]) -> None:
        """After all calls of a reply. `TurnHandedOver`: one of them handed over, now or before a crash."""
        known = self.recorded_handoff()
        for use in message.uses:
            if known is not None and known.use == use.id:
                raise TurnHandedOver(Handoff(known.agent, history=known.history), use)
            if known is None and self.hands(use) and not results[use.id].failed:
                raise TurnHandedOver(self.handoffs[use.name], use)

    # Decisions of middleware.

    def record_decision(self, method: Method, value: Any, *, step: int, use: str = "", call: str = "") -> None:
        """`call`: the call that asks a person. The decision is durable before what follows from it: the next call, the next request to the
        model, or the entry that is written next."""
        self.decisions.note(method, step, use, value)
        entry = Decision(step=step, by=method.by, on=method.on, value=value, use=use, call=call, at=self.clock.now())
        self.write(f"Step {step}: {in_words(method.by, method.on, value)}", entry, (value,), True)

    def hear(self, message: QueuedMessage) -> None:
        """Take a message that has come while the turn runs: the model reads it with the next request."""
        self._log.keep_files(message.files)
        heard = Heard(step=self.steps + 1, id=message.id, text=message.text, files=message.files, at=self.clock.now())
        self.write(f"Step {self.steps + 1}: a message has come.", heard, (message.text,))
        self._take_heard(heard)
        self.decisions.are_new = True

    def _take_heard(self, heard: Heard) -> None:
        self.heard.append(heard.id)
        self.messages.append(ChatMessage(role="user", content=heard.text, files=tuple(heard.files)))

    def take_edits(self) -> None:
        """Apply what is on record of the next request: messages that came before it, and edits."""
        for heard in self._replay.heard.pop(self.steps + 1, ()):
            self._take_heard(heard)
        for edit in self.decisions.begin_step(self.steps + 1):
            self.take_edit(edit)

    def take_edit(self, edit: Edit) -> None:
        """Apply what an edit of the next request changes in the turn: its messages, and the tools that its reply may call."""
        self.messages += edit.add
        self.decisions.take(edit)

    def replace_message(self, text: str | None) -> None:
        """Let models read this in place of the caller's message; None: nothing."""
        message = self.messages[self.begins]
        self.unread = self.message
        if text is None:
            self.messages[self.begins] = msgspec.structs.replace(message, vendor=REFUSED)
        else:
            shown = shown_in(text, message.files)
            self.messages[self.begins] = msgspec.structs.replace(message, content=text, files=shown)

    # Replies of the model.

    def held(self) -> Held | None:
        """The next reply, if a person was asked about it before a crash."""
        held = self._recorded.held.get(self.steps + 1)
        if held is not None:
            self.answer = held.answer
            if held.masked:
                self.masked_uses.update(use.id for use in held.reply.uses if MASK in use.arguments)
        return held

    def hold(self, reply: ChatReply, by: str, took: float, spend: dict[str, Any], model: str) -> None:
        """Record the next reply, about which the check `by` asks a person. The rest: as for `record_reply`."""
        message = assistant_message(reply, self.mark, self.steps + 1, self._ids, not self.branch)
        self.sensitive.take(message.uses)
        mark, tag = (self.mark, self.tag) if self.journaled else ("", "")
        kept = Reply.of(
            message, mark=mark, tag=tag, step=self.steps + 1, usage=reply.usage, total=self.spent.usage, took=took, at=self.clock.now(),
            ended=_end_of(reply, message), spend=spend, model=model,
        )  # fmt: skip
        looked_at = (message.content, message.thought, message.vendor, *(use.arguments for use in message.uses))
        text = f"Step {self.steps + 1}: {by} asks a person about the model's answer."
        self.write(text, Held(step=self.steps + 1, by=by, reply=kept, answer=self.answer, at=kept.at), looked_at, True)

    def recorded_reply(self) -> ChatMessage | None:
        """The next reply that was recorded before a crash, or None."""
        reply = self._replay.next()
        if reply is None:
            return None
        self.spent.ahead -= 1
        message = reply.message
        self.sensitive.take(message.uses)
        if reply.masked:
            self.masked_uses.update(use.id for use in message.uses if MASK in use.arguments)
        self.answer_end = reply.ended
        self.answer = self._recorded.answers.get(reply.step)
        self._take(message, reply.usage, reply.took, reply.refused)
        return message

    def restart(self, why: str) -> None:
        """Record that the model is asked again for the next step."""
        self.write(
            f"Step {self.steps + 1} begins again: {why}.", Restart(step=self.steps + 1, why=why, at=self.clock.now())
        )

    def restart_if_resumed(self) -> None:
        """Before the first request to the model that is not on record."""
        if self._replay.must_restart:
            self._replay.must_restart = False
            self.restart("the turn was interrupted")

    def replayed_spend(self) -> tuple[dict[str, Any], Usage] | None:
        """What was recorded of the spend of the reply that `recorded_reply` returned last."""
        reply = self._replay.last
        return None if reply is None or reply.spend is None else (reply.spend, reply.usage)

    def record_reply(
        self,
        reply: ChatReply,
        took: float,
        spend: dict[str, Any] | None = None,
        refused: Refusal | None = None,
        model: str = "",
    ) -> ChatMessage:
        """`spend`: what the ledger needs to count the reply, also after a crash; the reply's usage has been checked for it. `model`: of a
        chain, the one that answered."""
        step = self.steps + 1
        usage = reply.usage if spend is not None else counted(reply.usage)
        if refused is not None:
            reply = msgspec.structs.replace(reply, uses=())
        message = assistant_message(reply, self.mark, step, self._ids, not self.branch)
        self.answer_end = _end_of(reply, message)
        self._take(message, usage, took, refused)
        self.sensitive.take(message.uses)
        now = self.clock.now
        mark, tag = (self.mark, self.tag) if self.journaled else ("", "")
        entry = Reply.of(
            message,
            mark=mark,
            tag=tag,
            step=step,
            usage=usage,
            total=self.spent.usage,
            took=took,
            at=now(),
            ended=self.answer_end,
            spend=spend,
            refused=refused,
            model=model,
        )
        names: list[str] = []
        looked_at: list[Any] = []
        if message.content:
            looked_at.append(message.content)
        if message.thought or message.vendor:
            looked_at += (message.thought, message.vendor)
        for use in message.uses:
            names.append(use.name)
            looked_at += (use.id, use.name, use.arguments)
        asked = ", ".join(names[:5]) or "nothing: it answers"
        if refused is not None:
            asked = f"nothing, and {refused.by} refuses its answer"
            looked_at.append(refused.text)
        elif self.answer is not None and self.answer.step == step:
            self.write(f"Step {step}: the model answers.", self.answer, (self.answer.value,), True)
        self.write(f"Step {step}: {model or 'the model'} asks for {asked}.", entry, looked_at)
        return message

    def answer_with(self, value: Any) -> None:
        """The answer that the next reply gives, if it is not refused. It is recorded in one commit with that reply."""
        self.answer = Answer(step=self.steps + 1, value=value, at=self.clock.now())

    def record_summary(self, usage: Usage, spend: dict[str, Any]) -> None:
        """Record what a summary of old messages has used. `spend`: as for `record_reply`."""
        self.spent.usage = self.spent.usage + usage
        entry = Summary(step=self.steps, usage=usage, spend=spend, at=self.clock.now())
        self.write(f"Step {self.steps}: old messages are summarised.", entry)

    def take_summaries(self) -> list[Summary | Tried]:
        """The summaries that this turn and its branches made before a crash, and answers that were not used. Their usage counts here."""
        found: list[Summary | Tried] = [*self.record.summaries, *self.record.unused]
        for each in found:
            self.spent.usage = self.spent.usage + each.usage
        return found

    def say(self, text: str, uses: Sequence[ToolUse] = ()) -> ChatMessage:
        """Record a message that no model wrote as a step of the turn; after a crash the recorded one is returned."""
        known = self.recorded_reply()
        if known is None:
            self.leave_if_closing()
            return self.record_reply(ChatReply(text=text, uses=tuple(uses)), 0.0)
        asked, on_record = [use.name for use in uses], [use.name for use in known.uses]
        if asked != on_record:
            names = ", ".join(repr(name) for name in on_record) or "an answer"
            raise UsageError(
                f"step {self.steps} of turn {self.number} asks for {', '.join(asked) or 'an answer'}, but {names} is on record. "
                "A drive must do the same when it runs again; end this turn with agent.stop(thread)."
            )
        return known

    def _take(self, message: ChatMessage, usage: Usage, took: float, refusal: Refusal | None) -> None:
        self.refusal = refusal
        if refusal is None:
            self.messages.append(message)
        else:  # the model reads both in this turn alone
            self.refusals[refusal.stopped] += 1
            self.messages.append(msgspec.structs.replace(message, vendor=REFUSED))
            self.messages.append(ChatMessage(role="user", content=refusal.text, vendor=REFUSED))
        for use in message.uses:
            self._ids.add(use.id)
        self.steps += 1
        self.spent.steps += 1
        self.spent.usage = self.spent.usage + usage
        self.spent.seconds += took

    # Results of tools.

    def recorded_results(self) -> dict[str, Result]:
        """The recorded results of this step's tool calls, by the model's ids."""
        found: dict[str, Result] = {}
        for entry in self._recorded.results.get(self.steps, ()):
            self.spent.seconds += entry.took
            found.update((item.id, item) for item in entry.items)
        self._count_called(found.values())
        return found

    def _count_called(self, items: Iterable[Result]) -> None:
        """What agents have used that were called."""
        for item in items:
            self.spent.open.pop(thread_of_task(self.thread, item.call), None)
        if self.limits.max_tokens is not None or self.limits.max_cost is not None:
            self.spent.called = sum((item.usage for item in items if item.usage), self.spent.called)

    def record_results(self, items: list[Result], took: float) -> None:
        """Record results; `add_result_messages` adds them to the messages once all of the step are known."""
        self.spent.seconds += took
        step = self.steps
        failed = 0
        for item in items:
            failed += item.failed
        self._count_called(items)
        text = f"Step {step}: {len(items) - failed} of {len(items)} tool calls succeeded."
        # After a crash the results are read from the calls themselves, so this may be committed with the next reply.
        now = self.clock.now
        self.write(text, Results(step=step, items=items, took=took, at=now()), (), True)

    def add_result_messages(self, message: ChatMessage, found: dict[str, Result]) -> None:
        for use in message.uses:
            self.messages.append(result_message(found[use.id]))

    # Results of background calls.

    def calls_to_collect(self) -> dict[str, ToolUse]:
        """The background calls whose results the model has not read, by id. Results that were recorded after this step, before a
        crash, are added to the messages first. None are collected while the next reply is on record."""
        if self._replay.news:
            known = self._replay.news.pop(self.steps, [])
            self._count_called(known)
            self.messages += map(news_message, known)
        return {} if self._replay.replies else self.open_calls.among(self.messages)

    @property
    def is_replaying(self) -> bool:
        """The next reply of the model is on record."""
        return bool(self._replay.replies)

    def record_news(self, items: list[Result]) -> None:
        """Record results of background calls, and add them to the messages."""
        text = f"Step {self.steps}: {len(items)} background calls have ended."
        self.write(text, News(step=self.steps, items=items, at=self.clock.now()), soon=True)
        self._count_called(items)
        self.messages += map(news_message, items)

    def record_plan(self, body: dict[str, Any]) -> None:
        """Record and publish a state of the plan; a state that was recorded before a crash is not recorded again."""
        self.plan = body
        if self._replay.plans:
            self._replay.plans -= 1
        else:
            done = sum(step["status"] == "completed" for step in body["steps"])
            entry = PlanState(step=self.steps, plan=body, at=self.clock.now())
            self.write(f"The plan: {done} of {len(body['steps'])} steps are completed.", entry, _texts(body))

    async def record_progress(self, body: dict[str, Any]) -> None:
        """`record_plan`, before any model is asked: a request that follows a new state was not made before a crash."""
        if not self._replay.plans:
            self._replay.must_restart = False
        self.record_plan(body)
        if self.has_piece_readers:  # nobody has pieces of an answer of which no reader knew
            await self.flush()

    @property
    def has_piece_readers(self) -> bool:
        """Is the model asked to stream its answer?"""
        return self.pieces is not None or bool(self.feed.readers)

    def publish_piece(self, piece: Delta) -> None:
        """Pass a piece of an answer to live readers, and to the store if pieces are kept there."""
        use = {"use": piece.use} if piece.kind in ("name", "arguments") else {}
        id = ""
        if self.pieces is not None:
            id = self.pieces.add(self._log.count + 1, self.branch, self.steps + 1, piece.kind, piece.text, piece.use)
        self._publish("delta", {"kind": piece.kind, "text": piece.text, **use}, id)

    def void_pieces(self, why: str) -> None:
        """The model is asked again after it has given pieces of this step's answer. Live readers know that from the event `retry`."""
        if self.pieces is not None and self.pieces.is_open((self.branch, self.steps + 1)):
            self.restart(why)

    def publish(self, type: AgentEventType, **data: Any) -> None:
        """Pass an event to live readers without recording it."""
        self._publish(type, data)

    def _publish(self, type: AgentEventType, data: dict[str, Any], id: str = "") -> None:
        if self.feed.readers:
            self.feed.publish(
                AgentEvent(
                    type=type,
                    thread=self.thread,
                    turn=self.number,
                    at=self.clock.now(),
                    step=self.steps + 1 if type in ("delta", "retry") else self.steps,
                    id=id,
                    data={**data, "branch": self.branch} if self.branch else data,
                )
            )

    def call_id(self, number: int, use: ToolUse) -> str:
        """The id of a tool call of this step; the same in every process that runs the turn."""
        return call_id(self.mark, self.tag, self.steps, number, use.id)

    def budget_call_id(self, number: int) -> str:
        """The id of the call that asks a person to raise a budget before the next step; `number` counts those of a step, from 0."""
        return call_id(self.mark, self.tag, self.steps + 1, int(f"9{number:03d}"), "")

    def check_call_id(self, number: int) -> str:
        """The id of the call that asks a person about the message, or the answer of the next step; `number`: which check asks."""
        return call_id(self.mark, self.tag, self.steps + 1, int(f"8{number:03d}"), "")

    async def end_calls(self, ids: Sequence[str], why: str = STOPPED) -> None:
        """End calls of the turn: when this returns each has ended, or its cancel is on record. Waits until the store answers."""
        await self._through(partial(end_calls, self.host, self.thread, ids, why))

    async def cancel_open_calls(self, why: str = STOPPED) -> None:
        """`end_calls` for those on record that have no recorded result, of this turn and its branches."""
        await self._through(partial(end_open_calls, self.host, self._log, self.thread, why))

    async def _through(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreUnavailable as error:
            await self.outages().through(work, error)

    # Limits.

    def count_call(self, use: ToolUse) -> Ending | None:
        """Count a tool call; or return why it is forbidden and the turn ends. Recorded calls are counted too, in the same order, so
        that the outcome is the same after a crash."""
        return self.spent.count_call(use, self.limits, self._repeats)

    def allow(self, only: frozenset[str] | None) -> None:
        """Let it call these of its tools from now on; None: all of them."""
        self.allowed_tools = both(only, self.tools)

    def over(self) -> Ending | None:
        """The limit that forbids another request to the model, or None."""
        above = self._above()
        if self._replay.replies:  # this request was made before the crash
            return None
        if self.max_steps is not None and self.steps >= self.max_steps:
            return "max_steps", f"Terminated: Reached max steps ({self.max_steps})"
        found = self.spent.over(self.limits)
        while found is None and above is not None:
            found = above.spent.over_shared(above.limits, above.agent)
            above = above._above()
        return found

    def _above(self) -> Turn | None:
        """The turn that gave its agent this task, if it goes on in this process. It knows from then on what this one spends."""
        thread, _, call = self.thread.rpartition("/")
        tool = self.host.installed(f"agent:{call.partition('.')[0]}") if thread else None
        above: Turn | None = None if tool is None else tool.turns.get((self.host.caller, thread))
        if above is None or not is_of_turn(call, above.mark):  # or in the background, and its turn is over
            return None
        above.spent.open[self.thread] = self.spent
        return above

    # Branches.

    def new_branch(self, name: str, message: str, max_steps: int) -> Turn:
        """A concurrent branch of the turn, for one task. It starts with the turn's messages and shares its budget."""
        branch = Turn(
            self.host,
            self._log,
            self.feed,
            thread=self.thread,
            number=self.number,
            mark=f"{self.mark}.{name}",
            message=message,
            history=self.messages,
            limits=self.limits,
            role=Role(self.agent, self.middleware, self.tools, self.system, model=self.model),
            tag=self.tag,
            branch=name,
            spent=self.spent,
            sensitive=self.sensitive,
            frontend=tuple(self.frontend.values()),
            record=self.record,
            metadata=self.metadata,
            pieces=self.pieces,
        )
        branch.max_steps = max_steps
        branch._replay.must_restart = self._replay.must_restart
        branch.deps = self.deps
        branch.recorded = self.recorded
        branch.decisions.brought.update(self.decisions.brought)
        return branch

    @property
    def last_answer(self) -> str | None:
        """The text of the model's last message."""
        said = (each for each in reversed(self.messages) if each.role == "assistant" and each.vendor is not REFUSED)
        return next((message.content for message in said), None)

    @property
    def new_messages(self) -> list[ChatMessage]:
        """The transcript of the turn, without answers that were refused."""
        return paired(message for message in self.messages[self.begins :] if message.vendor is not REFUSED)

    def merge(self, branch: Turn) -> None:
        """Append the messages of a branch."""
        self.messages += branch.new_messages
        self._ids |= branch._ids


def _then(first: Callable[[bool], None] | None, second: Callable[[], None]) -> Callable[[bool], None]:
    """Calls both when an entry is durable, and only the first if it never will be."""

    def then(durable: bool) -> None:
        if first is not None:
            first(durable)
        if durable:
            second()

    return then


def _end_of(reply: ChatReply, message: ChatMessage) -> AnswerEnd:
    if reply.ended in ("length", "refusal"):
        return reply.ended
    return "stop" if message.uses or message.content.strip() else "empty"


def _has_reference(messages: Sequence[ChatMessage]) -> bool:
    for message in messages:  # noqa: SIM110  # in each turn over a long history: a generator takes twice as long
        if message.role == "tool" and REFERENCE in message.content:
            return True
    return False


def _texts(plan: dict[str, Any]) -> list[str]:
    return [plan["title"], *(text for step in plan["steps"] for text in (step["text"], step["notes"]))]
