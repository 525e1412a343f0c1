"""The application alone: it opens and closes its runtime, mounts in another application, and answers while the store
does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from tests.kit.waiting import eventually
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import TOOLS, served

from clicket.errors import StoreUnavailable, UsageError
from clicket.runtime.runtime import Runtime
from clicket.server import Options, create_app, serve, serving


def test_it_opens_and_closes_its_runtime(store: str) -> None:
    runtime = make(TOOLS, store)
    app = create_app(runtime)
    with TestClient(app, base_url="http://localhost", client=("127.0.0.1", 5)) as client:
        made = client.post("/calls", json={"tool": "add", "arguments": {"a": 1, "b": 2}, "wait": True})
        assert made.json()["output"] == 3
        assert app.openapi()["paths"].keys() == client.get("/openapi.json").json()["paths"].keys()
    assert not runtime.is_open


@pytest.mark.parametrize("path", ["", "/tools-api"])
def test_it_is_mounted_in_another_application(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKET_API_KEYS", f"ops:read+call:{SECRET}")
    app = create_app(Runtime(TOOLS, store="memory://"))
    outer = Starlette(routes=[Mount(path, app)], lifespan=app.lifespan)
    with TestClient(outer, base_url="http://localhost", client=("127.0.0.1", 5)) as client:
        assert client.get(f"{path}/healthz").status_code == 200
        assert client.get(f"{path}/tools").status_code == 401
        client.headers["x-api-key"] = SECRET
        body = {"tool": "add", "arguments": {"a": 1, "b": 2}, "id": "a/b"}
        assert client.post(f"{path}/calls", json={**body, "wait": True}).json()["output"] == 3
        submitted = client.post(f"{path}/calls", json=body)
        assert client.get(submitted.headers["location"]).json()["id"] == "a/b"
        assert client.get(f"{path}/nothing").json()["code"] == "not_found"
        refused = client.put(f"{path}/calls")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")


def test_it_is_mounted_in_fastapi_which_starts_and_stops_it_as_often_as_itself(tmp_path: Path) -> None:
    runtime = make(TOOLS, sqlite_url(tmp_path))
    app = create_app(runtime)
    outer = FastAPI(lifespan=app.lifespan)
    outer.mount("/tools-api", app)
    for number in range(2):  # tests of an application start it again and again
        with TestClient(outer, base_url="http://localhost", client=("127.0.0.1", 5)) as client:
            body = {"tool": "add", "arguments": {"a": number, "b": 2}, "id": f"c{number}", "wait": True}
            assert client.post("/tools-api/calls", json=body).json()["output"] == number + 2
            assert client.get("/tools-api/readyz").json()["ready"]
            with client.stream("GET", f"/tools-api/calls/c{number}/events") as stream:
                assert "event: state_changed" in stream.read().decode()
        assert not runtime.is_open


def test_fastapi_starts_it_in_a_lifespan_of_its_own() -> None:
    runtime = Runtime(TOOLS, store="memory://")
    app = create_app(runtime)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with runtime, app.lifespan():
            yield
            assert runtime.is_open  # opened here, so closed here

    outer = FastAPI(lifespan=lifespan)
    outer.mount("/tools-api", app)
    with TestClient(outer, base_url="http://localhost", client=("127.0.0.1", 5)) as client:
        body = {"tool": "add", "arguments": {"a": 1, "b": 2}, "wait": True}
        assert client.post("/tools-api/calls", json=body).json()["output"] == 3
    assert not runtime.is_open


def test_mounted_and_not_started_it_says_how_to_start_it() -> None:
    outer = FastAPI()
    outer.mount("/tools-api", create_app(Runtime(TOOLS, store="memory://")))
    with TestClient(outer, base_url="http://localhost", client=("127.0.0.1", 5)) as client:
        for path in ("/tools", "/calls", "/metrics", "/"):
            refused = client.get(f"/tools-api{path}")
            assert (refused.status_code, refused.json()["code"]) == (503, "not_started")
            assert "FastAPI(lifespan=app.lifespan)" in refused.json()["detail"]
        assert client.get("/tools-api/healthz").status_code == 200
        assert client.get("/tools-api/readyz").json() == {"ready": False, "reason": "not_started"}


async def test_serve_until_stop_is_set() -> None:
    runtime, stop, ready = make(TOOLS), asyncio.Event(), []
    task = asyncio.create_task(serve(runtime, port=0, stop=stop, ready=ready.append))
    await eventually(lambda: ready)
    assert ready[0].url == f"http://127.0.0.1:{ready[0].port}"
    stop.set()
    await task
    assert not runtime.is_open


async def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "calls.db").write_bytes(b"not a database, but long enough to look like something" * 100)
    with pytest.raises(StoreUnavailable):
        await serve(make(TOOLS, sqlite_url(tmp_path)), port=0)
    runtime = make(TOOLS)
    async with runtime:
        runtime.observers.listeners = None  # what the application needs when it starts
        with pytest.raises(UsageError, match="did not start"):
            await serve(runtime, port=0)


async def test_a_store_that_does_not_answer_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as it:

        async def gone(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable("the disk is gone. Plug it in.")

        def refused(change: Any, done: Any) -> None:
            done(change, StoreUnavailable("the disk is gone. Plug it in."))

        with monkeypatch.context() as broken:
            broken.setattr(it.runtime.store, "history", gone)
            broken.setattr(it.runtime.store, "document", gone)
            broken.setattr(it.runtime.store, "document_now", lambda *_: None)
            broken.setattr(it.runtime.engine.journal, "_append", refused)
            answers = [
                await it.get("/calls"),
                await it.call("add", {"a": 1, "b": 1}),
                await it.post("/calls", json={"tool": "add", "arguments": {"a": 1, "b": 1}}),
                await it.get("/tools", headers={"x-api-key": "ck_0123456789ab_secret"}),
            ]
            for answer in answers:
                assert answer.status_code == 503, answer.text
                assert answer.json()["code"] == "store_unavailable"
                assert answer.headers["retry-after"]
            ready = await it.get("/readyz")
            assert (ready.status_code, ready.json()) == (503, {"ready": False, "reason": "store_unavailable"})
            assert (await it.get("/healthz")).status_code == 200
        it.parts.health.last_check = (time.monotonic() - 60, None)
        assert (await it.get("/readyz")).status_code == 200
        assert (await it.call("add", {"a": 1, "b": 1})).status_code == 200


SECRET = "a-secret-of-the-settings"
OTHER = "another-secret-of-the-code"


@pytest.mark.parametrize("options", [None, Options(max_body_size=1_000_000), Options(api_keys=(OTHER,))])
async def test_keys_hosts_and_origins_of_the_settings_hold_however_the_server_is_made(
    monkeypatch: pytest.MonkeyPatch, options: Options | None
) -> None:
    monkeypatch.setenv("CLICKET_API_KEYS", f"ops:read:{SECRET}")
    monkeypatch.setenv("CLICKET_ALLOWED_HOSTS", "tools.example")
    monkeypatch.setenv("CLICKET_ALLOWED_ORIGINS", "https://app.example")
    key = {"authorization": f"Bearer {SECRET}"}
    named = {**key, "host": "tools.example", "origin": "https://app.example"}
    with TestClient(
        create_app(Runtime(TOOLS, store="memory://"), options),
        base_url="http://localhost",
        client=("127.0.0.1", 5),
    ) as client:
        assert client.get("/tools").status_code == 401
        assert client.get("/tools", headers=key).status_code == 200
        answer = client.get("/tools", headers=named)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://app.example")
        given = options is not None and bool(options.api_keys)
        assert client.get("/tools", headers={"x-api-key": OTHER}).status_code == (200 if given else 401)
    async with (
        serving(Runtime(TOOLS, store="memory://"), port=0, options=options) as server,
        httpx2.AsyncClient(base_url=server.url) as http,
    ):
        assert (await http.get("/tools")).status_code == 401
        assert (await http.get("/tools", headers=named)).status_code == 200


async def test_a_key_of_the_settings_lets_the_server_be_open_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKET_API_KEYS", f"ops:read:{SECRET}")
    async with serving(Runtime(TOOLS, store="memory://"), host="0.0.0.0", port=0) as server:
        assert server.keys == 1


@pytest.mark.parametrize("bad", [{"max_body_size": 0}, {"heartbeat": -1.0}, {"stall_timeout": float("nan")}])
def test_options_that_cannot_be(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Options(**bad)


async def test_the_front_page_links_to_what_there_is() -> None:
    async with served() as it:
        page = await it.get("/")
        assert page.headers["content-type"].startswith("text/html")
        links = [part.split('"')[0] for name in ('href="', 'src="') for part in page.text.split(name)[1:]]
        assert links
        for link in links:
            assert (await it.get(link)).status_code == 200


async def test_the_access_log_can_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="clicket.access")
    async with served(options={"access_log": False}) as it:
        await it.get("/healthz")
    async with served() as it:
        await it.get("/readyz")
    lines = [record.getMessage() for record in caplog.records if record.name == "clicket.access"]
    assert len(lines) == 1
    assert lines[0].startswith("GET /readyz 200 ")


async def test_every_list_has_its_entries_in_items(tmp_path: Path) -> None:
    async with served(store=sqlite_url(tmp_path)) as it:
        await it.post("/calls", json={"tool": "add", "arguments": {"a": 1, "b": 2}, "wait": True})
        for path in ("/tools", "/audit", "/anomalies", "/agents", "/calls", "/cache/items"):
            assert isinstance((await it.get(path)).json()["items"], list), path
