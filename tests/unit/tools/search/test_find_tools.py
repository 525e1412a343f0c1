"""`find_tools`: what it prints, the names in its results, and which tools a thread is offered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ToolUse
from clicket.model.ids import agent_of
from clicket.tools.search import FIND_OFFER, FIND_TOOLS, RecentTools, chosen_limit, found_names


def search(id: str, *names: str, failed: bool = False) -> list[ChatMessage]:
    text = json.dumps({"found": list(names), "tools": [{"name": name, "description": "] }"} for name in names]})
    return [
        ChatMessage(role="assistant", uses=(ToolUse(id=id, name=FIND_TOOLS, arguments="{}"),)),
        ChatMessage(role="tool", use_id=id, content=text, failed=failed),
    ]


def used(id: str, name: str) -> list[ChatMessage]:
    return [
        ChatMessage(role="assistant", uses=(ToolUse(id=id, name=name),)),
        ChatMessage(role="tool", use_id=id, content='{"found": ["evil"]}'),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"found":["a","b.c-d"],"tools":[]}', ["a", "b.c-d"]),
        ('{ "found" : [ "a" ] }', ["a"]),
        ('{"found":["a","b', ["a"]),
        ('{"found":[]}', []),
        ("", []),
        ("found: a", []),
        ('text {"found":["a"]}', []),
        ('{"tools":[{"name":"x","description":"{\\"found\\":[\\"evil\\"]"}]}', []),
        ('{"found":["a b","' + "x" * 200 + '"]}', []),
    ],
)
def test_names_in_a_result(text: str, names: list[str]) -> None:
    assert found_names(text) == names


def test_what_was_found_or_used_last_is_offered() -> None:
    recent = RecentTools(3)
    messages = [*search("1", "best", "second"), *used("2", "old")]
    recent.read(messages)
    everything = ["best", "second", "old", "new", "other", "evil"]
    assert recent.among(everything) == ["old", "best", "second"]
    messages += search("3", "new", "other")
    recent.read(messages)
    assert recent.among(everything) == ["new", "other", "old"], "the least recently used ones go"
    assert recent.among(["second", "old", "best"]) == ["old", "best", "second"], "what is hidden takes no place"
    messages += used("4", "best")
    recent.read(messages)
    assert recent.among(everything)[0] == "best"


def test_only_results_of_a_search_count() -> None:
    recent = RecentTools(5)
    recent.read([*search("1", "a", failed=True), *used("2", "b")])
    assert recent.among(["a", "b", "evil"]) == ["b"]
    recent.read([ChatMessage(role="user", content='{"found": ["evil"]}')] * 9)
    assert recent.among(["a", "b", "evil"]) == ["b"]


def test_what_is_remembered_is_bounded() -> None:
    recent = RecentTools(2)
    names = [f"t{number}" for number in range(1_000)]
    for number, name in enumerate(names):
        recent.used(name)
        assert recent.among(names[: number + 1])[0] == name
    assert recent.among(names[:900]) == []


def test_the_same_messages_give_the_same_offer() -> None:
    messages = [*search("1", "a", "b"), *used("2", "c"), *search("3", "d")]
    step_by_step, at_once = RecentTools(3), RecentTools(3)
    for end in range(len(messages) + 1):
        step_by_step.read(messages[:end])
    at_once.read(messages)
    assert step_by_step.among("abcd") == at_once.among("abcd")


def test_the_limit() -> None:
    assert chosen_limit(False, None) is None
    assert chosen_limit(True, None) == 20
    assert chosen_limit(False, 7) == chosen_limit(True, 7) == 7
    wrong: list[Any] = [0, -1, True, 2.5, "3", 1_001]
    for each in wrong:
        with pytest.raises(UsageError, match="max_offered"):
            chosen_limit(True, each)
    with pytest.raises(UsageError, match="tool_search"):
        chosen_limit(20, None)  # type: ignore[arg-type]


def test_the_offer_is_a_whole_tool() -> None:
    assert FIND_OFFER.name == FIND_TOOLS
    assert FIND_OFFER.input_schema["required"] == ["query"]
    assert not FIND_OFFER.deferred


@pytest.mark.parametrize(
    ("id", "agent"),
    [
        ("toolu_1:react.1.2.1~3f9c12ab", "react"),
        ("my-agent.3.2-1.1.4~x", "my-agent"),
        ("react.1.2.1", ""),
        ("0123456789abcdef", ""),
        ("call~x", ""),
        ("", ""),
    ],
)
def test_the_agent_of_a_call(id: str, agent: str) -> None:
    assert agent_of(id) == agent
