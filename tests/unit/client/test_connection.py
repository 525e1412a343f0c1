"""Requests of the client: parsed events, problems as errors, and requests that are sent again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from clicket.client.connection import (
    Connection,
    ProblemResponse,
    Reconnection,
    ServerUnavailable,
    decoded_field,
    path_segment,
)
from clicket.errors import Conflict, NotFound, UsageError
from clicket.model.text.server_sent_events import ServerSentEvent


def connection(answer: Callable[[httpx2.Request], httpx2.Response]) -> Connection:
    return Connection("http://server", None, transport=httpx2.MockTransport(answer))


async def test_events_are_parsed() -> None:
    body = b": comment\n\nid: 1\nevent: created\ndata: {}\n\nid: 2\nevent: x\n\ndata: a\ndata: b\n\ndata: cut off"
    there = connection(lambda _: httpx2.Response(200, content=body))
    async with there.events("/events", last_id="0") as events:
        found = [event async for event in events]
    assert found == [ServerSentEvent("1", "created", "{}"), ServerSentEvent("", "", "a\nb")]


async def test_a_stream_that_breaks_is_server_unavailable_also_outside_of_its_block() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"id: 1\ndata: {}\n\n"
        raise httpx2.ReadError("reset")

    there = connection(lambda _: httpx2.Response(200, content=broken()))
    opened = there.events("/events")
    events = await opened.__aenter__()
    assert (await anext(events)).id == "1"
    with pytest.raises(ServerUnavailable):
        await anext(events)
    await opened.__aexit__(None, None, None)


async def test_a_problem_is_the_error_that_it_stands_for() -> None:
    there = connection(lambda _: httpx2.Response(409, json={"code": "conflict", "detail": "taken"}))
    with pytest.raises(Conflict, match="taken"):
        await there.send("POST", "/calls")
    with pytest.raises(ProblemResponse):
        await there.request("POST", "/calls")


async def test_a_response_of_a_proxy_is_server_unavailable() -> None:
    with pytest.raises(ServerUnavailable):
        await connection(lambda _: httpx2.Response(502, text="<html>bad gateway")).send("GET", "/calls")
    with pytest.raises(ServerUnavailable):
        await connection(lambda _: httpx2.Response(200, text="<html>")).read_field("GET", "/tools", "tools", list[str])
    with pytest.raises(ServerUnavailable):
        decoded_field(b'{"other": 1}', "tools", list[str])


@pytest.mark.parametrize("text", ["<html>Not Found</html>", '{"detail": "Not Found"}'])
@pytest.mark.parametrize("status", [404, 405])
async def test_another_server_is_named_and_its_404_does_not_mean_that_there_is_no_such_call(
    status: int, text: str
) -> None:
    there = connection(lambda _: httpx2.Response(status, text=text))
    for method in ("GET", "POST"):
        with pytest.raises(
            UsageError, match=rf"answered {status}, and not as a clicket server does. Look at the address"
        ):
            await there.send(method, "/calls")
    with pytest.raises(NotFound):
        await connection(lambda _: httpx2.Response(404, json={"code": "not_found", "detail": "no call"})).send(
            "GET", "/calls/a"
        )


async def test_a_request_is_sent_until_it_is_answered() -> None:
    answers = iter([httpx2.Response(503, json={"code": "shutting_down"}), None, httpx2.Response(200, json={"id": "a"})])

    def answer(_: httpx2.Request) -> httpx2.Response:
        found = next(answers)
        if found is None:
            raise httpx2.ReadError("reset")
        return found

    response = await connection(answer).post_until_answered("/calls", {"id": "a"}, tries=3)
    assert response.json() == {"id": "a"}
    with pytest.raises(ProblemResponse):
        await connection(lambda _: httpx2.Response(503, json={"code": "closed"})).post_until_answered("/", {}, tries=1)


async def test_eight_failures_in_a_row_are_too_many() -> None:
    reconnection, error = Reconnection(), ServerUnavailable("away")
    for _ in range(7):
        reconnection.failed(error)
    reconnection.reset()
    for _ in range(7):
        reconnection.failed(error)
    with pytest.raises(ServerUnavailable):
        reconnection.failed(error)


@pytest.mark.parametrize(("name", "segment"), [("a/b", "a%2Fb"), ("..", "%2E%2E"), ("a.b", "a.b"), ("ü", "%C3%BC")])
def test_names_are_one_segment_of_a_path(name: str, segment: str) -> None:
    assert path_segment(name) == segment


def test_a_url_needs_a_scheme() -> None:
    with pytest.raises(UsageError, match="localhost"):
        Connection("localhost:8000", None)
