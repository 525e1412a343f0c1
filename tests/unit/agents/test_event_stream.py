"""A reader that comes while a turn runs gets each part of an answer once: from the record, or live."""

from __future__ import annotations

from clicket.agents import AgentEvent, entries
from clicket.agents.event_stream import _not_stale
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, Usage


def delta(step: int) -> AgentEvent:
    return AgentEvent(type="delta", thread="t", turn=1, at=0.0, step=step, data={"kind": "text", "text": "Done."})


def test_live_parts_of_an_answer_that_is_on_record_are_left_out_also_once_the_end_of_the_turn_is() -> None:
    reply = entries.reply("react.1", 2, ChatMessage(role="assistant", content="Done."), Usage(), 0.1, 0.0, Usage())
    ended = entries.ended(AgentState.FINISHED, "finished", "Done.", 2, 0, Usage(), 0.0)
    recorded = [*entries.events_of(reply, 1, "t", 1), *entries.events_of(ended, 2, "t", 1)]
    assert _not_stale([delta(2), delta(3), recorded[-1]], recorded) == [delta(3), recorded[-1]]
