"""Notices over HTTP, by the client, without an event loop, and by the command."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest
from tests.kit.waiting import eventually, eventually_sync
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import served

from clicket import tool
from clicket.client import Client
from clicket.errors import NotFound
from clicket.sync import Runtime as BlockingRuntime

HOOK = {
    "url": "http://127.0.0.1:9/hook",
    "secret": "whsec_" + b64encode(b"a secret of this test, 32 bytes.").decode(),
    "name": "nobody",
    "events": ["call.ended"],
    "allow_private": True,
    "retry": [0.001],
}


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_over_http_and_by_the_client() -> None:
    async with served([add], webhooks=[HOOK]) as it, Client(it.url) as client:
        await it.call("add", {"a": 1, "b": 2})
        page = await eventually(lambda: _failed(client, it.runtime))
        [notice] = page.items
        assert (notice.endpoint, notice.type, notice.payload) == ("nobody", "call.ended", None)
        assert "could not be reached" in notice.problem
        whole = await client.notices.get(notice.id)
        assert whole.payload is not None
        assert whole.payload["data"]["call"]["tool"] == "add"
        again = await client.notices.replay(notice.id)
        assert (again.state, again.replays) == ("pending", 1)
        with pytest.raises(NotFound):
            await client.notices.get("msg_nothing")
        assert (await client.notices.list(type="tool.health")).items == []
        for query in ({"state": "lost"}, {"type": "x"}, {"limit": 0}, {"cursor": "x"}):
            assert (await it.get("/notices", params=query)).status_code == 400


async def _failed(client: Client, runtime: object) -> object:
    await runtime.engine.webhooks.delivery.look()  # type: ignore[attr-defined]
    page = await client.notices.list(state="failed")
    return page if page.items else None


def test_without_a_loop(tmp_path: Path) -> None:
    with BlockingRuntime([add], store=sqlite_url(tmp_path), webhooks=[HOOK]) as rt:
        rt.call("add", {"a": 1, "b": 2})
        [notice] = eventually_sync(lambda: rt.notices.list(state="failed").items)
        assert rt.notices.get(notice.id).type == "call.ended"
        assert rt.notices.replay(notice.id).replays == 1


def test_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(
        "from clicket import tool\n\n@tool\ndef add(a: int, b: int) -> int:\n    return a + b\n"
    )
    place = Place(tmp_path, sqlite_url(tmp_path), "sums", CLICKET_WEBHOOKS=json.dumps([{**HOOK, "retry": []}]))
    assert place.ask("notices") == {"items": [], "cursor": None}
    place.ask("call", "add", "a=1", "b=2")
    [notice] = place.ask("notices", "--failed")["items"]
    assert (notice["endpoint"], notice["state"], notice["tries"]) == ("nobody", "failed", 1)
    shown = place.inside("notices", COLUMNS="200")
    assert notice["id"] in shown.stdout
    assert "could not be reached" in shown.stdout
    assert place.ask("notices", "show", notice["id"])["payload"]["type"] == "call.ended"
    [sent] = place.ask("notices", "replay", notice["id"][:30])["items"]
    assert (sent["id"], sent["replays"]) == (notice["id"], 1)
    assert place.ask("audit")["items"][0]["what"] == "notice.replayed"
    for wrong in (("replay",), ("show",), ("nonsense",), ("replay", "msg_x")):
        assert place.inside("notices", *wrong).returncode != 0
    assert HOOK["secret"] not in place.inside("config").stdout
