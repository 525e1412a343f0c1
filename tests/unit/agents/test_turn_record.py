"""The fold of a turn's entries: what the process reads that goes on with a turn, and what its readers get."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from clicket.agents.entries import Begun, Changed, Entry, News, PlanState, Reply, Result, Results, Summary, entry_of
from clicket.agents.turn_limits import Limits
from clicket.agents.turn_record import Replay, TurnRecord, begun_in, plan_in
from clicket.model.chat import ChatMessage, ToolUse, Usage

USAGE = Usage(input_tokens=3, output_tokens=2)


def reply(step: int, *tools: str, mark: str = "react.1", branch: str = "", text: str = "") -> Reply:
    uses = tuple(ToolUse(id=f"u{step}{place}", name=name, arguments="{}") for place, name in enumerate(tools))
    message = ChatMessage(role="assistant", content=text, uses=uses)
    tag = "tag" if mark else ""
    entry = Reply.of(message, mark=mark, tag=tag, step=step, usage=USAGE, total=USAGE, took=0.5, at=0.0)
    return replace(entry, branch=branch)


def results(made: Reply) -> Results:
    uses = zip(made.message.uses, made.call_ids(), strict=True)
    return Results(step=made.step, items=[Result.of(use, call, "done") for use, call in uses], took=0.1)


FIRST, SECOND = reply(1, "pay", "look"), reply(2, text="Done.")
MADE: list[Entry] = [
    Begun(turn=1, message="go"), FIRST, Summary(step=1, usage=USAGE, spend={"nano": 1}), results(FIRST),
    News(step=1, items=[Result.of(ToolUse(id="b", name="film", arguments="{}"), "c9", "a film")]),
    PlanState(step=1, plan={"title": "t", "steps": []}), reply(1, "pay", mark="react.1.f", branch="f"), SECOND,
    Changed(what={"tools": {}}, digest="digest"),
]  # fmt: skip
WHOLE: list[dict[str, Any]] = [*map(to_builtins, MADE), {"e": "of a later version", "step": 2}]


def test_what_is_on_record_of_a_turn() -> None:
    record = TurnRecord(WHOLE)
    assert (record.begun, record.ended, record.changed_to) == (MADE[0], None, {"": "digest"})
    assert [message.role for message in record.messages] == ["assistant", "tool", "tool", "user", "assistant"]
    assert (len(record.replies), record.usage, record.calls(Limits())) == (3, USAGE + USAGE + USAGE + USAGE, 3)
    assert record.plan == {"title": "t", "steps": []}
    (branch,) = record.branch("f").replies
    assert record.open_calls() == list(branch.call_ids()), "those of the first reply have results"
    assert (record.branch("").tag, record.branch("none").tag) == ("tag", None)


def test_a_reader_that_needs_one_entry_gets_what_the_fold_has() -> None:
    for found in (WHOLE, WHOLE[1:], WHOLE[:1], [*WHOLE, to_builtins(PlanState(plan={"title": "later"}))]):
        record = TurnRecord(found)
        assert (begun_in(found), plan_in(found)) == (record.begun, record.plan)


def test_a_turn_that_runs_again_comes_to_each_reply_once() -> None:
    replay = Replay(TurnRecord(WHOLE).branch(""), is_resumed=True)
    assert [replay.next(), replay.next(), replay.next()] == [*TurnRecord(WHOLE).branch("").replies, None]
    assert replay.last is None


def shown(record: TurnRecord) -> Any:
    branches = [vars(record.branch(branch)) for branch in ("", "f")]
    return {**{name: value for name, value in vars(record).items() if name != "_branches"}, "branches": branches}


@given(st.integers(0, len(WHOLE)))
def test_to_go_on_with_a_fold_is_to_fold_all(at: int) -> None:
    record = TurnRecord(WHOLE[:at])
    for raw in WHOLE[at:]:
        record.add(entry_of(raw))
    assert shown(record) == shown(TurnRecord(WHOLE))
