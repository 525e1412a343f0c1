"""No key finds data of another key: calls, tasks, sessions, sealed answers. Secrets do not leak."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.mcp.kit import LEGACY, Hand, accept, connected, serving

from clicket import Runtime, ToolContext, tool
from clicket.mcp import answers, elicit, need
from clicket.runtime.settings import Settings

WORD = {"properties": {"word": {"type": "string"}}, "required": ["word"]}
TOKEN = "sk-ant-api03-" + "Zq7" * 30  # the form of a provider's key
KEY = "a key of more than sixteen characters"


@tool(tags={"mcp:task"})
async def work() -> str:
    """Works."""
    return "done"


@tool(tags={"mcp"})
async def ask(ctx: ToolContext) -> Any:
    """Asks for a word."""
    given = answers(ctx).get("word")
    return need(word=elicit("A word?", WORD)) if given is None else given["content"]["word"]


@tool(tags={"mcp:task"}, sensitive=["password"])
async def log_in(password: str, ctx: ToolContext) -> Any:
    """Needs a password, and asks for two words."""
    given = answers(ctx)
    missing = {key: elicit("A word?", WORD) for key in ("one", "two") if key not in given}
    return need(**missing) if missing else f"{len(password)} {len(given['one']['content']['word'])}"


def key_of(scope: Any) -> str:
    headers = dict(scope["headers"])
    return headers.get(b"authorization", b"").decode().removeprefix("Bearer ")


@asynccontextmanager
async def served(store: str = "memory://", **settings: Any) -> AsyncIterator[tuple[Runtime, str]]:
    given = Settings.load(store=store, **settings)
    async with Runtime([work, ask, log_in], settings=given) as rt:
        runtime_for = lambda scope: rt.acting_for(key_of(scope))  # noqa: E731  # a line
        async with serving(rt, runtime_for=runtime_for, secret_key=given.secret_key) as url:
            yield rt, url


async def test_a_task_belongs_to_its_key() -> None:
    async with served() as (rt, url), Hand(url, key="a") as a, Hand(url, key="b") as b:
        id = (await a.call("work"))["taskId"]
        await a.task(id, "completed")
        assert (await rt.get(id)).caller == "a"
        for method, more in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
            assert (await b.error(method, taskId=id, **more))["code"] == -32602


async def test_sealed_answers_are_of_use_to_their_key_alone() -> None:
    async with served() as (_, url), Hand(url, key="a") as a, Hand(url, key="b") as b:
        state = (await a.result("tools/call", name="ask", arguments={}))["requestState"]
        more = {"name": "ask", "arguments": {}, "requestState": state, "inputResponses": {"word": accept(word="x")}}
        assert (await b.error("tools/call", **more))["code"] == -32602
        assert (await a.result("tools/call", **more))["content"][0]["text"] == "x"


async def test_a_session_is_found_by_the_key_that_opened_it() -> None:
    async with served() as (_, url), connected(url, LEGACY, key="a") as client:
        await client.list_tools()
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
        start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        async with httpx2.AsyncClient(headers=headers) as http:
            opened = await http.post(
                url,
                json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start},
                headers={"authorization": "Bearer a"},
            )
            session = opened.headers["mcp-session-id"]
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            statuses = {}
            for key in ("a", "b"):
                mine = {"authorization": f"Bearer {key}", "mcp-session-id": session}
                statuses[key] = (await http.post(url, json=ping, headers=mine)).status_code
        assert statuses == {"a": 200, "b": 404}


@pytest.mark.parametrize("key", [KEY, None])
async def test_secrets_of_a_task_are_nowhere_in_the_store(tmp_path: Path, key: str | None) -> None:
    async with served(f"sqlite:///{tmp_path}/calls.db", secret_key=key) as (_, url), Hand(url, key="a") as hand:
        id = (await hand.call("log_in", password="correct horse battery"))["taskId"]
        await hand.task(id, "input_required")
        if key is None:  # without a key no store can keep it, so it is refused
            error = await hand.error("tasks/update", taskId=id, inputResponses={"one": accept(word=TOKEN)})
            assert "all questions at once" in error["message"]
            assert TOKEN not in error["message"]
        else:
            await hand.answer(id, one=accept(word=TOKEN))
            await hand.answer(id, two=accept(word="x"))
            done = await hand.task(id, "completed")
            assert done["result"]["content"][0]["text"] == f"21 {len(TOKEN)}"
        for file in tmp_path.iterdir():
            content = file.read_bytes()
            assert TOKEN.encode() not in content, file
            assert b"correct horse" not in content, file
    if key is None:
        return
    async with served(f"sqlite:///{tmp_path}/calls.db", secret_key=key) as (_, url), Hand(url, key="a") as hand:
        assert (await hand.task(id))["status"] == "completed"


async def test_a_task_whose_arguments_are_lost_says_so(tmp_path: Path) -> None:
    """Without a secret key only the first process knows the password. The call never runs with the mask."""
    store = f"sqlite:///{tmp_path}/calls.db"
    async with served(store) as (_, url), Hand(url, key="a") as hand:
        id = (await hand.call("log_in", password="correct horse battery"))["taskId"]
        await hand.task(id, "input_required")
        await hand.answer(id, one=accept(word="x"))
    async with served(store) as (rt, url), Hand(url, key="a") as hand:
        await hand.answer(id, two=accept(word="y"))
        task = await hand.task(id)
        assert len((await rt.history()).items) == 1
        assert task["status"] == "failed"
        assert "CLICKET_SECRET_KEY" in task["error"]["message"]
