"""A request for approval is an event: a later approver, in any process, sees the reason and the deadline."""

from __future__ import annotations

from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.live_call import Question
from clicket.engine.people.questions import ask_for_approval


@tool(sensitive=["key"])
async def pay(key: str = "") -> str:
    return "paid"


async def test_the_question_is_on_record_with_its_deadline() -> None:
    low = Lower(pay)
    call = low.pending("pay")
    ask_for_approval(low.journal, call, Question(), purpose="run", reason="above 100 €", timeout=60.0)
    assert low.store.record(call).waiting_for is None, "not before the next commit"
    low.journal.commit(call.entry)
    record = low.store.record(call)
    assert record.waiting_for == "approval"
    assert record.approval is not None
    assert (record.approval["why"], record.approval["purpose"]) == ("above 100 €", "run")
    assert record.approval["deadline"] == low.clock.now() + 60.0
    assert low.store._calls[call.entry.key].waiting_for == "approval"


async def test_without_a_timeout_there_is_no_deadline_and_no_secret_is_shown() -> None:
    low = Lower(pay)
    call = low.pending("pay", {"key": "hunter2hunter2"})
    ask_for_approval(low.journal, call, Question(), purpose="recovery", reason="hunter2hunter2 \ud800", timeout=None)
    low.journal.commit(call.entry)
    asked = low.store.events_of(call)[-1].data
    assert "deadline" not in asked
    assert "hunter2" not in asked["reason"]
    asked["reason"].encode()  # text that is not UTF-8 cannot be stored
