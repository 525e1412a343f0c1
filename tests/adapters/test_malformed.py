"""Any output of a model: one result for each call, in order, in the SDK's format, and no exception."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.kit import anthropic_results, chat_results, responses_results, runtime

from clicket.adapters import anthropic, openai
from clicket.model.names import wire_names
from clicket.tools.model_arguments import tidy

TEXT = st.text(st.characters(codec=None), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
GOOD = st.fixed_dictionaries({"a": st.integers(-9, 9)}, optional={"b": st.none() | st.integers(-9, 9)})
SPELLED = st.builds(json.dumps, GOOD | JSON)
BROKEN = st.builds(lambda text, at: text[:at], SPELLED, st.integers(0, 20))
TWICE = st.builds(json.dumps, SPELLED)
WRITTEN = st.one_of(SPELLED, BROKEN, TWICE, TEXT, st.sampled_from(["", "null", "{}", 'null{"a": 1}', '{"a":1,"a":2}']))
ARGUMENTS = st.one_of(WRITTEN, JSON, GOOD)
NAMES = st.sampled_from(["add", "nothing", "fail", "", "Add", "files.read"]) | st.none() | TEXT
IDS = st.sampled_from(["c1", "c2", "", None]) | TEXT
CALLS = st.lists(st.tuples(IDS, NAMES, ARGUMENTS), max_size=5)


def pairs(calls: Any) -> list[str]:
    return [id or "" for id, _, _ in calls]


@given(calls=CALLS, response_id=IDS)
async def test_messages(calls: Any, response_id: Any) -> None:
    content = [{"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in calls]
    async with runtime() as rt:
        results = await anthropic.run(rt, {"id": response_id, "content": content}, "t1")
        anthropic_results().validate_python(results)
        assert [r["tool_use_id"] for r in results] == pairs(calls)
        for result in results:
            str(result["content"]).encode()
        again = await anthropic.run(rt, {"id": response_id, "content": content}, "t1")
        assert not response_id or again == results, "a response with an id is not run twice"


@given(calls=CALLS, response_id=IDS)
async def test_chat(calls: Any, response_id: Any) -> None:
    from openai.types.chat import ChatCompletion

    given = [{"id": id, "type": "function", "function": {"name": name, "arguments": text}} for id, name, text in calls]
    choice = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": given}}
    completion = ChatCompletion.construct(id=response_id, choices=[choice])
    async with runtime() as rt:
        results = await openai.run(rt, completion, "t1")
        chat_results().validate_python(results)
        assert [r["tool_call_id"] for r in results] == pairs(calls)
        for result in results:
            result["content"].encode()
        assert await openai.run(rt, completion, "t1") == results


@given(calls=CALLS, size=st.integers(1, 9))
async def test_chat_in_pieces(calls: Any, size: int) -> None:
    """A streamed answer gives the same calls as a whole one, however it is cut."""
    texts = [(id, name, text if isinstance(text, str) else "{}") for id, name, text in calls]
    whole = [{"id": id, "function": {"name": name, "arguments": text}} for id, name, text in texts]

    async def stream() -> Any:
        for index, (id, name, text) in enumerate(texts):
            first = {"index": index, "id": id, "function": {"name": name, "arguments": None}}
            yield {"id": "x", "choices": [{"index": 0, "delta": {"tool_calls": [first]}}]}
            for at in range(0, len(text), size):
                piece = {"index": index, "function": {"arguments": text[at : at + size]}}
                yield {"id": "x", "choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}
        yield {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}

    async with runtime() as rt:
        results = await openai.run(rt, stream(), "t1")
        chat_results().validate_python(results)
        made = len((await rt.history(thread="t1", limit=1_000)).items)
        assert results == await openai.run(rt, {"id": "x", "choices": [{"message": {"tool_calls": whole}}]}, "t1")
        assert len((await rt.history(thread="t1", limit=1_000)).items) == made


@given(calls=CALLS)
async def test_responses(calls: Any) -> None:
    from openai.types.responses import Response

    items = [{"type": "function_call", "call_id": id, "name": name, "arguments": text} for id, name, text in calls]
    async with runtime() as rt:
        results = await openai.run(rt, Response.construct(id="r", output=items), "t1")
        responses_results().validate_python(results)
        assert [r["call_id"] for r in results] == pairs(calls)
        for result in results:
            result["output"].encode()


@given(junk=st.lists(JSON, max_size=4), event=JSON)
async def test_junk_in_place_of_calls(junk: Any, event: Any) -> None:
    async def stream() -> Any:
        yield event
        yield {"id": "x", "choices": junk}
        yield {"type": "content_block_start", "index": event if isinstance(event, int) else 0, "content_block": event}
        yield {"type": "response.output_item.done", "item": event}

    async with runtime() as rt:
        assert await anthropic.run(rt, {"id": "m", "content": junk}, "t1") == []
        assert len(await openai.run(rt, {"choices": [{"message": {"tool_calls": junk}}]}, "t1")) == len(junk)
        assert await openai.run(rt, {"output": junk}, "t1") == []
        await anthropic.run(rt, stream(), "t1")
        await openai.run(rt, stream(), "t1")


@given(names=st.lists(st.text("ab._-", min_size=1, max_size=3) | st.text("a.", min_size=60, max_size=128)))
def test_names_are_distinct_and_fit(names: list[str]) -> None:
    given = wire_names(names)
    assert set(given) == set(names)
    assert len(set(given.values())) == len(set(names))
    for name, wire in given.items():
        assert 1 <= len(wire) <= 64
        assert not set(wire) - set("ab_-0123456789abcdef")
        assert wire == name or "." in name or len(name) > 64


def test_a_name_that_looks_like_a_mark_shadows_nothing() -> None:
    wire = wire_names(["files.read"])["files.read"]
    both = wire_names(["files.read", wire])
    assert both[wire] == wire
    assert both["files.read"] != wire


@given(arguments=GOOD, depth=st.integers(0, 1))
def test_arguments_are_the_same_however_they_are_spelled(arguments: Any, depth: int) -> None:
    text = json.dumps(arguments, indent=2)
    for _ in range(depth):
        text = json.dumps(text)
    assert tidy(text, None) == arguments
