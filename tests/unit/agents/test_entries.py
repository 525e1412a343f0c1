"""Entries of a turn become the same events each time, with ids at which a reader can resume; live events keep their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clicket.agents import entries
from clicket.agents.agent_result import AgentEvent
from clicket.agents.entries import events_of, message_of, results_of, usage_of
from clicket.agents.event_feed import EventFeed, FeedReader
from clicket.agents.event_stream import position_of
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, ToolUse, Usage
from clicket.model.codec import decode, encode

IDLE, RUNNING, FINISHED, ERROR = AgentState.IDLE, AgentState.RUNNING, AgentState.FINISHED, AgentState.ERROR
USES = st.lists(st.builds(ToolUse, id=st.text(min_size=1), name=st.text(), arguments=st.text()), max_size=3).map(tuple)


def kinds(entry: entries.Entry) -> list[str]:
    return [event.type for event in events_of(entry, 1, "t", 1)]


def test_the_events_of_each_entry() -> None:
    begun = entries.begun(3, "hi", [(ERROR, IDLE), (IDLE, RUNNING)], 5.0)
    seen = events_of(begun, 1, "t", 3)
    assert [(e.type, e.id, e.thread, e.turn, e.at) for e in seen] == [
        ("state", "3-1.1", "t", 3, 5.0),
        ("state", "3-1.2", "t", 3, 5.0),
        ("message", "3-1.3", "t", 3, 5.0),
    ]
    assert [e.data for e in seen[:2]] == [{"from": "error", "to": "idle"}, {"from": "idle", "to": "running"}]
    assert seen[2].data == {"role": "user", "text": "hi"}
    message = ChatMessage(role="assistant", content="hm", thought="well", uses=(ToolUse(id="u", name="x"),))
    reply = entries.reply("react.3", 2, message, Usage(input_tokens=1), 0.5, 6.0, Usage(input_tokens=4))
    assert kinds(reply) == ["thought", "usage", "message", "tool_started"]
    started = events_of(reply, 1, "t", 1)[-1]
    assert (started.step, started.data["call_id"]) == (2, "react.3.2.1")
    assert kinds(entries.reply("m", 1, ChatMessage(role="assistant"), Usage(), 0.0, 0.0, Usage())) == [
        "usage",
        "message",
    ]
    silent = ChatMessage(role="assistant", uses=(ToolUse(id="u", name="x"),))
    assert kinds(entries.reply("m", 1, silent, Usage(), 0.0, 0.0, Usage())) == ["usage", "tool_started"]
    item = entries.result(ToolUse(id="u", name="x"), "m.1.1", "no", failed=True, code="tool_error")
    result = events_of(entries.results(2, [item], 0.1, 7.0), 4, "t", 1)
    assert [(e.type, e.step, e.data["success"], e.data["code"]) for e in result] == [
        ("tool_result", 2, False, "tool_error")
    ]
    ended = entries.ended(FINISHED, "finished", "done", 2, 1, Usage(), 8.0)
    assert kinds(ended) == ["state", "final"]
    assert kinds(entries.ended(ERROR, "", "", 0, 0, Usage(), 8.0, "broken")) == ["state", "error"]
    assert kinds({"e": "of a later version"}) == []
    assert kinds({}) == []


@given(st.text(), USES, st.text())
def test_an_answer_is_the_same_message_after_it_was_on_record(
    text: str, uses: tuple[ToolUse, ...], thought: str
) -> None:
    message = ChatMessage(role="assistant", content=text, uses=uses, thought=thought, vendor={"x": [1]})
    entry = entries.reply("m", 1, message, Usage(output_tokens=3, cost=0.5), 0.1, 1.0, Usage())
    again = decode(encode(entry))
    assert message_of(again) == message
    assert usage_of(again["usage"]) == Usage(output_tokens=3, cost=0.5)
    assert usage_of("damaged") == Usage()
    items = [entries.result(use, "c", use.arguments, failed=place % 2 == 0) for place, use in enumerate(uses)]
    answers = results_of(decode(encode(entries.results(1, items, 0.0, 0.0))))
    assert [(a.use_id, a.content) for a in answers] == [(use.id, use.arguments) for use in uses]


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_places_are_read_back(turn: int, entry: int, number: int) -> None:
    assert position_of(f"{turn}-{entry}.{number}") == (turn, entry, number)


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
