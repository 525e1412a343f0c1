"""HEAD is GET without its body, on every route that is not a stream."""

from __future__ import annotations

import pytest
from tests.scenarios.server_kit import key_for, served


async def test_head_answers_as_get_does(store: str) -> None:
    async with served(store=store) as it:
        made = (await it.call("long", {}, id="c")).json()
        seen = 0
        for operation in it.parts.operations:
            if operation.method != "GET":
                continue
            path = operation.path.replace("{threadId}", "t").replace("{name}", "add")
            path = path.replace("{id}", made["artifact"] if path.startswith("/artifacts") else "c")
            head = await it.head(path)
            if path in ("/events", "/calls/c/events", "/agents/t/events", "/ai-sdk/{agent}/t/stream"):
                assert head.status_code == 405
                assert "HEAD" not in head.headers["allow"]
                continue
            seen += 1
            got = await it.get(path)
            assert (head.status_code, head.content) == (got.status_code, b""), path
            assert head.headers.keys() == got.headers.keys()
            assert head.headers["content-type"] == got.headers["content-type"]
            assert int(head.headers["content-length"]) > 0
        assert seen > 10
        refused = await it.head("/mcp")
        assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, GET, POST")


async def test_ranges_and_refusals_have_no_body_either() -> None:
    async with served() as it:
        made = (await it.call("long", {}, id="c")).json()
        part = await it.head(f"/artifacts/{made['artifact']}", headers={"range": "bytes=0-99"})
        assert (part.status_code, part.headers["content-length"], part.content) == (206, "100", b"")
        for path, status in (("/calls/nobody", 404), ("/calls?x=1", 400), ("/nowhere", 404)):
            refused = await it.head(path)
            assert (refused.status_code, refused.content) == (status, b"")
            assert refused.headers["content-type"] == "application/problem+json"
        key = await key_for(it, "a", "call")
        assert (await it.head("/calls/c")).status_code == 401
        assert (await it.head("/calls/c", headers=key)).status_code == 403
        assert (await it.head("/healthz")).status_code == 200


@pytest.mark.parametrize("size", [0, 10, 3_000_000])
async def test_a_connection_is_fit_for_use_after_head(size: int) -> None:
    """Otherwise the client would read a body as the next response."""
    async with served() as it:
        kept = (await it.post("/artifacts", content=b"x" * size)).json()
        for _ in range(3):
            head = await it.head(f"/artifacts/{kept['id']}")
            assert int(head.headers["content-length"]) == size
            assert (await it.get("/healthz")).json() == {"status": "ok"}
        assert len((await it.get(f"/artifacts/{kept['id']}")).content) == size
