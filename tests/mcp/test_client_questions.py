"""Questions of servers of the official SDK to a person: over stdio and HTTP, in both protocol versions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tests.kit.waiting import eventually
from tests.mcp.far import FarServer, asked, count, over_stdio

from clicket import Runtime, State
from clicket.errors import InvalidInput, UsageError
from clicket.mcp import McpServer
from clicket.runtime.settings import Settings

BOTH = ["2025-11-25", "2026-07-28"]
WAYS = [(transport, protocol) for transport in ("stdio", "http") for protocol in BOTH]


@asynccontextmanager
async def far(transport: str, folder: Path, **options: Any) -> AsyncIterator[McpServer]:
    if transport == "stdio":
        yield over_stdio(folder, **options)
        return
    server = FarServer(folder)
    await server.start()
    try:
        yield server.joined(**options)
    finally:
        server.kill()


@pytest.mark.parametrize(("transport", "protocol"), WAYS)
async def test_a_person_answers_the_servers_question(transport: str, protocol: str, tmp_path: Path) -> None:
    async with far(transport, tmp_path, protocol=protocol) as server, Runtime(store="memory://") as rt:
        await server.join(rt)
        handle = await rt.submit("ask", {}, thread="t")
        record = await asked(rt, handle.id)
        question = record.approval["question"]
        assert record.approval["purpose"] == "input"
        assert (question["source"], question["message"]) == ("MCP server 'far'", "Your name?")
        assert [each.id for each in (await rt.history(waiting_for="approval")).items] == [handle.id]

        with pytest.raises(InvalidInput, match="/name: it is required"):
            await rt.respond(handle.id, {"size": "s"})
        with pytest.raises(InvalidInput, match="no such field"):
            await rt.respond(handle.id, {"name": "Ann", "password": "x"})
        with pytest.raises(UsageError, match="waits for an answer"):
            await rt.approve(handle.id)
        assert await rt.respond(handle.id, {"name": "Ann"}, by="ann", seen=record.approval["hash"])
        result = await handle.result()
        assert (result.output, result.state) == ("accept Ann m", State.COMPLETED)  # with the form's default
        assert not await rt.respond(handle.id, {"name": "Ben"})
        assert (await rt.get(handle.id)).approval["by"] == "ann"
        await server.close()


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_question_in_the_old_way_on_a_connection_of_the_new_version_is_explained(
    transport: str, tmp_path: Path
) -> None:
    """`auto` takes the newest version that the server offers; its tools may still ask as before."""
    async with far(transport, tmp_path) as server, Runtime(store="memory://") as rt:
        await server.join(rt)
        for name in ("old_ask", "wrapped_old_ask"):
            result = await rt.call(name, {})
            assert result.error.code == "tool_error"
            assert "Cannot send 'elicitation/create'" in result.error.message
            assert 'Set protocol = "2025-11-25" for this server' in result.error.message
        await server.close()
    async with far(transport, tmp_path, protocol="2025-11-25") as server, Runtime(store="memory://") as rt:
        await server.join(rt)
        handle = await rt.submit("old_ask", {})
        await asked(rt, handle.id)
        await rt.respond(handle.id, {"name": "Ann"})
        assert (await handle.result()).output == "accept Ann m"
        await server.close()


@pytest.mark.parametrize(("transport", "protocol"), WAYS)
async def test_a_person_declines(transport: str, protocol: str, tmp_path: Path) -> None:
    async with far(transport, tmp_path, protocol=protocol) as server, Runtime(store="memory://") as rt:
        await server.join(rt)
        handle = await rt.submit("ask", {})
        await asked(rt, handle.id)
        assert await rt.deny(handle.id, reason="none of its business")
        assert (await handle.result()).output == "decline"
        await server.close()


@pytest.mark.parametrize("protocol", BOTH)
async def test_a_question_without_an_answer_is_cancelled(protocol: str, tmp_path: Path) -> None:
    async with Runtime(store="memory://") as rt:
        server = over_stdio(tmp_path, protocol=protocol, question_timeout=0.2)
        await server.join(rt)
        result = await rt.call("ask", {}, timeout=20)
        assert (result.output, result.state) == ("cancel", State.COMPLETED)
        approval = (await rt.get(result.call_id)).approval
        assert (approval["approved"], approval["reason"]) == (False, "no answer came in time")


@pytest.mark.parametrize("protocol", BOTH)
async def test_a_persons_time_is_not_the_tools(protocol: str, tmp_path: Path) -> None:
    states = [await answered_after_the_limit(protocol, tmp_path, limit=0.5)]
    while states[-1] is State.TIMEOUT and len(states) < 3:  # a slow machine gets more, until the tool itself keeps it
        states.append(await answered_after_the_limit(protocol, tmp_path, limit=0.5 * 8 ** len(states)))
    assert states[-1] is State.COMPLETED


async def answered_after_the_limit(protocol: str, folder: Path, limit: float) -> State:
    """How a call ended whose question a person answered later than the limit of its time."""
    options = {"timeout": limit, "idle_timeout": 0.8 * limit}
    async with Runtime(store="memory://") as rt:
        await over_stdio(folder, protocol=protocol, options=options).join(rt)
        handle = await rt.submit("ask", {})

        async def is_asking() -> bool:
            record = await rt.get(handle.id)
            return record.waiting_for == "approval" or record.state.is_terminal

        await eventually(is_asking)
        late = await rt.submit("slow", {})  # the same limit ends this one meanwhile
        assert (await late.result()).state is State.TIMEOUT
        await rt.respond(handle.id, {"name": "Ann"})
        result = await handle.result()
        assert result.output == "accept Ann m" or result.state is State.TIMEOUT
        return result.state


@pytest.mark.parametrize("protocol", BOTH)
async def test_a_link_is_shown_with_its_server_and_not_opened(protocol: str, tmp_path: Path) -> None:
    async with Runtime(store="memory://") as rt:
        await over_stdio(tmp_path, protocol=protocol).join(rt)
        handle = await rt.submit("link", {})
        record = await asked(rt, handle.id)
        assert record.approval["why"] == "MCP server 'far' asks: Pay, please. (https://pay.example/7)"
        assert record.approval["question"]["url"] == "https://pay.example/7"
        with pytest.raises(UsageError, match="open a link"):
            await rt.respond(handle.id, {"card": "4111"})
        assert await rt.approve(handle.id)
        assert (await handle.result()).output == "accept"


async def test_a_server_that_wants_a_link_opened_first_is_called_again(tmp_path: Path) -> None:
    async with Runtime(store="memory://") as rt:
        await over_stdio(tmp_path, protocol="2025-11-25").join(rt)
        handle = await rt.submit("links", {})
        assert (await asked(rt, handle.id)).approval["question"]["url"] == "https://pay.example/7"
        await rt.approve(handle.id)
        assert (await handle.result()).output == "done"
        assert count(tmp_path, "links") == 2


@pytest.mark.parametrize("protocol", BOTH)
async def test_cancelling_the_call_withdraws_its_question(protocol: str, tmp_path: Path) -> None:
    async with Runtime(store="memory://") as rt:
        await over_stdio(tmp_path, protocol=protocol).join(rt)
        handle = await rt.submit("ask", {})
        await asked(rt, handle.id)
        assert await rt.cancel(handle.id)
        assert (await handle.result()).state is State.CANCELLED
        assert not await rt.respond(handle.id, {"name": "Ann"})
        after = await rt.call("roots", {})
        assert after.success or after.error.code == "tool_error"  # the connection works


@pytest.mark.parametrize("protocol", BOTH)
async def test_a_question_waits_without_a_slot_only_where_the_protocol_allows_it(protocol: str, tmp_path: Path) -> None:
    async with Runtime(settings=Settings(store="memory://", max_concurrency=1)) as rt:
        await over_stdio(tmp_path, protocol=protocol).join(rt)
        handle = await rt.submit("ask", {})
        await asked(rt, handle.id)
        other = await rt.submit("roots", {})
        if protocol == "2026-07-28":
            await other.result()
        else:
            assert (await rt.state(other.id)) is State.PENDING
        await rt.respond(handle.id, {"name": "Ann"})
        assert (await handle.result()).output == "accept Ann m"
        await other.result()


async def test_the_answer_may_come_while_no_process_has_the_call(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    async with Runtime(store=store) as rt:
        server = over_stdio(tmp_path)
        await server.join(rt)
        handle = await rt.submit("ask", {}, thread="t")
        await asked(rt, handle.id)
    async with Runtime(store=store) as rt:  # without the tool
        assert await rt.respond(handle.id, {"name": "Ann"})
    async with Runtime(store=store) as rt:
        await over_stdio(tmp_path).join(rt)
        await rt.recover()
        result = await (await rt.handle(handle.id)).result()
        assert (result.output, result.success) == ("accept Ann m", True)
    assert count(tmp_path, "asked") == 2  # the question, and the answer


@pytest.mark.parametrize("protocol", BOTH)
async def test_secrets_do_not_go_into_a_form(protocol: str, tmp_path: Path) -> None:
    async with Runtime(store="memory://") as rt:
        await over_stdio(tmp_path, protocol=protocol).join(rt)
        handle = await rt.submit("ask", {})
        await asked(rt, handle.id)
        with pytest.raises(UsageError, match="secret"):
            await rt.respond(handle.id, {"name": "sk-ant-api03-" + "a1B2" * 12})
        await rt.deny(handle.id)
        await handle.result()


@pytest.mark.parametrize("protocol", BOTH)
async def test_what_is_not_configured_is_declined(protocol: str, tmp_path: Path) -> None:
    async with Runtime(store="memory://") as rt:
        await over_stdio(tmp_path, protocol=protocol, questions=False, options={"max_retries": 0}).join(rt)
        for name in ("ask", "sample", "roots"):
            result = await rt.call(name, {})
            shown = result.output if result.success else result.error.message
            assert any(word in shown for word in ("not supported", "declined", "do not allow", "refused")), shown


@pytest.mark.parametrize("protocol", BOTH)
async def test_sampling_and_roots_if_configured(protocol: str, tmp_path: Path) -> None:
    async def sampling(asked: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        return types.CreateMessageResult(
            role="assistant", model="m", content=types.TextContent(text=f"reply to {asked.messages[0].content.text}")
        )

    async with Runtime(store="memory://") as rt:
        await over_stdio(tmp_path, protocol=protocol, sampling=sampling, roots=[str(tmp_path)]).join(rt)
        assert (await rt.call("sample", {})).output == "reply to hello"
        assert (await rt.call("roots", {})).output.rstrip("/") == tmp_path.as_uri()


async def test_a_server_cannot_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Runtime(store="memory://") as rt:
        await over_stdio(tmp_path, protocol="2025-11-25").join(rt)
        assert (await rt.call("talk", {})).output == "said"
        lines = [record for record in caplog.records if record.name == "clicket.mcp.server"]
        await eventually(lambda: len(lines) > 0)
        assert len(lines) <= 30
        assert "\x1b" not in "".join(record.getMessage() for record in lines)


async def test_progress_becomes_ours(tmp_path: Path) -> None:
    async with Runtime(store="memory://") as rt:
        await over_stdio(tmp_path).join(rt)
        handle = await rt.submit("slow", {})
        await eventually(lambda: _progress(rt, handle.id))
        assert (await rt.get(handle.id)).progress["percentage"] == 50
        assert await rt.cancel(handle.id)
        await eventually(lambda: count(tmp_path, "stopped") == 1)  # the server's body was stopped


async def _progress(rt: Runtime, id: str) -> bool:
    return (await rt.get(id)).progress is not None


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"protocol": "1999-01-01"}, "protocol is one of"),
        ({"questions": "no"}, "questions is true or false"),
        ({"question_timeout": 0}, "question_timeout is a number of seconds"),
        ({"question_timeout": "1h"}, "question_timeout is a number of seconds"),
        ({"roots": "/srv"}, "roots is a list of folders"),
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        McpServer("far", url="http://far.test/mcp", **wrong)
