"""One turn while it runs. Whatever it does goes on record before anything follows from it; after a crash the same code runs again,
and is given what is on record instead of doing it again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from clicket.agents import entries
from clicket.agents.feed import Feed
from clicket.agents.limits import Limits, Spent
from clicket.agents.transcript import said
from clicket.agents.values import AgentEvent, AgentEventType
from clicket.execution import TurnLog
from clicket.model.chat import ChatMessage, ChatReply, Usage
from clicket.ports import AgentHost

__all__ = ["Turn"]

Entry = dict[str, Any]


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
    ) -> None:
        self.host = host
        self.thread = thread
        self.number = number
        self.mark = mark
        self.limits = limits
        self.spent = Spent()
        self.messages: list[ChatMessage] = [*history, ChatMessage(role="user", content=message)]
        self.begins = len(history)
        self.plan: Entry | None = None
        self.resumed = bool(log.entries)
        self.feed = feed
        self._log = log
        self._count = len(log.entries)
        self._replies: deque[Entry] = deque(entry for entry in log.entries if entry.get("e") == "reply")
        self._results: dict[int, list[Entry]] = {}
        for entry in log.entries:
            if entry.get("e") == "results":
                self._results.setdefault(entry["step"], []).append(entry)
        self._ids = {use.id for message in history for use in message.uses}

    # On record.

    def write(self, text: str, entry: Entry, looked_at: Sequence[str] = ()) -> None:
        """Put an entry on record, and tell readers of it once it is."""
        self._count += 1
        if self.feed.readers:
            held = self.feed.hold(entries.events_of(entry, self._count, self.thread, self.number))
            self._log.write(text, entry, looked_at=looked_at, then=lambda: self.feed.release(held))
        else:
            self._log.write(text, entry, looked_at=looked_at)

    async def flush(self) -> None:
        await self._log.flush()

    @property
    def stopping(self) -> str | None:
        return self._log.stopping

    def leave_if_closing(self) -> None:
        """The runtime takes no more calls: whoever opens the store next goes on from here."""
        if self.host.closing:
            self._log.hand_back()

    def recorded(self, kind: str) -> Entry | None:
        """The entry of a kind that a turn has once."""
        return next((entry for entry in self._log.entries if entry.get("e") == kind), None)

    # Answers of the model.

    def known_reply(self) -> ChatMessage | None:
        """The next answer that is on record already: it was paid for once."""
        if not self._replies:
            return None
        entry = self._replies.popleft()
        message = entries.message_of(entry)
        self._take(message, entries.usage_of(entry["usage"]), float(entry["took"]))
        return message

    def new_reply(self, reply: ChatReply, took: float) -> ChatMessage:
        step = self.spent.steps + 1
        message = said(reply, f"{self.mark}.{step}", self._ids)
        self._take(message, reply.usage, took)
        now = self.host.clock.now()
        entry = entries.reply(self.mark, step, message, reply.usage, took, now, self.spent.usage)
        asked = ", ".join(use.name for use in message.uses[:5]) or "nothing: it answers"
        texts = (message.content, message.thought, *(use.arguments for use in message.uses))
        self.write(f"Step {step}: the model asks for {asked}.", entry, texts)
        return message

    def _take(self, message: ChatMessage, usage: Usage, took: float) -> None:
        self.messages.append(message)
        self._ids.update(use.id for use in message.uses)
        self.spent.steps += 1
        self.spent.usage = self.spent.usage + usage
        self.spent.seconds += took

    # Answers of tools.

    def known_results(self) -> dict[str, Entry]:
        """What is on record of this step's tool calls, by the ids of the calls as the model knows them."""
        found: dict[str, Entry] = {}
        for entry in self._results.get(self.spent.steps, ()):
            self.spent.seconds += float(entry["took"])
            found.update((item["id"], item) for item in entry["items"])
        return found

    def new_results(self, items: list[Entry], took: float) -> None:
        """Put answers on record; `add_results` makes messages of them once all are there."""
        self.spent.seconds += took
        step = self.spent.steps
        failed = sum(1 for item in items if item["failed"])
        text = f"Step {step}: {len(items) - failed} of {len(items)} tool calls succeeded."
        self.write(text, entries.results(step, items, took, self.host.clock.now()))

    def add_results(self, message: ChatMessage, found: dict[str, Entry]) -> None:
        for use in message.uses:
            item = found[use.id]
            self.messages.append(ChatMessage(role="tool", content=item["text"], use_id=use.id, failed=item["failed"]))

    # Told, and forgotten.

    def tell(self, type: AgentEventType, **data: Any) -> None:
        if self.feed.readers:
            self.feed.tell(
                AgentEvent(
                    type=type, thread=self.thread, turn=self.number, at=self.host.clock.now(),
                    step=self.spent.steps + 1 if type in ("delta", "retry") else self.spent.steps, data=data,
                )
            )  # fmt: skip

    def call_id(self, number: int) -> str:
        """Of a tool call of this step: the same in every process that takes the turn up."""
        return f"{self.mark}.{self.spent.steps}.{number}"


Drive = Callable[[Turn], Any]
