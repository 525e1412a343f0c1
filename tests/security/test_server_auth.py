"""Keys and access tokens: every route needs one, no caller sees data of another, scopes are enforced, and revocation works at once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.issuer import Issuer, bearer, issuing, raw_token
from tests.kit.waiting import eventually
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import Api, key_for, read_sse, served

from clicket import Policy, tool
from clicket.errors import UsageError
from clicket.server import keys
from clicket.server.problems import Refused

PUBLIC = {"/", "/console/app.js", "/console/app.css", "/console/icon.svg", "/healthz", "/readyz"}
WELL_KNOWN = {"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"}
STATIC = "tester:read+call:0123456789abcdef0123"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else sqlite_url(tmp_path)


class World:
    """A server whose callers have keys, or access tokens of an issuer."""

    def __init__(self, store: str, issuer: Issuer | None) -> None:
        self.store = store
        self.issuer = issuer

    @asynccontextmanager
    async def served(self, **more: Any) -> AsyncIterator[Api]:
        async with served(store=self.store, oauth={} if self.issuer is None else self.issuer.settings(), **more) as it:
            yield it

    async def caller(self, it: Api, name: str, *scopes: str) -> dict[str, str]:
        """The header of a caller with these scopes."""
        return await key_for(it, name, *scopes) if self.issuer is None else bearer(self.issuer.sign(*scopes, sub=name))


@pytest.fixture(params=["keys, memory", "keys, sqlite", "tokens, memory"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    kind, store = request.param.split(", ")
    url = "memory://" if store == "memory" else sqlite_url(tmp_path)
    if kind == "keys":
        yield World(url, None)
        return
    async with issuing() as issuer:
        yield World(url, issuer)


def path_of(operation: Any, **names: str) -> str:
    path: str = operation.path
    for name in ("id", "threadId", "name", "token", "provider"):
        path = path.replace("{" + name + "}", names.get(name, "x"))
    return path


async def ask(it: Api, operation: Any, headers: dict[str, str], **names: str) -> Any:
    """One harmless request, its body as small as possible."""
    body: dict[str, Any] = {}
    if operation.body is not None and operation.body.schema is not None:
        body = {"json": {"tool": "add", "arguments": {"a": 1, "b": 1}} if operation.path == "/calls" else {}}
        if operation.path.endswith("/resolve"):
            body = {"json": {"happened": True}}
        if operation.path.endswith("/report"):
            body = {"json": {"ok": True}}
        if operation.path.endswith("/respond"):
            body = {"json": {"output": 1}}
        if operation.method == "PUT":
            body = {"json": {"status": "maintenance"}}
    request = it.client.build_request(operation.method, path_of(operation, **names), headers=headers, **body)
    response = await it.client.send(request, stream=True)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        await response.aclose()
    else:
        await response.aread()
    return response


async def test_no_route_without_a_key(store: str) -> None:
    async with served(store=store) as it:
        right = (await key_for(it, "a", "admin"))["authorization"]
        wrong: list[dict[str, Any]] = [
            {},
            {"authorization": "Bearer nonsense"},
            {"authorization": "Bearer ck_000000000000_secret"},
            {"authorization": "Basic YTpi"},
            {"authorization": right[:-1]},
            {"authorization": right + "x"},
            {"authorization": right.rpartition("_")[0] + "_"},
            {"x-api-key": right},
            {"x-api-key": "x"},
            {"authorization": b"Bearer \xe4"},
        ]
        for operation in it.parts.operations:
            for headers in wrong:
                response = await ask(it, operation, headers)
                if operation.path in PUBLIC:
                    assert response.status_code == 200
                elif operation.path in WELL_KNOWN:
                    assert response.status_code == 404, "there is no authorization server"
                elif operation.path.startswith("/external/"):
                    assert response.status_code == 404, "the token authorises, and this one is none"
                elif operation.path.startswith(
                    ("/approvals/", "/connect/")
                ):  # the link is the key, and this one is none
                    assert response.status_code == 404
                else:
                    assert response.status_code == 401, (operation.path, headers)
                    assert response.headers["www-authenticate"].startswith("Bearer")
                    assert response.json()["code"] == "unauthorized"
        for path in ("/nowhere", "/docs", "/redoc", "/mcp", "/console", "/.env"):
            assert (await it.get(path)).status_code == 401
        assert (await it.get("/calls", params={"api_key": "x"})).status_code == 401


async def test_no_route_without_a_token() -> None:
    async with issuing() as issuer, served(oauth=issuer.settings()) as it:
        wrong: list[dict[str, Any]] = [
            {},
            bearer(raw_token({"alg": "none"}, issuer.claims("admin"), b"")),
            bearer(issuer.sign("admin", exp=5)),
            bearer(issuer.sign("admin", aud="https://other.example")),
            {"x-api-key": issuer.sign("admin")},
        ]
        for operation in it.parts.operations:
            for headers in wrong:
                response = await ask(it, operation, headers)
                if operation.path in PUBLIC | WELL_KNOWN:
                    assert response.status_code == 200
                elif operation.path.startswith(("/external/", "/connect/")) or operation.path == "/approvals/{token}":
                    assert response.status_code in (400, 404)
                else:
                    assert (response.status_code, response.json()["code"]) == (401, "unauthorized"), (
                        operation.path,
                        headers,
                    )
                    assert 'resource_metadata="http://' in response.headers["www-authenticate"]
        for path in ("/nowhere", "/mcp", "/.well-known", "/.well-known/oauth-protected-resource/calls"):
            assert (await it.get(path)).status_code == 401


async def test_every_operation_needs_its_scope(world: World) -> None:
    async with world.served() as it:
        held = {scope: await world.caller(it, scope, scope) for scope in keys.SCOPES}
        for operation in it.parts.operations:
            if operation.public or not operation.scopes:
                continue
            for scope, headers in held.items():
                response = await ask(it, operation, headers)
                may = scope in operation.scopes or scope == "admin"
                refused = response.status_code == 403 and response.json()["code"] == "missing_scope"
                if operation.path == "/calls" and operation.method == "GET" and scope == "approve":
                    assert refused  # it lists what waits, and nothing else
                elif operation.path.endswith(("/approve", "/deny", "/respond", "/resolve")):
                    assert response.status_code == 404  # also without the scope approve: there is no such call
                else:
                    assert refused is not may, (operation.method, operation.path, scope, response.status_code)


async def test_mcp_is_behind_the_same_door() -> None:
    async with served(options={"max_body_size": 1_000}) as it:
        reads, calls = await key_for(it, "r", "read"), await key_for(it, "c", "call")
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        kinds = {"accept": "application/json, text/event-stream"}
        assert (await it.post("/mcp", json=body, headers=kinds)).status_code == 401
        refused = await it.post("/mcp", json=body, headers={**kinds, **reads})
        assert (refused.status_code, refused.json()["code"]) == (403, "missing_scope")
        large = await it.post("/mcp", json={**body, "params": {"x": "x" * 2_000}}, headers={**kinds, **calls})
        assert large.status_code == 413
        assert (await it.post("/mcp", json=body, headers={**kinds, **calls})).status_code in (200, 400)


async def test_what_belongs_to_one_caller_is_not_there_for_another(world: World) -> None:
    async with world.served() as it:
        a, b = await world.caller(it, "a", "read", "call"), await world.caller(it, "b", "read", "call", "approve")
        c, admin = await world.caller(it, "c", "read", "call"), await world.caller(it, "root", "admin")
        made = (await it.call("long", {}, thread="mine", id="guessable", headers=a)).json()
        upload = (await it.post("/artifacts", content=b"private", headers=a)).json()
        assert (await it.get(f"/artifacts/{made['artifact']}", headers=a)).text == "x" * 5000
        missing = await it.get("/calls/never-made", headers=b)
        for operation in it.parts.operations:
            if "{id}" not in operation.path:
                continue
            if operation.path.startswith(
                ("/workers/", "/notices/", "/grants/")
            ):  # of the operator alone, or of approvers
                assert (await ask(it, operation, a, id="guessable")).status_code == 403
                continue
            action = operation.path.rpartition("/")[2]
            ids = [made["artifact"], upload["id"]] if operation.path.startswith("/artifacts") else ["guessable"]
            for id in ids:
                for headers, expected in ((b, 404), (c, 404), (a, 200)):
                    response = await ask(it, operation, headers, id=id)
                    if expected == 404:
                        assert response.status_code == 404, (operation.path, response.status_code)
                    elif action in ("approve", "deny", "respond", "resolve"):
                        assert (response.status_code, response.json()["code"]) == (403, "missing_scope")
                    else:
                        status = {"again": 202, "requeue": 409}.get(action, 200)
                        assert response.status_code == status, (operation.path, response.status_code)
                response = await ask(it, operation, admin, id=id)
                assert response.status_code in (200, 202, 409), (operation.path, response.status_code)
        hidden = await it.get("/calls/guessable", headers=b)
        assert hidden.json()["detail"].replace("guessable", "") == missing.json()["detail"].replace("never-made", "")
        assert (await it.get("/calls", headers=b)).json()["items"] == []
        assert (await it.get("/calls", params={"thread": "mine"}, headers=b)).json()["items"] == []
        for key in (a, admin):  # and the calls that the key and the administrator ran again
            seen = (await it.get("/calls", params={"order": "asc"}, headers=key)).json()["items"]
            assert [call["id"] for call in seen if call["id"] == "guessable"] == ["guessable"]
            assert {call["caller"] for call in seen} == {seen[0]["caller"]}
        assert (await it.get("/report", headers=b)).json()["totals"]["total"] == 0
        assert "clicket_tool_executions_total{" not in (await it.get("/metrics", headers=b)).text
        # The same id and thread, used by another key, is another call.
        other = (await it.call("add", {"a": 1, "b": 1}, thread="mine", id="guessable", headers=b)).json()
        assert other["output"] == 2


async def test_threads_are_apart(store: str) -> None:
    async with served(store=store) as it:
        a, b = await key_for(it, "a", "read", "call"), await key_for(it, "b", "read", "call")
        admin = await key_for(it, "root", "admin")
        url = "/agents/shared-name/tool-states"
        assert (
            await it.put(f"{url}/add", json={"status": "maintenance", "reason": "mine"}, headers=a)
        ).status_code == 200
        assert (await it.get(url, headers=a)).json()["data"]["toolStates"]["add"]["status"] == "maintenance"
        assert (await it.get(url, headers=b)).json()["data"]["toolStates"]["add"]["status"] == "available"
        await it.post(f"{url}/reset", headers=b)
        assert (await it.get(url, headers=a)).json()["data"]["toolStates"]["add"]["status"] == "maintenance"
        id = a["authorization"].split("_")[1]
        assert (await it.get(url, params={"caller": id}, headers=b)).status_code == 403
        seen = (await it.get(url, params={"caller": id}, headers=admin)).json()
        assert seen["data"]["toolStates"]["add"]["status"] == "maintenance"


async def test_events_of_all_calls_are_those_of_the_caller(world: World) -> None:
    async with world.served() as it:
        a, b = await world.caller(it, "a", "read", "call"), await world.caller(it, "b", "read", "call")
        admin = await world.caller(it, "root", "admin")
        seen: dict[str, list[str]] = {}

        async def follow(name: str, headers: dict[str, str], count: int) -> None:
            async with it.stream("GET", "/events", headers=headers) as response:
                ready.append(name)
                async for event in read_sse(response):
                    seen.setdefault(name, []).append(event["data"]["call_id"])
                    if sum(1 for _ in seen[name]) >= count and event["data"]["state"] == "completed":
                        return

        ready: list[str] = []
        tasks = [asyncio.create_task(follow("a", a, 1)), asyncio.create_task(follow("b", b, 1))]
        tasks.append(asyncio.create_task(follow("root", admin, 12)))
        await eventually(lambda: len(ready) == 3)
        await it.call("add", {"a": 1, "b": 1}, id="of-a", headers=a)
        await it.call("add", {"a": 1, "b": 1}, id="of-b", headers=b)
        await asyncio.gather(*tasks)
        assert set(seen["a"]) == {"of-a"}
        assert set(seen["b"]) == {"of-b"}
        assert set(seen["root"]) == {"of-a", "of-b"}


async def test_scope_approve_decides_for_anybody_and_sees_nothing_else(world: World) -> None:
    async with world.served(policy=Policy(ask=["add"])) as it:
        a, boss = await world.caller(it, "a", "read", "call"), await world.caller(it, "boss", "approve")
        await it.post("/calls", json={"tool": "add", "arguments": {"a": 1, "b": 1}, "id": "w"}, headers=a)
        await it.call("echo", {"value": 1}, id="e", headers=a)
        waiting = (await it.get("/calls", params={"waiting_for": "approval"}, headers=boss)).json()["items"]
        assert [item["id"] for item in waiting] == ["w"]
        assert (await it.get("/calls/w", headers=boss)).json()["arguments"] == {"a": 1, "b": 1}
        assert (await it.get("/calls/e", headers=boss)).status_code == 404
        assert (await it.get("/calls/w/events", headers=boss)).status_code == 403, "it would outlast the decision"
        assert (await it.post("/calls/e/approve", headers=boss)).status_code == 404
        assert (await it.post("/calls/w/approve", headers=a)).status_code == 403
        assert (await it.post("/calls/w/cancel", headers=boss)).status_code == 403
        decided = (await it.post("/calls/w/approve", headers=boss)).json()
        assert decided["approved"] is True
        assert decided["by"].endswith("boss")
        assert (await (await it.runtime.handle("w")).result()).output == 2
        assert (await it.get("/calls/w", headers=boss)).status_code == 404
        assert (await it.post("/calls/w/approve", headers=boss)).status_code == 404


async def test_a_revoked_key_fails_at_once_in_every_process(tmp_path: Path) -> None:
    store = sqlite_url(tmp_path)
    async with served(store=store) as one, served(store=store) as two:
        headers = await key_for(one, "a", "read")
        two.parts.authenticator.checked_at = float("-inf")
        for it in (one, two):
            assert (await it.get("/calls", headers=headers)).status_code == 200
        await keys.revoke(one.runtime.store, headers["authorization"].split("_")[1], now=time.time())
        for it in (one, two):
            assert (await it.get("/calls", headers=headers)).status_code == 401
            assert (await it.get("/calls")).status_code == 401, "authentication stays on once it was on"


async def test_an_expired_key_and_a_static_one() -> None:
    async with served(options={"api_keys": (STATIC, "a-bare-secret-of-good-length")}) as it:
        now = time.time()
        _, text = await keys.create(it.runtime.store, name="old", scopes=["read"], now=now - 9, expires_at=now - 1)
        assert (await it.get("/calls", headers={"x-api-key": text})).status_code == 401
        good = {"x-api-key": STATIC.rpartition(":")[2]}
        assert (await it.get("/calls", headers=good)).status_code == 200
        assert (await it.get("/audit", headers=good)).status_code == 403
        assert (await it.get("/audit", headers={"x-api-key": "a-bare-secret-of-good-length"})).status_code == 200
        assert (
            await it.get("/calls", headers={**good, "authorization": f"Bearer {good['x-api-key']}"})
        ).status_code == 401
        made = (await it.call("add", {"a": 1, "b": 1}, headers=good)).json()
        assert (await it.runtime.get(made["call_id"])).caller == "tester"


@pytest.mark.parametrize(
    "text", ["short", "name:read", "name:fly:0123456789abcdef", "n::0123456789abcdef", "a:read:sp ace 012345678"]
)
def test_static_keys_that_are_none(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        keys.parse_static([text])
    assert "0123456789abcdef" not in str(refused.value)


async def test_the_first_key_closes_the_door() -> None:
    async with served() as it:
        assert (await it.get("/calls")).status_code == 200
        await key_for(it, "a", "read")
        assert (await it.get("/calls")).status_code == 401


async def test_without_keys_only_loopback() -> None:
    with pytest.raises(UsageError, match="keys create"):
        async with served(host="0.0.0.0"):
            pass
    async with served(host="0.0.0.0", options={"api_keys": (STATIC,)}) as it:
        headers = {"x-api-key": STATIC.rpartition(":")[2], "host": f"127.0.0.1:{it.served.port}"}
        assert (await it.get(f"http://127.0.0.1:{it.served.port}/calls", headers=headers)).status_code == 200


async def test_without_keys_requests_from_elsewhere_are_refused_whatever_was_bound() -> None:
    async with served() as it:
        authenticator = it.parts.authenticator
        assert (await authenticator.authenticate([], ("127.0.0.1", 5))).id == ""
        with pytest.raises(Refused):
            await authenticator.authenticate([], ("192.0.2.7", 5))


async def test_a_key_is_nowhere_but_with_its_owner(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(store=sqlite_url(tmp_path)) as it:
        headers = await key_for(it, "a", "read", "call")
        made = (await it.call("add", {"a": 1, "b": 1}, headers=headers)).json()
        await it.get(f"/calls/{made['call_id']}", headers=headers)
        await it.get(f"/calls/{made['call_id']}?thread=sesame-open", headers=headers)
        await it.get("/calls?api_key=sesame-open", headers=headers)
        secret = headers["authorization"].split("_", 2)[2]
        lines = [record.getMessage() for record in caplog.records if record.name == "clicket.access"]
        assert any("GET /calls/{id} 200" in line and f"call={made['call_id']}" in line for line in lines)
        assert not any("sesame" in line for line in lines)
        assert secret not in caplog.text
        assert "sesame-open" not in "".join(lines)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert secret.encode() not in kept
    assert keys.hash_of(secret).encode() in kept


async def test_an_empty_scope_list_and_odd_names_are_refused() -> None:
    async with served() as it:
        for name, scopes in (("", ["read"]), ("a\nb", ["read"]), ("a", []), ("a", ["root"])):
            with pytest.raises(UsageError):
                await keys.create(it.runtime.store, name=name, scopes=scopes, now=1.0)


async def test_keys_are_looked_up_without_waiting_where_the_store_can(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(store=store) as it:
        headers = await key_for(it, "a", "read")

        async def document(*_: Any) -> Any:
            raise AssertionError("it need not be waited for")

        with monkeypatch.context() as patched:
            patched.setattr(it.runtime.store, "document", document)
            assert (await it.get("/calls", headers=headers)).status_code == 200
            assert (await it.get("/calls", headers={"x-api-key": "ck_000000000000_x"})).status_code == 401
        with monkeypatch.context() as patched:
            patched.setattr(it.runtime.store, "document_now", lambda *_: None)
            assert (await it.get("/calls", headers=headers)).status_code == 200


@pytest.mark.parametrize("policy", [None, Policy(deny=["something_else"]), Policy(allow=["*"])])
async def test_a_policy_opens_no_tool_whose_permission_a_key_lacks(policy: Policy | None) -> None:
    @tool(permissions=["billing"])
    async def refund() -> str:
        """Pay back."""
        return "paid"

    async with served([refund], policy=policy) as it:
        key, admin = await key_for(it, "k", "read", "call"), await key_for(it, "root", "admin")
        refused = await it.call("refund", {}, headers=key)
        assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
        assert (await it.call("refund", {}, headers=admin)).status_code == 200
