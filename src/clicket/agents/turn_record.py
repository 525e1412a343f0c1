"""What is on record of a turn: a fold of its entries, one by one, in order.

The process that begins or continues a turn, and all who read one, read it here: so to resume a turn is to fold its entries.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from clicket.agents import entries
from clicket.agents.background import news_message
from clicket.agents.entries import Entry
from clicket.agents.turn_limits import Limits, Repeats, Spent
from clicket.model.chat import ChatMessage, Usage

__all__ = ["Branch", "Replay", "Reply", "Summary", "TurnRecord", "begun_in", "plan_in"]


def begun_in(found: Iterable[Entry]) -> Entry | None:
    """`TurnRecord.begun`, for a reader that needs no more: a turn may have thousands of entries."""
    return next((entry for entry in found if entry.get("e") == "begun"), None)


def plan_in(found: Sequence[Entry]) -> Entry | None:
    """`TurnRecord.plan`, for a reader that needs no more."""
    return next((entry["plan"] for entry in reversed(found) if entry.get("e") == "plan"), None)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the model. `mark` and `tag` make the ids of the calls that it asks for; without a mark they are no calls."""

    step: int
    message: ChatMessage
    usage: Usage
    took: float
    mark: str
    tag: str
    fork: str
    spend: dict[str, Any] | None
    """What the ledger needs to count it."""
    is_masked: bool
    """Its arguments were recorded masked, and cannot be restored."""

    def call_ids(self) -> Iterator[str]:
        for place, use in enumerate(self.message.uses, start=1):
            yield entries.call_id(self.mark, self.tag, self.step, place, use.id)


class Summary(msgspec.Struct, frozen=True):
    """What a summary of old messages has used, which was written after this step."""

    step: int
    spend: dict[str, Any]
    usage: Usage


class Branch:
    """The turn without its forks, or one of these."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.results: defaultdict[int, list[Entry]] = defaultdict(list)
        """The entries `results`, by step: results that came while others of their step ran were recorded at once."""
        self.news: defaultdict[int, list[Entry]] = defaultdict(list)
        """The items of the entries `news`, by the step after which the model reads them."""
        self.plans = 0
        """How many states of the plan."""

    @property
    def tag(self) -> str | None:
        """Of the ids of its calls; None: no reply on record asks for one."""
        return next((reply.tag for reply in self.replies if reply.mark), None)


class Replay:
    """The part of a branch that a turn which runs again has not come to yet."""

    def __init__(self, branch: Branch) -> None:
        self.replies = deque(branch.replies)
        self.news = dict(branch.news)
        self.plans = branch.plans
        self.last: Reply | None = None
        """The reply that the turn came to last."""

    def next(self) -> Reply | None:
        self.last = self.replies.popleft() if self.replies else None
        return self.last


class TurnRecord:
    def __init__(self, found: Iterable[Entry] = ()) -> None:
        self.is_empty = True
        self.begun: Entry | None = None
        self.changed_to: str = ""
        """The digest of the agent that continued it last, if it was another one than before."""
        self.ended: Entry | None = None
        self.plan: Entry | None = None
        """Its last state."""
        self.replies: list[Reply] = []
        """Of the turn and its forks."""
        self.summaries: list[Summary] = []
        self._branches: defaultdict[str, Branch] = defaultdict(Branch)
        self._with_results: set[str] = set()
        self._messages: list[ChatMessage] = []
        for entry in found:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """The next entry. One of an unknown kind, which a later version may write, is passed over."""
        self.is_empty = False
        fork = str(entry.get("fork", ""))
        match entry.get("e"):
            case "begun":
                self.begun = self.begun or entry
            case "changed":
                self.changed_to = str(entry.get("digest"))
            case "reply":
                self._add_reply(entry, fork)
            case "summary":
                usage = entries.usage_of(entry.get("usage"))
                self.summaries.append(Summary(int(entry.get("step", 0)), entry.get("spend", {}), usage))
            case "results":
                self._branches[fork].results[entry["step"]].append(entry)
                self._with_results.update(item["call"] for item in entry["items"])
                self._read(fork, entries.results_of(entry))
            case "news":
                self._branches[fork].news[entry["step"]] += entry["items"]
                self._read(fork, map(news_message, entry["items"]))
            case "plan":
                self.plan = entry["plan"]
                self._branches[fork].plans += 1
            case "ended":
                self.ended = self.ended or entry

    def _add_reply(self, entry: Entry, fork: str) -> None:
        reply, spend = entries.message_of(entry), entry.get("spend")
        made = Reply(
            step=int(entry.get("step", 0)), message=reply, usage=entries.usage_of(entry.get("usage")), took=float(entry.get("took", 0.0)),
            mark=str(entry.get("mark") or ""), tag=str(entry.get("tag") or ""), fork=fork,
            spend=spend if type(spend) is dict else None, is_masked=bool(entry.get("masked")),
        )  # fmt: skip
        self.replies.append(made)
        self._branches[fork].replies.append(made)
        self._read(fork, (reply,))

    def _read(self, fork: str, messages: Iterable[ChatMessage]) -> None:
        if not fork:  # messages of concurrent forks are not one transcript
            self._messages += messages

    # Reading.

    def branch(self, fork: str) -> Branch:
        return self._branches[fork]

    @property
    def messages(self) -> list[ChatMessage]:
        """The transcript after the user's message, without that of forks."""
        return list(self._messages)

    @property
    def usage(self) -> Usage:
        """Of all replies and summaries."""
        return sum((*(reply.usage for reply in self.replies), *(summary.usage for summary in self.summaries)), Usage())

    def calls(self, limits: Limits) -> int:
        """How many tool calls the replies made: those that the limits allow. A planner's only change its plan."""
        spent, repeats = Spent(), defaultdict[str, Repeats](Counter)
        for reply in self.replies:
            if reply.mark:
                for use in reply.message.uses:
                    spent.count_call(use, limits, repeats[reply.fork])
        return spent.calls

    def open_calls(self) -> list[str]:
        """Ids of calls that replies ask for, of which no result is recorded. Some may not have been made."""
        asked = (id for reply in self.replies if reply.mark for id in reply.call_ids())
        return [id for id in asked if id not in self._with_results]
