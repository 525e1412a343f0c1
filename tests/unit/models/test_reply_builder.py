"""However a reply is split into pieces, and its bytes into chunks, the deltas add up to the same reply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.models.kit import adds_up, asks

from clicket.errors import ClicketError
from clicket.model.chat import ChatReply, Delta
from clicket.model.text.server_sent_events import EventParser
from clicket.models.anthropic_reply import BlockReader
from clicket.models.error_translation import Endpoint
from clicket.models.openai_reply import ChatReader
from clicket.models.prices import Prices
from clicket.models.reply_builder import ReplyBuilder
from clicket.models.transcript import Names

ENDPOINT = Endpoint("test", "m", "KEY", None, None)
TEXT = st.text(max_size=30)
OBJECT = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=8), max_size=3)
WRITTEN = st.builds(lambda value: json.dumps(value, ensure_ascii=False), OBJECT) | st.text(min_size=1, max_size=12)
CALLS = st.lists(
    st.tuples(st.text("abc12", min_size=1, max_size=4), st.sampled_from(["add", "files.read", "x y"]), WRITTEN),
    max_size=4,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def chopped(data: st.DataObject, text: str) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def reads(kind: Any, events: list[Any] | None = None, whole: Any = None) -> ChatReply:
    """The reply to these events, sent over the wire, or to one whole answer."""
    deltas: list[Delta] = []
    reader = kind(ReplyBuilder(Names(asks()), deltas.append), ENDPOINT)
    if events is None:
        reader.whole(whole)
    for event in events or ():
        reader.feed(event)
    reply: ChatReply = reader.reply(Prices(None))
    adds_up(deltas, reply)
    return reply


def over_the_wire(data: st.DataObject, events: list[Any]) -> list[Any]:
    """The events as bytes, cut anywhere, with what servers insert between them."""
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    sent = "".join(
        f": ping{end}event: {event.get('type', 'x')}{end}data: {json.dumps(event, ensure_ascii=False)}{end}{end}"
        for event in events
    ).encode()
    parser, got = EventParser(), []
    size = data.draw(st.integers(1, 40))
    for at in range(0, len(sent), size):
        got += [json.loads(event.data) for event in parser.feed(sent[at : at + size])]
    return [*got, *(json.loads(event.data) for event in parser.end())]


@given(text=TEXT, thought=TEXT, calls=CALLS, data=st.data())
def test_chunks(text: str, thought: str, calls: list[tuple[str, str, str]], data: st.DataObject) -> None:
    """Several calls, their pieces interleaved in any order."""
    made = [{"id": id, "function": {"name": name, "arguments": written}} for id, name, written in calls]
    message = {"content": text, "reasoning_content": thought, "tool_calls": made}
    whole = reads(ChatReader, whole={"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (whole.text, whole.thought) == (text.replace("\x00", "\\x00"), thought.replace("\x00", "\\x00"))
    clean = [written.replace("\x00", "\\x00") for _, _, written in calls]
    assert [use.arguments for use in whole.uses] == [one if one.strip() else one + "{}" for one in clean]

    def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    repeats = data.draw(st.booleans())
    queues: list[list[Any]] = []
    for index, (id, name, written) in enumerate(calls):
        same = {"id": id} if repeats else {}
        pieces = [{"index": index, **same, "function": {"arguments": one}} for one in chopped(data, written)]
        first = {"index": index, "id": id, "function": {"name": name, "arguments": ""}}
        queues.append([chunk(tool_calls=[one]) for one in (first, *pieces)])
    events = [chunk(reasoning_content=one) for one in chopped(data, thought)]
    events += [chunk(content=one) for one in chopped(data, text)]
    events += [queue.pop(0) for queue in queues]  # calls start in their order, then any order is allowed
    while any(queues):
        events.append(data.draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    events = over_the_wire(data, [*events, chunk("stop"), {"choices": [], "usage": {"prompt_tokens": 1}}])
    assert reads(ChatReader, events).uses == whole.uses
    assert reads(ChatReader, events).text == whole.text
    assert reads(ChatReader, events).thought == whole.thought


@given(text=TEXT, thought=TEXT, calls=CALLS, data=st.data())
def test_blocks(text: str, thought: str, calls: list[tuple[str, str, str]], data: st.DataObject) -> None:
    blocks: list[tuple[dict[str, Any], str, str]] = [
        ({"type": "thinking", "thinking": "", "signature": ""}, "thinking", thought),
        ({"type": "text", "text": ""}, "text", text),
    ]
    for id, name, written in calls:
        blocks.append(({"type": "tool_use", "id": id, "name": name, "input": {}}, "input_json", written))
    field = {"input_json": "partial_json"}
    events: list[Any] = [{"type": "message_start", "message": {"usage": {"input_tokens": 2}}}]
    for index, (block, kind, whole) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        for piece in chopped(data, whole):
            delta = {"type": f"{kind}_delta", field.get(kind, kind): piece}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        if kind == "thinking":
            for piece in chopped(data, "signed"):
                delta = {"type": "signature_delta", "signature": piece}
                events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}})
    reply = reads(BlockReader, over_the_wire(data, events))
    clean = [one.replace("\x00", "\\x00") for one in (thought, text, *(written for _, _, written in calls))]
    assert (reply.thought, reply.text) == (clean[0], clean[1])
    assert [use.arguments for use in reply.uses] == [one if one.strip() else one + "{}" for one in clean[2:]]
    assert reply.vendor == {"anthropic": [{"type": "thinking", "thinking": clean[0], "signature": "signed"}]}
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (2, 3)


@given(events=st.lists(JSON, max_size=4), delta=JSON, data=st.data())
def test_whatever_comes_is_read_or_refused(events: list[Any], delta: Any, data: st.DataObject) -> None:
    """Junk in every place of an event: only our own errors, and the pieces that are read add up."""
    chat = [{"choices": [{"delta": delta, "finish_reason": "stop"}]}, {"choices": [{"delta": {"tool_calls": events}}]}]
    block = {"type": "content_block_start", "index": data.draw(JSON), "content_block": delta}
    kinds = st.sampled_from(["text_delta", "input_json_delta", "thinking_delta", "signature_delta"])
    pieces = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": data.draw(kinds), "text": one, "thinking": one}}
        for one in events
    ]
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": delta}
    for kind, fed in ((ChatReader, [*events, *chat]), (BlockReader, [*events, block, *pieces, stop])):
        reads(kind, fed)
        try:
            reads(kind, whole={"choices": [{"message": delta}], "content": events, "usage": delta})
        except ClicketError:
            assert kind is ChatReader
            assert delta is None


def test_calls_that_are_never_named_keep_their_arguments() -> None:
    reply = reads(
        ChatReader,
        [{"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{}"}}]}, "finish_reason": "stop"}]}],
    )
    assert [(use.id, use.name, use.arguments) for use in reply.uses] == [("call_0", "", "{}")]


def test_a_line_without_end_is_not_kept() -> None:
    parser = EventParser(32 * 1024 * 1024)
    with pytest.raises(ValueError, match="a line of more than"):
        for _ in range(40):
            list(parser.feed(b"x" * 1024 * 1024))
