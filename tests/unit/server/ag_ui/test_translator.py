"""Events of an agent as events of AG-UI: what is opened is closed, nothing is sent twice, and a message that a model gave up is removed."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.agents import AgentEvent
from clicket.server.ag_ui.translator import Translator
from clicket.server.turn_follower import Followed, SubTask

TASK = SubTask(id="c1", agent="worker", thread="t/c1", use_id="u1")
INNER = SubTask(id="c2", agent="expert", thread="t/c1/c2", use_id="u2", parent=TASK)


def item(type: Any, at: str = "", step: int = 1, task: SubTask | None = None, **data: Any) -> Followed:
    return Followed(AgentEvent(type=type, thread="t", turn=1, at=1.0, step=step, id=at, data=data), task)


def delta(text: str, kind: str = "text", **more: Any) -> Followed:
    return item("delta", text=text, kind=kind, **more)


def said(text: str, id: str = "1-2.2", **more: Any) -> Followed:
    return item("message", id, role="assistant", text=text, **more)


def taken(translator: Translator, *items: Followed) -> list[dict[str, Any]]:
    return [event for each in items for event in translator.take(each)]


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def test_pieces_and_then_only_the_rest_of_the_message() -> None:
    events = taken(Translator(1, {}), delta("Hel"), delta("lo"), said("Hello, you."))
    assert types(events) == [
        "STEP_STARTED", "TEXT_MESSAGE_START", *["TEXT_MESSAGE_CONTENT"] * 3, "TEXT_MESSAGE_END",
    ]  # fmt: skip
    assert text_of(events) == "Hello, you."


def test_a_message_that_was_not_streamed_and_an_empty_one() -> None:
    assert text_of(taken(Translator(1, {}), said("Hello"))) == "Hello"
    assert types(taken(Translator(1, {}), said(""))) == ["STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END"]


@pytest.mark.parametrize("kind", ["retry", "restart"])
def test_a_retry_gives_up_what_was_streamed(kind: str) -> None:
    translator = Translator(1, {})
    events = taken(translator, delta("Wro"), item(kind, step=1), delta("Rig"), said("Right"))
    starts = [event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_START"]
    ends = [event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_END"]
    assert len(set(starts)) == 2
    assert starts == ends
    assert translator.has_discarded
    assert [(message["id"], message["content"]) for message in translator.messages] == [(starts[1], "Right")]


def test_another_model_that_is_asked_is_a_custom_event() -> None:
    translator = Translator(1, {})
    events = taken(translator, item("fallback", "1-2.1", step=1, model="a", reason="timeout", next="b"), said("Hello"))
    (custom,) = [event for event in events if event["type"] == "CUSTOM"]
    assert custom["name"].endswith("fallback")
    assert not translator.has_discarded


def test_a_handoff_is_a_custom_event() -> None:
    found = item("handoff", "1-2.1", step=1, **{"from": "triage", "to": "billing", "reason": "money", "id": "u"})
    (custom,) = [event for event in taken(Translator(1, {}), found, said("Hello")) if event["type"] == "CUSTOM"]
    assert (custom["name"], custom["value"]["to"]) == ("clicket.handoff", "billing")


def test_pieces_that_were_lost_or_differ_are_not_mixed_with_the_message() -> None:
    translator = Translator(1, {})
    events = taken(translator, delta("a"), delta("c"), said("abc"))
    assert translator.has_discarded
    assert text_of(events).endswith("abc")
    assert [message["content"] for message in translator.messages] == ["abc"]


def test_thoughts_are_reasoning() -> None:
    events = taken(
        Translator(1, {}), delta("Let me ", "thought"), item("thought", "1-2.1", text="Let me see."), said("Yes.")
    )
    assert types(events)[1:8] == [
        "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END", "REASONING_END", "TEXT_MESSAGE_START",
    ]  # fmt: skip


def test_a_run_has_the_events_of_its_range_only() -> None:
    items = [said(f"m{n}", f"1-{n}.1", step=n) for n in range(1, 6)]
    assert text_of(taken(Translator(1, {"": "1-2.1"}), *items)) == "m3m4m5"
    bounded = Translator(1, {"": "1-2.1"}, {"": "1-4.1"})
    assert text_of(taken(bounded, *items[:3], delta("live", step=4))) == "m3", "a live event belongs to a later run"
    assert not bounded.has_reached_its_end
    assert text_of(taken(bounded, *items[3:])) == "m4"
    assert bounded.has_reached_its_end


def test_positions_are_those_of_each_agent() -> None:
    translator = Translator(1, {"": "1-5.1", "c1": "1-1.1"})
    events = taken(translator, said("old", "1-4.1"), said("new", "1-3.1", task=TASK))
    assert text_of(events) == "new"
    assert translator.position == {"": "1-4.1", "c1": "1-3.1"}


def test_nested_agents_are_started_from_the_outside_and_ended_from_the_inside() -> None:
    translator = Translator(1, {})
    events = taken(translator, said("deep", task=INNER))
    started = [event for event in events if event["type"] == "SUBAGENT_STARTED"]
    assert [(event["name"], event.get("parentSubagentRunId")) for event in started] == [
        ("worker", None),
        ("expert", "c1"),
    ]
    closed = translator.close(2.0, {"c2": ["q"]})
    ended = [event for event in closed if event["type"] == "SUBAGENT_FINISHED"]
    assert [(event["subagentRunId"], event["outcome"]["interruptIds"]) for event in ended] == [
        ("c2", ["q"]),
        ("c1", []),
    ]
    assert translator.close(3.0) == [], "nothing is closed twice"


def test_concurrent_forks_have_their_own_messages_and_steps() -> None:
    translator = Translator(1, {})
    events = taken(
        translator, delta("a", branch="1"), delta("b", branch="2"), said("a!", branch="1"), said("b!", branch="2")
    )
    texts: dict[str, str] = {}
    for event in events:
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            texts[event["messageId"]] = texts.get(event["messageId"], "") + event["delta"]
    assert sorted(texts.values()) == ["a!", "b!"]
    names = [event["stepName"] for event in events if event["type"] == "STEP_STARTED"]
    assert len(set(names)) == 2
    assert sorted(event["stepName"] for event in translator.close(2.0)) == sorted(names)


def test_the_result_of_a_background_call_comes_later_as_news() -> None:
    result = {"id": "u", "tool": "x", "call_id": "c", "success": True, "content": "started", "background": True}
    translator = Translator(1, {})
    first = taken(translator, item("tool_result", "1-3.1", **result))
    later = taken(translator, item("tool_result", "1-5.1", step=2, **{**result, "content": "done"}))
    assert types(first) == ["STEP_STARTED", "TOOL_CALL_RESULT"]
    assert [(e["type"], e.get("name")) for e in later][-1] == ("CUSTOM", "clicket.background_result")


def test_usage_is_that_of_the_run() -> None:
    translator = Translator(1, {"": "1-2.1"})
    used = {"input_tokens": 3, "output_tokens": 1, "total": {"input_tokens": 9, "output_tokens": 9}}
    taken(
        translator,
        item("usage", "1-2.1", **used),
        item("usage", "1-3.1", **used),
        item("usage", "1-1.1", task=TASK, **used),
    )
    assert (translator.usage.input_tokens, translator.usage.output_tokens) == (6, 2), (
        "with sub-agents, without earlier runs"
    )
