"""While the store does not answer: clients get 503 without details, metrics report it, and access does not widen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import Api, key_for, served

from clicket.errors import StoreUnavailable

WHERE = "postgresql://clerk@10.1.2.3/ledger"
ADMIN, READER = "a-static-key-of-an-admin", "a-static-key-of-a-reader"


@contextmanager
def down(it: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    async def gone(*args: Any, **named: Any) -> Any:
        raise StoreUnavailable(f"{WHERE}: connection refused. Start it.", url=WHERE)

    def not_now(*args: Any) -> None:
        return None

    store = it.runtime.store
    with monkeypatch.context() as broken:
        for name in ("history", "load", "document", "documents", "figures", "tool_health", "cache_stats", "audited"):
            if hasattr(store, name):
                broken.setattr(store, name, gone)
        broken.setattr(store, "document_now", not_now)
        it.parts.authenticator.checked_at = 0.0  # the next check is due
        yield


async def test_clients_do_not_learn_where_the_store_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as it:
        await it.call("add", {"a": 1, "b": 1}, id="known")
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get"}
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        }
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tasks/get",
            "mcp-name": "known",
        }
        with down(it, monkeypatch), caplog.at_level(logging.WARNING):
            it.parts.authenticator.checked_at = asyncio.get_running_loop().time() + 1e9  # no check of keys in this test
            answers: list[httpx2.Response] = [
                await it.get("/calls"),
                await it.get("/calls/known"),
                await it.get("/calls/known/events"),
                await it.get("/calls", headers={"x-api-key": "ck_0123456789ab_secret"}),
                await it.post("/mcp", json={**rpc, "params": {"taskId": "known", "_meta": meta}}, headers=headers),
            ]
        for answer in answers:
            assert "10.1.2.3" not in answer.text
            assert "clerk" not in answer.text
            assert "store" in answer.text, answer.text
        assert [answer.status_code for answer in answers[:2]] == [503, 503]
        assert caplog.text.count("10.1.2.3") >= len(answers)  # the log contains it


@pytest.mark.parametrize("key", [None, ADMIN, READER])
async def test_metrics_tell_that_the_store_is_down(key: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = () if key is None else (f"admin:admin:{ADMIN}", f"reader:read:{READER}")
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with served(options={"api_keys": keys}) as it:
        up = (await it.get("/metrics", headers=headers)).text
        assert "clicket_tool_executions_total" in up
        with down(it, monkeypatch):
            page = await it.get("/metrics", headers=headers)
            assert page.status_code == 200, page.text
            assert "\nclicket_store_up 0.0\n" in page.text
            assert "clicket_tool_executions_total" not in page.text  # a zero would look like a reset counter
            assert (await it.get("/report", headers=headers)).status_code == 503
            if key is None:
                stranger = {"authorization": "Bearer ck_0123456789ab_secret"}
                assert (await it.get("/metrics", headers=stranger)).status_code == 503
            else:
                assert (await it.get("/metrics")).status_code == 401


async def test_a_key_that_cannot_be_checked_does_not_open_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as it:
        headers = await key_for(it, "reader", "read")
        assert (await it.get("/metrics", headers=headers)).status_code == 200
        assert (await it.get("/metrics")).status_code == 401
        with down(it, monkeypatch):
            assert (await it.get("/metrics", headers=headers)).status_code == 503
            assert (await it.get("/metrics")).status_code == 401


def test_a_server_whose_keys_are_all_revoked_says_that_every_request_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "tests.scenarios.server_tools:TOOLS")
    try:
        made = place.ask("keys", "create", "--name", "gone")
        place.ask("keys", "revoke", made["id"])
        server = place.start("--json", "serve", "--port", "0")
        ready = server.wait_for("ready")
        assert (ready["auth"], ready["keys"]) == ("keys", 0)
        assert httpx2.get(f"{ready['url']}/calls").status_code == 401
        people = place.start("serve", "--port", "0")
        people.until(lambda: "tools  " in people.err)
        assert "every key is revoked or expired" in people.err
        assert "no keys" not in people.err
    finally:
        place.close()
