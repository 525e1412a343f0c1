"""The fold of a turn's entries: what the process reads that goes on with a turn, and what its readers get."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clicket.agents import entries
from clicket.agents.entries import Entry
from clicket.agents.turn_limits import Limits
from clicket.agents.turn_record import Replay, TurnRecord, begun_in, plan_in
from clicket.model.chat import ChatMessage, ToolUse, Usage

USAGE = Usage(input_tokens=3, output_tokens=2)


def reply(step: int, *tools: str, mark: str = "react.1", fork: str = "", text: str = "") -> Entry:
    uses = tuple(ToolUse(id=f"u{step}{place}", name=name, arguments="{}") for place, name in enumerate(tools))
    message = ChatMessage(role="assistant", content=text, uses=uses)
    entry = entries.reply(mark, step, message, USAGE, 0.5, 0.0, USAGE, "tag" if mark else "")
    return {**entry, "fork": fork} if fork else entry


def results(made: Entry, fork: str = "") -> Entry:
    (answered,) = TurnRecord([made]).replies
    uses = zip(answered.message.uses, answered.call_ids(), strict=True)
    items = [entries.succeeded(use, call, "done") for use, call in uses]
    entry = entries.results(made["step"], items, 0.1, 0.0)
    return {**entry, "fork": fork} if fork else entry


FIRST, SECOND = reply(1, "pay", "look"), reply(2, text="Done.")
WHOLE: list[Entry] = [
    entries.begun(1, "go", [], 0.0), FIRST, entries.summary(1, USAGE, {"nano": 1}, 0.0), results(FIRST),
    entries.news(1, [entries.succeeded(ToolUse(id="b", name="film", arguments="{}"), "c9", "a film")], 0.0),
    entries.plan(1, {"title": "t", "steps": []}, 0.0), reply(1, "pay", mark="react.1.f", fork="f"), SECOND,
    entries.changed({"tools": {}}, "digest", 0.0), {"e": "of a later version", "step": 2},
]  # fmt: skip


def test_what_is_on_record_of_a_turn() -> None:
    record = TurnRecord(WHOLE)
    assert (record.begun, record.ended, record.changed_to) == (WHOLE[0], None, "digest")
    assert [message.role for message in record.messages] == ["assistant", "tool", "tool", "user", "assistant"]
    assert (len(record.replies), record.usage, record.calls(Limits())) == (3, USAGE + USAGE + USAGE + USAGE, 3)
    assert record.plan == {"title": "t", "steps": []}
    (fork,) = record.branch("f").replies
    assert record.open_calls() == list(fork.call_ids()), "those of the first reply have results"
    assert (record.branch("").tag, record.branch("none").tag) == ("tag", None)


def test_a_reader_that_needs_one_entry_gets_what_the_fold_has() -> None:
    for found in (WHOLE, WHOLE[1:], WHOLE[:1], [*WHOLE, entries.plan(2, {"title": "later", "steps": []}, 0.0)]):
        record = TurnRecord(found)
        assert (begun_in(found), plan_in(found)) == (record.begun, record.plan)


def test_a_turn_that_runs_again_comes_to_each_reply_once() -> None:
    replay = Replay(TurnRecord(WHOLE).branch(""))
    assert [replay.next(), replay.next(), replay.next()] == [*TurnRecord(WHOLE).branch("").replies, None]
    assert replay.last is None


def shown(record: TurnRecord) -> Any:
    branches = [vars(record.branch(fork)) for fork in ("", "f")]
    return {**{name: value for name, value in vars(record).items() if name != "_branches"}, "branches": branches}


@given(st.integers(0, len(WHOLE)))
def test_to_go_on_with_a_fold_is_to_fold_all(at: int) -> None:
    record = TurnRecord(WHOLE[:at])
    for entry in WHOLE[at:]:
        record.add(entry)
    assert shown(record) == shown(TurnRecord(WHOLE))
