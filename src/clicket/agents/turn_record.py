"""What is on record of a turn: a fold of its entries, one by one, in order.

The process that begins or continues a turn, and all who read one, read it here: so to resume a turn is to fold its entries.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any

from clicket.agents.background import news_message, result_message
from clicket.agents.entries import (
    Answer,
    Asked,
    Begun,
    Changed,
    Decision,
    Ended,
    Entry,
    HandedOver,
    Heard,
    Held,
    News,
    PlanState,
    Reply,
    Result,
    Results,
    Summary,
    Tried,
    UndoneCalls,
    entry_of,
)
from clicket.agents.handoff import note_message
from clicket.agents.turn_limits import Limits, Repeats, Spent
from clicket.agents.undone import undone_message
from clicket.agents.verdicts import Change, Edit, Refuse, verdict_in
from clicket.model.chat import ChatMessage, Usage

__all__ = ["Branch", "Place", "Replay", "TurnRecord", "begun_in", "note_of", "plan_in"]


def begun_in(found: Iterable[dict[str, Any]]) -> Begun | None:
    """`TurnRecord.begun`, for a reader that needs no more: a turn may have thousands of entries, of which no others are decoded."""
    some = (entry_of(raw) for raw in found if raw.get("e") == "begun")
    return next((entry for entry in some if isinstance(entry, Begun)), None)


def plan_in(found: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """`TurnRecord.plan`, for a reader that needs no more."""
    some = (entry_of(raw) for raw in reversed(found) if raw.get("e") == "plan")
    return next((entry.plan for entry in some if isinstance(entry, PlanState)), None)


def note_of(entry: HandedOver) -> ChatMessage:
    """What the agent reads to which it was handed."""
    return note_message(entry.agent, entry.by, entry.reason, entry.history)


Place = tuple[int, str, str, str]
"""Step, method, middleware and tool call of a decision."""


class Branch:
    """The turn without its branches, or one of these."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.results: defaultdict[int, list[Results]] = defaultdict(list)
        """By step: results that came while others of their step ran were recorded at once."""
        self.news: defaultdict[int, list[Result]] = defaultdict(list)
        """By the step after which the model reads them."""
        self.plans = 0
        """How many states of the plan."""
        self.decisions: dict[Place, Any] = {}
        self.heard: defaultdict[int, list[Heard]] = defaultdict(list)
        """By the step whose request has them."""
        self.answers: dict[int, Answer] = {}
        """By step."""
        self.held: dict[int, Held] = {}
        """By step: replies about which a person was asked."""
        self.handoffs: dict[int, HandedOver] = {}
        """By step."""

    @property
    def tag(self) -> str | None:
        """Of the ids of its calls; None: no reply on record asks for one."""
        return next((reply.tag for reply in self.replies if reply.mark), None)


class Replay:
    """The part of a branch that a turn which runs again has not come to yet."""

    def __init__(self, branch: Branch, *, is_resumed: bool) -> None:
        self.must_restart = is_resumed
        """Readers may have pieces of an answer that is not on record."""
        self.replies = deque(branch.replies)
        self.news = dict(branch.news)
        self.heard = dict(branch.heard)
        self.plans = branch.plans
        self.last: Reply | None = None
        """The reply that the turn came to last."""

    def next(self) -> Reply | None:
        self.last = self.replies.popleft() if self.replies else None
        return self.last


class TurnRecord:
    def __init__(self, found: Iterable[dict[str, Any]] = ()) -> None:
        """`found`: the entries as they are stored."""
        self.is_empty = True
        self.begun: Begun | None = None
        self.agent: str = ""
        """That drives it, if it was handed over."""
        self.changed_to: dict[str, str] = {}
        """The digests of the agents that continued it last, if they were other ones than before, by name. The name of the agent that began
        it is empty."""
        self.ended: Ended | None = None
        self.plan: dict[str, Any] | None = None
        """Its last state."""
        self.replies: list[Reply] = []
        """Of the turn and its branches."""
        self.summaries: list[Summary] = []
        self.heard: list[str] = []
        """Ids of messages that came while it ran."""
        self.unused: list[Tried] = []
        """Answers of models of a chain that were not used, and cost something."""
        self.called: Usage | None = None
        """Of agents that it called, if that counts towards a limit."""
        self.undone: UndoneCalls | None = None
        """What it read of calls that were undone."""
        self._branches: defaultdict[str, Branch] = defaultdict(Branch)
        self.message: str | None = None
        """What models read as the caller's message, if a check has changed it; empty if it was refused."""
        self._asked: dict[tuple[str, Place | str], str] = {}
        """Calls that ask a person: about a text, without the decision; to raise a budget."""
        self._with_results: set[str] = set()
        self._messages: list[ChatMessage] = []
        for raw in found:
            self.add(entry_of(raw))

    def add(self, entry: Entry) -> None:  # noqa: C901, PLR0912  # a case for each kind of entry
        """The next entry. One that is `Unknown` is passed over."""
        self.is_empty = False
        branch = self._branches[entry.branch]
        match entry:
            case Begun():
                self.begun = self.begun or entry
            case HandedOver():
                self.agent = entry.agent
                branch.handoffs[entry.step] = entry
                self._read(entry.branch, (note_of(entry),) if entry.use else ())
            case Changed():
                self.changed_to[entry.agent] = entry.digest
            case Asked():
                self._asked[entry.branch, entry.call] = entry.call
            case Reply():
                self.replies.append(entry)
                branch.replies.append(entry)
                self._read(entry.branch, (entry.message,) if entry.refused is None else ())
            case Heard():
                self.heard.append(entry.id)
                branch.heard[entry.step].append(entry)
                self._read(entry.branch, (ChatMessage(role="user", content=entry.text, files=tuple(entry.files)),))
            case Answer():
                branch.answers[entry.step] = entry
            case Decision():
                self._decided(entry, branch)
            case Held():
                branch.held[entry.step] = entry
            case UndoneCalls():
                self.undone = entry
                self._read(entry.branch, (undone_message(entry.items),))
            case Summary():
                self.summaries.append(entry)
            case Tried():
                if entry.spend is not None:
                    self.unused.append(entry)
            case Results():
                branch.results[entry.step].append(entry)
                self._with_results.update(item.call for item in entry.items)
                self._count_called(entry.items)
                self._read(entry.branch, map(result_message, entry.items))
            case News():
                branch.news[entry.step] += entry.items
                self._count_called(entry.items)
                self._read(entry.branch, map(news_message, entry.items))
            case PlanState():
                self.plan = entry.plan
                branch.plans += 1
            case Ended():
                self.ended = self.ended or entry

    def _count_called(self, items: Iterable[Result]) -> None:
        for item in items:
            if item.usage is not None:
                self.called = item.usage + (self.called or Usage())

    def _decided(self, entry: Decision, branch: Branch) -> None:
        place = (entry.step, entry.on, entry.by, entry.use)
        branch.decisions[place] = entry.value
        if entry.call:
            self._asked[entry.branch, place] = entry.call
        else:
            self._asked.pop((entry.branch, place), None)
        if entry.on in ("before_model", "input"):
            match verdict_in(entry.value):
                case Edit() as edit:
                    self._read(entry.branch, edit.add)
                case Change(str() as text) if entry.on == "input":
                    self.message = text
                case Refuse() if entry.on == "input":
                    self.message = ""

    def _read(self, branch: str, messages: Iterable[ChatMessage]) -> None:
        if not branch:  # messages of concurrent branches are not one transcript
            self._messages += messages

    # Reading.

    def branch(self, branch: str) -> Branch:
        return self._branches[branch]

    @property
    def messages(self) -> list[ChatMessage]:
        """The transcript after the user's message, without that of branches."""
        return list(self._messages)

    @property
    def usage(self) -> Usage:
        """Of all replies and summaries, and of answers that were not used."""
        counted: list[Reply | Summary | Tried] = [*self.replies, *self.summaries, *self.unused]
        return sum((each.usage for each in counted), Usage())

    def calls(self, limits: Limits) -> int:
        """How many tool calls the replies made: those that the limits allow. A planner's only change its plan."""
        spent = Spent()
        repeats = defaultdict[str, Repeats](Counter)
        for reply in self.replies:
            if reply.mark:
                for use in reply.message.uses:
                    spent.count_call(use, limits, repeats[reply.branch])
        return spent.calls

    def has_asked(self, call: str) -> bool:
        """Does this call ask a person to raise a budget?"""
        return call in self._asked.values()

    def open_calls(self) -> list[str]:
        """Ids of calls that replies ask for, of which no result is recorded. Some may not have been made."""
        asked = (id for reply in self.replies if reply.mark for id in reply.call_ids())
        return [*(id for id in asked if id not in self._with_results), *self._asked.values()]
