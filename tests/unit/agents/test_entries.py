"""Entries of a turn become the same events each time, with ids at which a reader can resume; live events keep their order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.agents.agent_result import AgentEvent
from clicket.agents.background import result_message
from clicket.agents.entries import (
    Begun,
    Change,
    Changed,
    Ended,
    Entry,
    HandedOver,
    News,
    PlanState,
    Reply,
    Result,
    Results,
    Summary,
    Unknown,
    entry_of,
    events_of,
)
from clicket.agents.event_feed import EventFeed, FeedReader
from clicket.agents.event_stream import position_of
from clicket.agents.turn_limits import Limits
from clicket.agents.turn_record import TurnRecord
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, ToolUse, Usage
from clicket.model.codec import decode, encode

NONE = Usage()
IDLE, RUNNING, FINISHED, ERROR = AgentState.IDLE, AgentState.RUNNING, AgentState.FINISHED, AgentState.ERROR
USES = st.lists(st.builds(ToolUse, id=st.text(min_size=1), name=st.text(), arguments=st.text()), max_size=3).map(tuple)


def kinds(entry: Entry) -> list[str]:
    return [event.type for event in events_of(entry, 1, "t", 1)]


def reply(message: ChatMessage, *, mark: str = "m", step: int = 1, usage: Usage = NONE, total: Usage = NONE) -> Reply:
    return Reply.of(message, mark=mark, tag="t", step=step, usage=usage, total=total, took=0.5, at=6.0)


def test_the_events_of_each_entry() -> None:
    begun = Begun(turn=3, message="hi", states=[Change(ERROR, IDLE), Change(IDLE, RUNNING)], at=5.0)
    seen = events_of(begun, 1, "t", 3)
    assert [(e.type, e.id, e.thread, e.turn, e.at) for e in seen] == [
        ("state", "3-1.1", "t", 3, 5.0),
        ("state", "3-1.2", "t", 3, 5.0),
        ("message", "3-1.3", "t", 3, 5.0),
    ]
    assert [e.data for e in seen[:2]] == [{"from": "error", "to": "idle"}, {"from": "idle", "to": "running"}]
    assert seen[2].data == {"role": "user", "text": "hi"}
    message = ChatMessage(role="assistant", content="hm", thought="well", uses=(ToolUse(id="u", name="x"),))
    asks = reply(message, mark="react.3", step=2, usage=Usage(input_tokens=1), total=Usage(input_tokens=4))
    assert kinds(asks) == ["thought", "usage", "message", "tool_started"]
    started = events_of(asks, 1, "t", 1)[-1]
    assert (started.step, started.data["call_id"]) == (2, "u:react.3.2.1~t")
    assert kinds(reply(ChatMessage(role="assistant"))) == ["usage", "message"]
    silent = ChatMessage(role="assistant", uses=(ToolUse(id="u", name="x"),))
    assert kinds(reply(silent)) == ["usage", "tool_started"]
    item = Result.of(ToolUse(id="u", name="x"), "m.1.1", "no", failed=True, code="tool_error")
    result = events_of(Results(step=2, items=[item], took=0.1), 4, "t", 1)
    assert [(e.type, e.step, e.data["success"], e.data["code"]) for e in result] == [
        ("tool_result", 2, False, "tool_error")
    ]
    ended = Ended(state=FINISHED, stopped="finished", text="done", steps=2, calls=1, usage=Usage())
    assert kinds(ended) == ["state", "final"]
    broken = Ended(state=ERROR, stopped="", text="", steps=0, calls=0, usage=Usage(), error="broken")
    assert kinds(broken) == ["state", "error"]


@given(st.text(), USES, st.text())
def test_an_answer_is_the_same_message_after_it_was_on_record(
    text: str, uses: tuple[ToolUse, ...], thought: str
) -> None:
    message = ChatMessage(role="assistant", content=text, uses=uses, thought=thought, vendor={"x": [1]})
    entry = reply(message, usage=Usage(output_tokens=3, cost=0.5))
    again = entry_of(decode(encode(entry)))
    assert again == entry
    assert isinstance(again, Reply)
    assert again.message == message
    items = [Result.of(use, "c", use.arguments, failed=place % 2 == 0) for place, use in enumerate(uses)]
    answers = entry_of(decode(encode(Results(items=items, took=0.0))))
    assert isinstance(answers, Results)
    assert [(a.use_id, a.content) for a in map(result_message, answers.items)] == [(u.id, u.arguments) for u in uses]


USE = ToolUse(id="u", name="echo", arguments="{}")
STORED: list[tuple[Entry, dict[str, Any]]] = [
    (
        Begun(turn=1, message="go", states=[Change(IDLE, RUNNING)], agent="react", limits={"max_steps": 3}, tools=["echo"], at=1.0),
        {"e": "begun", "turn": 1, "message": "go", "states": [["idle", "running"]], "agent": "react", "limits": {"max_steps": 3},
         "tools": ["echo"], "at": 1.0},
    ),
    (
        HandedOver(step=2, agent="billing", by="triage", use="u", reason="money", history="last", digest="d", at=1.0),
        {"e": "handoff", "step": 2, "agent": "billing", "by": "triage", "use": "u", "reason": "money", "history": "last", "digest": "d",
         "at": 1.0},
    ),
    (Changed(what={"model": ["a", "b"]}, digest="d", at=1.0), {"e": "changed", "what": {"model": ["a", "b"]}, "digest": "d", "at": 1.0}),
    (
        Reply.of(ChatMessage(role="assistant", uses=(USE,)), mark="react.1", tag="t", step=1, usage=Usage(), total=Usage(), took=0.5,
                 at=1.0),
        {"e": "reply", "mark": "react.1", "tag": "t", "step": 1, "text": "", "uses": [["u", "echo", "{}"]],
         "usage": {"input_tokens": 0, "output_tokens": 0}, "total": {"input_tokens": 0, "output_tokens": 0}, "took": 0.5, "at": 1.0},
    ),
    (
        Summary(step=1, usage=Usage(cost=0.5), spend={"nano": 1}),
        {"e": "summary", "step": 1, "usage": {"input_tokens": 0, "output_tokens": 0, "cost": 0.5}, "spend": {"nano": 1}},
    ),
    (
        Results(step=1, items=[Result.of(USE, "c", "hi")], took=0.5, branch="1-2"),
        {"e": "results", "step": 1, "items": [{"id": "u", "tool": "echo", "call": "c", "text": "hi", "failed": False}], "took": 0.5,
         "branch": "1-2"},
    ),
    (
        News(step=1, items=[Result.of(USE, "c", "no", failed=True, background=True, code="x", state="failed")]),
        {"e": "news", "step": 1, "items": [{"id": "u", "tool": "echo", "call": "c", "text": "no", "failed": True, "background": True,
                                            "code": "x", "state": "failed"}]},
    ),
    (PlanState(step=1, plan={"title": "t", "steps": []}), {"e": "plan", "step": 1, "plan": {"title": "t", "steps": []}}),
    (
        Ended(state=IDLE, stopped="cancelled", text="", steps=0, calls=0, usage=Usage()),
        {"e": "ended", "state": "idle", "stopped": "cancelled", "text": "", "steps": 0, "calls": 0,
         "usage": {"input_tokens": 0, "output_tokens": 0}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "raw"), STORED, ids=[raw["e"] for _, raw in STORED])
def test_what_is_stored_of_an_entry(entry: Entry, raw: dict[str, Any]) -> None:
    stored = msgspec.to_builtins(entry)
    assert stored == raw
    assert stored == decode(encode(raw)), "no tuples: secrets in them would not be masked"
    assert entry_of({**raw, "of a later version": 1}) == entry


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from([raw for _, raw in STORED]), st.data(), JSON)
def test_what_another_program_wrote_is_passed_over(raw: dict[str, Any], data: st.DataObject, other: Any) -> None:
    field = data.draw(st.sampled_from([*raw, "thought", "vendor", "states"]))
    hostile = {**raw, field: other}
    record = TurnRecord([hostile, {"e": "plan", "plan": {"type": 1, "branch": 2}}])
    assert record.calls(Limits()) >= 0
    assert kinds(entry_of(hostile)) is not None


def test_an_entry_of_no_known_kind_has_no_events() -> None:
    for raw in (
        {},
        {"e": "of a later version"},
        {"e": ["reply"]},
        {"e": None},
        {"e": "reply"},
        {"e": "ended", "state": "?"},
    ):
        assert (entry_of(raw), kinds(entry_of(raw))) == (Unknown(), [])
    assert kinds(entry_of({"e": "plan", "plan": {"type": 1}})) == ["plan"]


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 10**9))
def test_places_are_read_back(turn: int, entry: int, number: int, offset: int) -> None:
    assert position_of(f"{turn}-{entry}.{number}") == (turn, entry, number, 0)
    assert position_of(f"{turn}-{entry}.{number}.{offset}") == (turn, entry, number, offset)


# The feed.


def event(number: int, *, id: bool = True) -> AgentEvent:
    return AgentEvent(
        type="message" if id else "delta", thread="t", turn=1, at=float(number), id=f"1-{number}.1" if id else ""
    )


@given(st.lists(st.tuples(st.sampled_from(["hold", "tell", "release", "fail"]), st.integers(0, 5)), max_size=40))
def test_a_feed_keeps_the_order_in_which_things_happened(steps: list[tuple[str, int]]) -> None:
    feed, reader = EventFeed(), FeedReader()
    feed.readers.append(reader)
    held: list[tuple[object, AgentEvent]] = []
    happened: list[AgentEvent] = []
    lost: list[AgentEvent] = []
    for number, (what, pick) in enumerate(steps):
        made = event(number, id=what == "hold")
        if what == "hold":
            happened.append(made)
            held.append((feed.hold([made]), made))
        elif what == "tell":
            happened.append(made)
            feed.publish(made)
        elif held:
            line, of = held.pop(pick % len(held))
            feed.release(line, what == "release")  # type: ignore[arg-type]
            if what == "fail":
                lost.append(of)
    for line, _ in held:
        feed.release(line)  # type: ignore[arg-type]
    assert reader.take() == [each for each in happened if each not in lost]


def test_a_reader_that_lags_loses_pieces_but_nothing_that_is_on_record() -> None:
    reader = FeedReader()
    for number in range(10_500):
        reader.push(event(number, id=False))
    for number in range(5):
        reader.push(event(number))
    taken = reader.take()
    assert len([each for each in taken if not each.id]) == 10_000
    assert len([each for each in taken if each.id]) == 5
    assert reader.take() == []
