"""Any list of messages becomes a valid transcript: each call has one result, directly after its message."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scenarios.agent_kit import check_pairs

from clicket.agents.transcript import INTERRUPTED, MAX_USES, assistant_message, paired, storable
from clicket.model.chat import ChatMessage, ChatReply, ToolUse
from clicket.model.codec import encode

IDS = st.sampled_from(["a", "b", "c", "d"])
USES = st.lists(IDS, max_size=3, unique=True).map(lambda ids: tuple(ToolUse(id=id, name="x") for id in ids))
MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda text: ChatMessage(role="user", content=text), st.text(max_size=3)),
        st.builds(lambda uses: ChatMessage(role="assistant", uses=uses), USES),
        st.builds(lambda name: ChatMessage(role="tool", use_id=name, content=f"of {name}"), IDS),
    ),
    max_size=12,
)
ANY_IDS: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=4), IDS, st.none(), st.sampled_from(["m-1_1", "m-1_2", "\ud800"])
)


def _fresh(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Ids that no other message uses, as `said` makes them; `paired` may rely on it."""
    made: list[ChatMessage] = []
    for place, message in enumerate(messages):
        uses = tuple(ToolUse(id=f"{use.id}{place}", name=use.name) for use in message.uses)
        made.append(msgspec.structs.replace(message, uses=uses))
    last = {use.id[0]: use.id for message in made for use in message.uses}
    return [msgspec.structs.replace(m, use_id=last.get(m.use_id, m.use_id)) if m.role == "tool" else m for m in made]


@given(MESSAGES)
def test_any_transcript_becomes_a_paired_one(messages: list[ChatMessage]) -> None:
    fresh = _fresh(messages)
    whole = paired(fresh)
    check_pairs(whole)
    # No message is lost or moved, and an existing answer is kept.
    assert [m for m in whole if m.role != "tool"] == [m for m in fresh if m.role != "tool"]
    assert all(
        answer in fresh or (answer.content == INTERRUPTED and answer.failed)
        for answer in whole
        if answer.role == "tool"
    )
    assert paired(whole) == whole


@given(MESSAGES)
def test_pairing_adds_the_results_that_are_missing_at_the_end(messages: list[ChatMessage]) -> None:
    fresh = _fresh(messages)
    last = next((place for place in range(len(fresh) - 1, -1, -1) if fresh[place].role != "tool"), None)
    if last is not None and fresh[last].uses:
        answered = {message.use_id for message in fresh[last + 1 :]}
        missing = [use.id for use in fresh[last].uses if use.id not in answered]
        results = paired(fresh)[-len(fresh[last].uses) :]
        assert [result.use_id for result in results if result.content == INTERRUPTED and result.failed] == missing


@given(st.lists(ANY_IDS, max_size=8), st.sets(IDS), st.booleans())
def test_ids_of_tool_calls_are_unique_in_the_thread(ids: list[Any], taken: set[str], keep: bool) -> None:
    reply = ChatReply(uses=tuple(ToolUse(id=id, name="x") for id in ids))
    message = assistant_message(reply, "m", 1, frozenset(taken), keep=keep)
    made = [use.id for use in message.uses]
    assert len(made) == len(ids) == len(set(made))
    assert not taken.intersection(made)
    assert all(made)
    assert assistant_message(reply, "m", 1, frozenset(taken), keep=keep) == message  # the same after a crash
    encode(message)  # it can be stored


@given(st.text(), st.text(), st.text())
def test_whatever_is_said_can_be_stored(text: str, name: str, arguments: str) -> None:
    odd = text + "\ud800\x00"
    message = assistant_message(
        ChatReply(text=odd, thought=odd, uses=(ToolUse(id="a", name=odd, arguments=arguments),)), "m", 1
    )
    assert encode(message)
    assert "\x00" not in message.content + message.thought + message.uses[0].name
    assert storable(storable(odd)) == storable(odd)


def test_what_is_too_much_is_cut_or_refused_and_says_so() -> None:
    many = assistant_message(ChatReply(uses=tuple(ToolUse(id=str(n), name="x") for n in range(1_000))), "m", 1)
    assert len(many.uses) == MAX_USES
    long = assistant_message(ChatReply(text="x" * 3_000_000), "m", 1)
    assert long.content.endswith("[cut: the answer was longer]")
    assert len(long.content) < 1_100_000
    huge = assistant_message(
        ChatReply(uses=(ToolUse(id="a", name="n" * 9_000, arguments="{" + "x" * 900_000),)), "m", 1
    )
    assert huge.uses[0].arguments == '"[refused: arguments of 900,001 characters]"'
    assert len(huge.uses[0].name) == 512


@pytest.mark.parametrize("vendor", [object(), {"x": object()}, [1], "text", {"x": {"y": {1, 2}}}, 7])
def test_what_only_the_vendor_reads_is_kept_if_it_can_be_stored(vendor: Any) -> None:
    message = assistant_message(ChatReply(vendor=vendor), "m", 1)
    encode(message)
    kept = assistant_message(ChatReply(vendor={"anthropic": [{"type": "thinking", "signature": "x"}]}), "m", 1)
    assert kept.vendor == {"anthropic": [{"type": "thinking", "signature": "x"}]}


@pytest.mark.parametrize("uses", [None, (), (None,), ("x", 7)])
def test_what_is_no_tool_call_is_none(uses: Any) -> None:
    assert assistant_message(ChatReply(text=None, uses=uses), "m", 1) == ChatMessage(role="assistant")  # type: ignore[arg-type]
