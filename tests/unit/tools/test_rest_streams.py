"""Streamed responses of REST tools: NDJSON and server-sent events become output, progress and outcome; a cut stream is told apart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples
from tests.unit.tools.rest_kit import Cut, Quiet, answer, call, make_context, rest, serving

from clicket.errors import RetryableError, UsageError
from clicket.testing import memory_runtime
from clicket.tools.context import STREAMED
from clicket.tools.rest import OutcomeUnknown, RestError, RestTool, StreamMapping

NDJSON, SSE = "application/x-ndjson", "text/event-stream; charset=utf-8"


class Heard(Quiet):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[Any] = []

    def emit(self, chunk: Any) -> None:
        self.said.append(chunk)

    def progress(self, step: float, total: float | None, text: str) -> None:
        self.said.append((step, total, text))


def rows(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


async def stream(
    body: str | bytes, mapping: Any, kind: str = NDJSON, method: str = "GET", **options: Any
) -> tuple[Any, Heard]:
    heard = Heard()
    async with serving() as server, rest("s", method, f"{server.url}/", stream=mapping, **options) as tool:
        server.answers = [answer(body, content_type=kind)]
        return await call(tool, make_context(sink=heard)), heard


async def test_ndjson_by_pointers() -> None:
    body = rows(
        {"done": 1, "of": 2, "now": "half"}, {"piece": "a"}, {"piece": {"deep": 1}}, {"other": 1}, {"result": {"n": 3}}, {"piece": "late"}
    )  # fmt: skip
    mapping = {"output": "/piece", "step": "/done", "total": "/of", "text": "/now", "result": "/result"}
    output, heard = await stream(body, mapping)
    assert output == {"n": 3}
    assert heard.said == [(1, 2, "half"), "a", {"deep": 1}]
    assert heard.beats > 0


async def test_server_sent_events_as_models_send_them() -> None:
    body = (
        ': hello\n\ndata: {"choices":[{"delta":{"content":"Hel"}}]}\r\n\r\n'
        'data: {"choices":[{"delta":{"content":"lo"}}]}\n\ndata: [DONE]\n\n'
    )
    output, heard = await stream(body, StreamMapping(output="/choices/0/delta/content", done="[DONE]"), SSE, "POST")
    assert output is STREAMED
    assert heard.said == ["Hel", "lo"]


async def test_events_by_their_names() -> None:
    body = (
        'event: status\ndata: {"n": 1}\n\nevent: text\ndata: line 1\ndata: line 2\n\n'
        'event: ping\ndata: {"n": 9}\n\nevent: end\ndata: {"n": 2}\n\n'
    )
    mapping = {
        "output": "",
        "step": "/n",
        "result": "",
        "events": {"status": "progress", "text": "output", "end": "result"},
    }
    output, heard = await stream(body, mapping, SSE)
    assert output == {"n": 2}
    assert heard.said == [(1, None, ""), "line 1\nline 2"]


async def test_an_error_in_the_stream_fails_the_call() -> None:
    with pytest.raises(RestError, match="no credit"):
        await stream(rows({"piece": "a"}, {"error": {"message": "no credit"}}), {"output": "/piece", "error": "/error"})


async def test_another_type_is_read_as_ever() -> None:
    output, heard = await stream('{"piece": "a"}', {"output": "/piece"}, "application/json")
    assert (output, heard.said) == ({"piece": "a"}, [])


@pytest.mark.parametrize("mapping", [{"output": "/p", "result": "/r"}, {"output": "/p", "done": "END"}])
async def test_a_stream_that_ends_too_soon_is_no_result(mapping: dict[str, str]) -> None:
    for method, options, expected in (
        ("GET", {}, RetryableError), ("POST", {"idempotent": True}, RetryableError), ("POST", {}, OutcomeUnknown),
    ):  # fmt: skip
        with pytest.raises(expected):
            await stream(rows({"p": 1}), mapping, NDJSON, method, **options)


async def test_a_broken_connection_is_a_separate_error() -> None:
    async with serving() as server, rest("s", "POST", f"{server.url}/", stream={"output": "/p"}) as tool:
        whole = answer(rows({"p": 1}, {"p": 2}), content_type=NDJSON)
        server.answers = [Cut(whole[:-4])]
        with pytest.raises(OutcomeUnknown):
            await call(tool)


async def test_limits_and_damage() -> None:
    with pytest.raises(RestError, match="larger than 100 bytes"):
        await stream(rows(*({"p": "x" * 30} for _ in range(9))), {"output": "/p"}, max_response_size=100)
    with pytest.raises(RestError, match="not JSON"):
        await stream('{"p": 1}\n{"p": \n', {"output": "/p"})
    with pytest.raises(RestError, match="not JSON"):
        await stream('{"p": NaN}\n', {"output": "/p"})


@settings(max_examples=examples(40), deadline=None)
@given(cuts=st.lists(st.integers(1, 60), max_size=8), ending=st.sampled_from(["\n", "\r\n"]))
async def test_pieces_of_the_wire_do_not_matter(cuts: list[int], ending: str) -> None:
    from clicket.tools.stream import StreamReader

    body = "".join(f'data: {{"p": "é{n}"}}{ending}{ending}' for n in range(3)).encode()

    class Response:
        headers = {"content-type": SSE}  # noqa: RUF012  # a fake

        async def aiter_bytes(self) -> Any:
            at = 0
            for cut in [*cuts, len(body)]:
                yield body[at : at + cut]
                at += cut

    heard = Heard()
    reader = StreamReader(StreamMapping(output="/p"), make_context(sink=heard), 1_000)
    fake: Any = Response()
    assert await reader.read(fake) is STREAMED
    assert heard.said == ["é0", "é1", "é2"]


@pytest.mark.parametrize("wrong", ["x", {"outptu": "/a"}, {"output": "a"}, {"output": 3}, {"events": {"a": "nothing"}}])
def test_what_is_no_mapping_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="stream"):
        RestTool("s", "GET", "https://example.org/", stream=wrong)


async def test_in_a_runtime_it_streams_and_completes() -> None:
    async with serving() as server:
        server.answers = [answer(rows({"p": "a"}, {"s": 1}, {"p": "b"}), content_type=NDJSON)]
        tool = RestTool("s", "GET", f"{server.url}/", allow_private=True, stream={"output": "/p", "step": "/s"})
        async with memory_runtime([tool]) as rt:
            handle = await rt.submit("s")
            events = [event async for event in handle.events()]
            assert [e.data["content"] for e in events if e.type == "output"] == ["a", "b"]
            assert any(e.type == "progress" for e in events)
            assert (await handle.result()).output == "ab"
