"""One turn while it runs. Whatever it does goes on record before anything follows from it; after a crash the same code runs again,
and is given what is on record instead of doing it again."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import msgspec

from clicket.agents import entries
from clicket.agents.declared import DeclaredValues
from clicket.agents.feed import Feed
from clicket.agents.limits import Limits, Spent, Stopped, counted
from clicket.agents.transcript import paired, said
from clicket.agents.values import AgentEvent, AgentEventType
from clicket.errors import ClicketError, UsageError
from clicket.execution import TurnLog
from clicket.model.chat import ChatMessage, ChatReply, ToolUse, Usage
from clicket.model.codec import canonical, decode
from clicket.ports import AgentHost, Clock, Taken
from clicket.vault import MASK

__all__ = ["Turn", "TurnStopped"]

Entry = dict[str, Any]
_AWAY = 0.1
REFERENCE = "Read it with read_result: artifact "
"""Under a result that was cut; the artifact's name follows."""


class TurnStopped(ClicketError):
    """A limit of the run is reached: the turn ends as `stopped`, with the message as its text."""

    code = "stopped"

    def __init__(self, stopped: Stopped, text: str) -> None:
        super().__init__(text)
        self.stopped: Stopped = stopped


class Turn:
    """`mark` names it among all turns of its thread: ids of its tool calls begin with it."""

    def __init__(
        self,
        host: AgentHost,
        log: TurnLog,
        feed: Feed,
        *,
        thread: str,
        number: int,
        mark: str,
        message: str,
        history: Sequence[ChatMessage],
        limits: Limits,
        tag: str = "",
        fork: str = "",
        spent: Spent | None = None,
        declared: DeclaredValues | None = None,
    ) -> None:
        self.host: AgentHost = host
        self.clock: Clock = host.clock
        self.thread: str = thread
        self.message: str = message
        """What the turn is asked."""
        self.number: int = number
        self.mark: str = mark
        self.limits: Limits = limits
        self.fork: str = fork
        self.refers: bool = any(message.role == "tool" and REFERENCE in message.content for message in history)
        """Is there a result that was cut? Then the model is offered to read on."""
        self.only: frozenset[str] | None = None
        """The names of the tools that may be called; None: all that the runtime has."""
        self.journaled: bool = True
        """Are its tool calls calls of the runtime? Those of a planner change its plan, and nothing else."""
        self.max_steps: int | None = None
        """Of a fork alone."""
        self.steps: int = 0
        """Of this line of thought alone; `spent` counts for all of the turn."""
        self.spent: Spent = Spent() if spent is None else spent
        self.repeats: Counter[Any] = Counter()
        self.denied: dict[str, str] = {}
        """Tool calls that the run's limits forbid, by their ids as the model knows them, and why."""
        self.declared: DeclaredValues = DeclaredValues(host.sensitive) if declared is None else declared
        """What only the model and the tools get; everybody else gets the mask."""
        self.unreadable: set[str] = set()
        """Tool calls whose arguments are on record with a mask alone, by their ids as the model knows them."""
        self.messages: list[ChatMessage] = [*history, ChatMessage(role="user", content=message)]
        self.begins: int = len(history)
        self.plan: Entry | None = None
        self.resumed: bool = bool(log.entries)
        self.feed: Feed = feed
        self._log = log
        mine = [entry for entry in log.entries if entry.get("fork", "") == fork]
        self._replies: deque[Entry] = deque(entry for entry in mine if entry.get("e") == "reply")
        told = [entry.get("tag", "") for entry in self._replies if entry.get("mark")]
        self.tag: str = told[0] if told else tag
        """Makes the ids of its tool calls unique in the store; empty for a turn that an older version began."""
        if spent is None:
            self.spent.ahead = sum(entry.get("e") == "reply" for entry in log.entries)
        self._results: dict[int, list[Entry]] = {}
        for entry in mine:
            if entry.get("e") == "results":
                self._results.setdefault(entry["step"], []).append(entry)
        self._plans: deque[Entry] = deque(entry for entry in mine if entry.get("e") == "plan")
        self._ids = {use.id for message in history for use in message.uses}

    # On record.

    def write(self, text: str, entry: Entry, looked_at: Sequence[Any] = (), *, soon: bool = False) -> None:
        """Put an entry on record, and tell readers of it once it is. `soon`: together with the next, if that comes at once."""
        if self.fork:
            entry["fork"] = self.fork
        shown, then = self.declared.entry(entry), None
        if self.feed.readers:
            held = self.feed.hold(entries.events_of(shown, self._log.count + 1, self.thread, self.number))
            then = partial(self.feed.release, held)
        text = self.declared.text(text)
        self._log.write(text, entry, looked_at=looked_at, shown=shown, then=then, soon=soon)

    async def flush(self) -> None:
        await self._log.flush()

    async def make_sure(self, started: float, since: float) -> None:
        """Who was away, by the clock or by the date, may have lost the turn, as a process that was stopped or a machine that slept:
        what was written is durable before anything follows from it. Else the order in which the store takes it is enough."""
        clock = self.clock
        if clock.monotonic() - started > _AWAY or clock.now() - since > _AWAY:
            await self.flush()

    async def sent(self) -> None:
        """Wait until no call that is made now can be durable before what was written."""
        await self._log.sent()

    @property
    def stopping(self) -> str | None:
        return self._log.stopping

    def leave_if_closing(self) -> None:
        """The runtime takes no more calls: whoever opens the store next goes on from here."""
        if self.host.closing:
            self._log.hand_back()
        self.leave_if_lost()

    @property
    def must_stop(self) -> bool:
        """Somebody stopped the turn while nobody had it."""
        return self._log.must_stop

    def give_in(self) -> NoReturn:
        self._log.give_in()

    def waits(self) -> None:
        """A person is waited for."""
        self._log.waits(f"Step {self.steps}: waits for an approval.")

    @property
    def lost(self) -> bool:
        """Another process took the turn over, because this one did not stir for too long."""
        return self._log.lost

    def leave_if_lost(self) -> None:
        if self._log.lost:
            raise Taken(f"turn {self.number} of thread {self.thread!r} is in the hands of another process now.")

    def recorded(self, kind: str) -> Entry | None:
        """The entry of a kind that a turn has once."""
        return next((entry for entry in self._log.entries if entry.get("e") == kind), None)

    # Answers of the model.

    def known_reply(self) -> ChatMessage | None:
        """The next answer that is on record already: it was paid for once."""
        if not self._replies:
            return None
        entry = self._replies.popleft()
        self.spent.ahead -= 1
        message = entries.message_of(entry)
        self.declared.take(message.uses)
        if entry.get("masked"):
            self.unreadable.update(use.id for use in message.uses if MASK in use.arguments)
        self._take(message, entries.usage_of(entry["usage"]), float(entry["took"]))
        return message

    def new_reply(self, reply: ChatReply, took: float) -> ChatMessage:
        step, usage = self.steps + 1, counted(reply.usage)
        message = said(reply, f"{self.mark}.{step}", self._ids, keep=not self.fork)
        self._take(message, usage, took)
        self.declared.take(message.uses)
        now = self.clock.now()
        mark, tag = (self.mark, self.tag) if self.journaled else ("", "")
        entry = entries.reply(mark, step, message, usage, took, now, self.spent.usage, tag)
        asked = ", ".join(use.name for use in message.uses[:5]) or "nothing: it answers"
        asked_for = (text for use in message.uses for text in (use.id, use.name, use.arguments))
        texts = (message.content, message.thought, message.vendor, *asked_for)
        self.write(f"Step {step}: the model asks for {asked}.", entry, texts)
        return message

    def say(self, text: str, uses: Sequence[ToolUse] = ()) -> ChatMessage:
        """An answer that no model gave: put it on record as a step of the turn, or return the one that is on record."""
        known = self.known_reply()
        if known is None:
            self.leave_if_closing()
            return self.new_reply(ChatReply(text=text, uses=tuple(uses)), 0.0)
        asked, on_record = [use.name for use in uses], [use.name for use in known.uses]
        if asked != on_record:
            names = ", ".join(repr(name) for name in on_record) or "an answer"
            raise UsageError(
                f"step {self.steps} of turn {self.number} asks for {', '.join(asked) or 'an answer'}, but {names} is on record. "
                "A drive must do the same when it runs again; end this turn with agent.stop(thread)."
            )
        return known

    def _take(self, message: ChatMessage, usage: Usage, took: float) -> None:
        self.messages.append(message)
        self._ids.update(use.id for use in message.uses)
        self.steps += 1
        self.spent.steps += 1
        self.spent.usage = self.spent.usage + usage
        self.spent.seconds += took

    # Answers of tools.

    def known_results(self) -> dict[str, Entry]:
        """What is on record of this step's tool calls, by the ids of the calls as the model knows them."""
        found: dict[str, Entry] = {}
        for entry in self._results.get(self.steps, ()):
            self.spent.seconds += float(entry["took"])
            found.update((item["id"], item) for item in entry["items"])
        return found

    def new_results(self, items: list[Entry], took: float) -> None:
        """Put answers on record; `add_results` makes messages of them once all are there."""
        self.spent.seconds += took
        step = self.steps
        failed = sum(1 for item in items if item["failed"])
        text = f"Step {step}: {len(items) - failed} of {len(items)} tool calls succeeded."
        # Whoever takes the turn up finds the calls themselves: this may wait for the answer that follows.
        self.write(text, entries.results(step, items, took, self.clock.now()), soon=True)

    def add_results(self, message: ChatMessage, found: dict[str, Entry]) -> None:
        for use in message.uses:
            item = found[use.id]
            self.messages.append(ChatMessage(role="tool", content=item["text"], use_id=use.id, failed=item["failed"]))

    def show_plan(self, body: Entry) -> None:
        """Put a state of the plan on record, and tell readers: once, also if it is come by again after a crash."""
        self.plan = body
        if self._plans:
            self._plans.popleft()
        else:
            done = sum(step["status"] == "completed" for step in body["steps"])
            entry = entries.plan(self.steps, body, self.clock.now())
            self.write(f"The plan: {done} of {len(body['steps'])} steps are completed.", entry, _texts(body))

    # Told, and forgotten.

    def tell(self, type: AgentEventType, **data: Any) -> None:
        if self.feed.readers:
            self.feed.tell(
                AgentEvent(
                    type=type, thread=self.thread, turn=self.number, at=self.clock.now(),
                    step=self.steps + 1 if type in ("delta", "retry") else self.steps,
                    data={**data, "fork": self.fork} if self.fork else data,
                )
            )  # fmt: skip

    def call_id(self, number: int, use: ToolUse) -> str:
        """Of a tool call of this step: the same in every process that takes the turn up."""
        return entries.call_id(self.mark, self.tag, self.steps, number, use.id)

    def counted(self, use: ToolUse) -> tuple[Stopped, str] | None:
        """Count a tool call; or why it may not be made, and the run ends. In the order of the calls, whether they are on record or
        new, so that it comes out the same after a crash."""
        spent, limits = self.spent, self.limits
        if limits.max_calls is not None and spent.calls >= limits.max_calls:
            return "budget", f"Terminated: Reached the budget of tool calls ({limits.max_calls})"
        if limits.max_repeats is not None:
            key = _spelt(use)
            if self.repeats[key] >= limits.max_repeats:
                times = limits.max_repeats
                return "repeated", f"Terminated: Repeated {use.name!r} with the same arguments over {times} times"
            self.repeats[key] += 1
        spent.calls += 1
        return None

    # Sub-tasks.

    def over(self) -> tuple[Stopped, str] | None:
        """Why the model may not be asked once more."""
        if self._replies:  # it was asked before the crash, so it might
            return None
        if self.max_steps is not None and self.steps >= self.max_steps:
            return "max_steps", f"Terminated: Reached max steps ({self.max_steps})"
        return self.spent.over(self.limits)

    def forked(self, name: str, message: str, max_steps: int) -> Turn:
        """A line of thought of its own that begins with all that is known here; it spends what the turn has."""
        fork = Turn(
            self.host, self._log, self.feed,
            thread=self.thread, number=self.number, mark=f"{self.mark}.{name}", message=message,
            history=self.messages, limits=self.limits, tag=self.tag, fork=name, spent=self.spent, declared=self.declared,
        )  # fmt: skip
        fork.max_steps = max_steps
        return fork

    def merge(self, fork: Turn) -> None:
        """Take over what a fork said and heard."""
        self.messages += paired(fork.messages[fork.begins :])
        self._ids |= fork._ids


def _spelt(use: ToolUse) -> tuple[str, bytes]:
    """Equal for calls of one tool with the same arguments, however they are written."""
    try:
        return use.name, canonical(decode(use.arguments or "{}"))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return use.name, use.arguments.encode("utf-8", "backslashreplace")


def _texts(plan: Entry) -> list[str]:
    return [plan["title"], *(text for step in plan["steps"] for text in (step["text"], step["notes"]))]
