"""Attacks on credentials: another caller's token is out of reach, and no secret is found in any store, log, result or page."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from tests.kit.authorization_server import AuthorizationServer
from tests.kit.waiting import eventually
from tests.scenarios.connect_kit import Browser, connecting_server
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import key_for

from clicket import RestTool, RetryableError, Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel

logger = logging.getLogger("clicket.tests")
KEY = "the key of the security of credentials"


@pytest.fixture(scope="module")
def bank() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as server:
        yield server


@tool(credentials=["github"], read_only=True)
async def whoami(ctx: ToolContext) -> str:
    return ctx.credential("github").partition("-")[0]


@tool(credentials=["github"], failure_threshold=1_000, retry_delay=0.001)
async def careless(how: str, ctx: ToolContext) -> Any:
    """Gives its token away in every way."""
    token = ctx.credential("github")
    logger.warning("the token is %s", token)
    ctx.note(f"it is {token}", token=token, deep=[{token: token}])
    ctx.progress(1, 2, f"with {token}")
    if how == "emit":
        for piece in (token[:5], token[5:9], token[9:]):
            ctx.emit(piece)
        ctx.emit({"token": token})
    if how == "raise":
        raise ValueError(f"{token} is not a good")
    if how == "retry" and ctx.attempt == 1:
        raise RetryableError(f"{token} is not a good yet")
    if how == "big":
        return {"filler": "x" * 2_000_000, "token": token, token: 1}
    await ctx.checkpoint("c", token.encode())
    return {"token": f"Bearer {token}", "list": [token], "metadata": dict(ctx.metadata)}


@pytest.mark.parametrize("how", ["return", "emit", "raise", "retry", "big"])
async def test_a_careless_tool_gives_nothing_away(tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str) -> None:
    token = f"gift-{secrets.token_hex(20)}"
    store = sqlite_url(tmp_path)
    with caplog.at_level(logging.DEBUG):
        async with make([careless], store, secret_key=KEY) as rt:
            ann = rt.acting_for("ann")
            await ann.credentials.put("github", token)
            result = await ann.call("careless", {"how": how}, id="c", metadata={"mine": 1})
            record, audited = await ann.get("c"), await rt.audit.list()
            seen = [result, record, audited, await ann.credentials.list(), [repr(rt), repr(record), repr(rt.settings)]]
            if result.artifact is not None:
                assert token.encode() not in await rt.artifact(result.artifact)
    assert result.metadata["mine"] == 1
    for each in seen:
        assert token.encode() not in msgspec.json.encode(each, enc_hook=repr)
    assert token not in caplog.text
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes(), path


async def test_callers_side_by_side_never_get_each_others(tmp_path: Path) -> None:
    async with make([whoami], sqlite_url(tmp_path), secret_key=KEY, max_concurrency=8) as rt:
        names = [f"caller{number}" for number in range(10)]
        for name in names:
            await rt.credentials.put("github", f"{name}-t0ken", caller=name)
        calls = [(name, rt.acting_for(name).call("whoami")) for _ in range(5) for name in names]
        for (name, _), result in zip(calls, await asyncio.gather(*(call for _, call in calls)), strict=True):
            assert result.output == name


async def test_a_call_inside_a_call_uses_the_credential_of_the_one_it_is_made_for() -> None:
    """A tool that calls another one through the runtime is the program; an agent's tool calls are its caller's."""
    async with make([whoami], secret_key=KEY) as rt:

        @tool
        async def nested(ctx: ToolContext, caller: str) -> str:
            return str((await rt.acting_for(ctx.caller).call("whoami")).output)

        rt.add(nested)
        await rt.credentials.put("github", "program-t0ken")
        await rt.credentials.put("github", "ann-t0ken", caller="ann")
        await rt.credentials.put("github", "bob-t0ken", caller="bob")
        assert (await rt.acting_for("ann").call("nested", {"caller": "bob"})).output == "ann"
        inner = ReActAgent(rt, ScriptedModel([[("whoami", {})], "inner done"]), name="inner")
        rt.add(inner.as_tool("inner", "Asks."))
        outer = ReActAgent(
            rt.acting_for("bob"), ScriptedModel([[("whoami", {}), ("inner", {"task": "go"})], "done"]), name="outer"
        )
        await outer.run("who am I?", thread="t")
        outputs = [
            (record.caller, record.output)
            for record in (await rt.history(tool="whoami")).items
            if record.caller == "bob"
        ]
        assert outputs == [("bob", "bob"), ("bob", "bob")]


async def test_a_key_sees_and_changes_its_own_alone(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, [whoami]) as it:
        ann, bob = await key_for(it, "ann", "read", "call"), await key_for(it, "bob", "read", "call")
        admin = await key_for(it, "root", "admin")
        made = (await it.put("/credentials/github", json={"secret": "ann-t0ken"}, headers=ann)).json()
        assert "secret" not in made
        assert "sealed" not in made
        assert (await it.get("/credentials", headers=bob)).json() == {"items": []}
        assert (await it.delete("/credentials/github", headers=bob)).status_code == 404
        for method, path in (
            ("GET", "/credentials"),
            ("DELETE", "/credentials/github"),
            ("POST", "/credentials/github/link"),
        ):
            refused = await it.request(method, path, params={"caller": made["caller"]}, headers=bob)
            assert refused.status_code == 403, (method, path)
        other = await it.put(
            "/credentials/github", params={"caller": made["caller"]}, json={"secret": "eves"}, headers=bob
        )
        assert other.status_code == 403
        listed = (await it.get("/credentials", headers=admin)).json()["items"]
        assert [each["caller"] for each in listed] == [made["caller"]]
        gone = await it.delete("/credentials/github", params={"caller": made["caller"]}, headers=admin)
        assert gone.status_code == 200
        reads = await key_for(it, "r", "read")
        assert (await it.put("/credentials/github", json={"secret": "t0ken"}, headers=reads)).status_code == 403


async def test_errors_and_pages_never_repeat_a_secret(
    bank: AuthorizationServer, caplog: pytest.LogCaptureFixture
) -> None:
    secret = f"two words {secrets.token_hex(8)}"
    with caplog.at_level(logging.DEBUG):
        async with connecting_server(bank, [whoami]) as it:
            wrong = await it.put("/credentials/github", json={"secret": secret})
            assert wrong.status_code == 422
            link = await it.runtime.credentials.link("github")
            page = await Browser().press(link.url, secret=secret)
            assert page.status_code == 400
            answers = wrong.text + page.text
    assert secret not in answers
    assert secret.rpartition(" ")[2] not in answers + caplog.text
    assert link.url.rpartition("/")[2] not in caplog.text, "the access log has the template of the path"


async def test_a_callback_in_another_browser_connects_nothing(bank: AuthorizationServer) -> None:
    """An attacker begins, and sends the last address to a victim, or the other way round."""
    async with connecting_server(bank, [whoami]) as it:
        attacker, victim = Browser(), Browser()
        begun = await attacker.until_callback((await it.runtime.credentials.link("bank", caller="attacker")).url)
        page = await victim.get(begun)
        assert page.status_code == 400
        assert "another browser" in page.text
        own = await victim.until_callback((await it.runtime.credentials.link("bank", caller="victim")).url)
        assert (await victim.get(begun)).status_code == 400, "a cookie of another request does not help"
        assert (await victim.get(own)).status_code == 200
        assert (await victim.get(own)).status_code == 410, "a replay"
        assert [each.caller for each in await it.runtime.credentials.list()] == ["victim"]
        for wrong in ("", "?state=x&code=y", f"?{own.partition('?')[2]}&state=other", "?state=%ff"):
            assert (await victim.get(f"{it.url}/connect/callback{wrong}")).status_code == 404


async def test_a_link_cannot_be_used_from_another_page(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, [whoami]) as it:
        link = await it.runtime.credentials.link("bank")
        async with httpx2.AsyncClient() as http:
            foreign = await http.post(link.url, headers={"origin": "https://evil.example"})
            assert foreign.status_code == 403
            page = await http.get(link.url)
            assert page.headers["x-frame-options"] == "DENY"
            assert page.headers["cache-control"] == "no-store"
            assert page.headers["referrer-policy"] == "same-origin"
            sent = await http.post(link.url)
            assert sent.status_code == 303
            cookie = sent.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Lax" in cookie
            assert "Path=/connect/callback" in cookie


async def test_a_caller_with_markup_in_its_name_is_shown_as_text(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, [whoami]) as it:
        link = await it.runtime.credentials.link("bank", caller="<script>alert(1)</script>")
        page = await Browser().get(link.url)
        assert "<script>" not in page.text
        assert "&lt;script&gt;" in page.text


async def test_a_redirect_to_another_origin_does_not_get_the_token(bank: AuthorizationServer) -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, RedirectResponse, Response
    from starlette.routing import Route
    from tests.mcp.kit import listening

    async def thief(request: Request) -> Response:
        return JSONResponse({"authorization": request.headers.get("authorization", "none")})

    async with listening(Starlette(routes=[Route("/", thief)])) as elsewhere:

        async def away(request: Request) -> Response:
            return RedirectResponse(elsewhere, 302)

        async with listening(Starlette(routes=[Route("/", away)])) as here:
            fetch = RestTool("fetch", "GET", here, credentials="github", allow_private=True)
            async with make([fetch], secret_key=KEY) as rt:
                await rt.credentials.put("github", "me-t0ken")
                assert (await rt.call("fetch")).output == {"authorization": "none"}


async def _waits(rt: Runtime) -> bool:
    return (await rt.get("c")).waiting_for == "credential"


async def test_the_owner_alone_gets_a_link_over_mcp(bank: AuthorizationServer) -> None:
    """The call's record says what is missing, and has no link."""
    async with connecting_server(bank, [whoami]) as it:
        await it.runtime.submit("whoami", id="c")
        await eventually(lambda: _waits(it.runtime))
        record = await it.runtime.get("c")
        assert b"ckc_" not in msgspec.json.encode(record, enc_hook=repr)


async def test_the_api_is_not_the_page(bank: AuthorizationServer) -> None:
    """Pages need no key, so they reveal nothing without a link."""
    async with connecting_server(bank, [whoami]) as it:
        await key_for(it, "root", "admin")
        for path in ("/connect/start/x", "/connect/start/ckc_0123456789", "/connect/callback"):
            assert (await it.get(path)).status_code == 404
        for path in ("/connect", "/connect/other", "/connect/start"):
            assert (await it.get(path)).status_code in (401, 404)
        assert (await it.get("/credentials")).status_code == 401
