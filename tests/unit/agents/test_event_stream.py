"""A reader that comes while a turn runs gets each part of an answer once: from the record, or live."""

from __future__ import annotations

from clicket.agents import AgentEvent
from clicket.agents.entries import Ended, Reply, Tried, events_of
from clicket.agents.event_stream import _not_stale
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, Usage


def delta(step: int) -> AgentEvent:
    return AgentEvent(type="delta", thread="t", turn=1, at=0.0, step=step, data={"kind": "text", "text": "Done."})


def test_live_parts_of_an_answer_that_is_on_record_are_left_out_also_once_the_end_of_the_turn_is() -> None:
    message = ChatMessage(role="assistant", content="Done.")
    reply = Reply.of(message, mark="react.1", tag="", step=2, usage=Usage(), total=Usage(), took=0.1, at=0.0)
    ended = Ended(state=AgentState.FINISHED, stopped="finished", text="Done.", steps=2, calls=0, usage=Usage())
    recorded = [*events_of(reply, 1, "t", 1), *events_of(ended, 2, "t", 1)]
    assert _not_stale([delta(2), delta(3), recorded[-1]], recorded) == [delta(3), recorded[-1]]


def test_live_parts_of_an_answer_that_is_void_are_left_out_and_those_of_the_next_model_are_not() -> None:
    tried = Tried(model="a", reason="stalled", error="", took=20.0, next="b", step=2, pieces=True)
    recorded = events_of(tried, 1, "t", 1)
    assert [event.type for event in recorded] == ["fallback", "restart"]
    last = delta(2)
    assert _not_stale([delta(2), *recorded, last], recorded) == [*recorded, last]
    assert _not_stale([last], recorded) == [last]
