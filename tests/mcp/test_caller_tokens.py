"""An MCP server that knows callers by their tokens, and refuses one while other calls, tasks and cancels of that caller are under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.kit.waiting import eventually
from tests.mcp.far import asked
from tests.mcp.scripted_server import CACHE, DONE, ScriptedServer, form, task

from clicket import Record, Runtime, State
from clicket.runtime.settings import Settings

OWN = "token-of-the-program"
KEY = "the key of the tests of callers' tokens"
CREATED = {**task("t", "working"), "resultType": "task"}
BROKEN = Response(media_type="text/event-stream")
"""The stream of a request ends without a response."""


class TokenServer(ScriptedServer):
    """Takes the program's token and those in `valid`. A call with `hold` is answered with `held`, when that is set."""

    def __init__(self) -> None:
        super().__init__()
        self.valid = {"token-1"}
        self.tokens: list[tuple[str, str]] = []
        self.held: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def _answer(self, request: Request) -> Any:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        body = await request.json()
        if token not in {OWN, *self.valid}:
            return Response(status_code=401)
        self.tokens.append((body["method"], token))
        if body["method"] == "tools/call" and body["params"]["arguments"].get("hold"):
            self.asked.append((body["method"], body["params"]))
            answer = await self.held
            return (
                answer if isinstance(answer, Response) else JSONResponse({"jsonrpc": "2.0", "id": body["id"], **answer})
            )
        return await super()._answer(request)


@asynccontextmanager
async def joined(far: TokenServer, **options: Any) -> AsyncIterator[Runtime]:
    """A runtime for Ann, who has the token `token-1`. The program has one, too."""
    settings = Settings(store="memory://", secret_key=KEY, cancel_grace=0.1)
    async with Runtime(settings=settings) as rt, far.running(credentials="far", options=options) as server:
        await rt.credentials.put("far", OWN)
        await server.join(rt)
        ann = rt.acting_for("ann")
        await ann.credentials.put("far", "token-1")
        yield ann


async def waits(rt: Runtime, id: str) -> Record:
    async def look() -> Record | None:
        record = await rt.get(id)
        assert not record.state.is_terminal, record.error or record.output
        return record if record.waiting_for == "credential" else None

    found: Record = await eventually(look)
    return found


async def renew(rt: Runtime, far: TokenServer) -> None:
    far.valid = {"token-2"}
    await rt.credentials.put("far", "token-2")


@pytest.mark.parametrize(
    ("answer", "state", "code"),
    [
        ({"result": DONE}, State.COMPLETED, None),
        (BROKEN, State.FAILED, "outcome_unknown"),
        ({"error": {"code": -32602, "message": "no such account"}}, State.FAILED, "tool_error"),
        ({"error": {"code": -32603, "message": "it broke on the way"}}, State.FAILED, "tool_error"),
        ({"result": {"resultType": "complete", "content": 7}}, State.FAILED, "tool_error"),
    ],
    ids=["result", "broken", "bad-parameters", "error", "unusable"],
)
async def test_the_refused_token_of_one_call_leaves_another_its_outcome(
    answer: Any, state: State, code: str | None
) -> None:
    far = TokenServer()
    async with joined(far) as ann:
        under_way = await ann.submit("do", {"hold": True}, id="b")
        await eventually(lambda: far.count("tools/call") == 1)
        far.valid = set()
        refused = await ann.submit("do", {}, id="a")
        await waits(ann, "a")
        far.held.set_result(answer)
        result = await under_way.result()
        assert (result.state, result.error and result.error.code) == (state, code), result.error
        assert result.attempts == 1
        await renew(ann, far)
        assert (await refused.result()).output == "done"
        calls = [params["arguments"] for method, params in far.asked if method == "tools/call"]
        assert calls == [{"hold": True}, {}], "each was done once"


async def test_the_next_token_has_a_session_of_its_own_while_an_older_call_goes_on() -> None:
    far = TokenServer()
    async with joined(far) as ann:
        under_way = await ann.submit("do", {"hold": True}, id="b")
        await eventually(lambda: far.count("tools/call") == 1)
        far.valid = set()
        refused = await ann.submit("do", {}, id="a")
        await waits(ann, "a")
        await renew(ann, far)
        assert (await refused.result()).output == "done"
        assert far.tokens[-2:] == [("tools/list", "token-2"), ("tools/call", "token-2")]
        far.held.set_result({"result": DONE})
        assert (await under_way.result()).output == "done"


async def test_a_token_that_is_refused_at_the_first_request_waits() -> None:
    far = TokenServer()
    async with joined(far, max_retries=0) as ann:
        far.valid = set()
        handle = await ann.submit("do", {}, id="a")
        await waits(ann, "a")
        await renew(ann, far)
        assert (await handle.result()).output == "done"


def _looks(far: TokenServer, *, session_lost: bool) -> None:
    """After the second look at the task Ann's token is refused; the look may end the session, too."""
    far.on["tools/call"] = lambda params: CREATED

    def look(params: Any) -> Any:
        if far.count("tasks/get") == 2:
            far.valid = set()
            if session_lost:
                return {"error": {"code": -32600, "message": "Session not found"}}
        done = far.valid == {"token-2"}
        return task("t", "completed", result=DONE) if done else task("t", "working")

    far.on["tasks/get"] = look


@pytest.mark.parametrize("session_lost", [False, True])
async def test_a_token_refused_while_a_task_is_followed_waits_for_a_credential(session_lost: bool) -> None:
    far = TokenServer()
    _looks(far, session_lost=session_lost)
    async with joined(far) as ann:
        handle = await ann.submit("do", {}, id="a")
        await waits(ann, "a")
        await renew(ann, far)
        assert (await handle.result()).output == "done"
        assert far.count("tools/call") == 1


async def test_a_task_whose_caller_has_no_token_any_more_is_not_cancelled_with_anothers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "clicket.mcp")
    far = TokenServer()
    _looks(far, session_lost=False)
    async with joined(far) as ann:
        await ann.submit("do", {}, id="a")
        await waits(ann, "a")
        assert await ann.cancel("a")
        await eventually(lambda: "task 't' of MCP server far could not be cancelled" in caplog.text)
        assert (await ann.get("a")).state is State.CANCELLED
    assert far.count("tasks/cancel") == 0


async def test_the_task_of_a_call_that_waits_for_a_person_is_cancelled_with_the_callers_token() -> None:
    far = TokenServer()
    far.on["tools/call"] = lambda params: CREATED
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    far.on["tasks/get"] = lambda params: task("t", "input_required", inputRequests={"who": form(schema)})
    far.on["tasks/cancel"] = lambda params: {"resultType": "complete", **CACHE}
    async with joined(far) as ann:
        await ann.submit("do", {}, id="a")
        await asked(ann, "a")
        far.valid = {"token-2"}
        await ann.credentials.put("far", "token-2")
        assert await ann.cancel("a")
        await eventually(lambda: far.count("tasks/cancel") == 1)
    assert dict(far.tokens)["tasks/cancel"] == "token-2"
