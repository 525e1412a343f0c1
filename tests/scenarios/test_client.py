"""The client behaves as a runtime: programs get the same results, events and errors."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound, make
from tests.scenarios.server_kit import TOOLS, key_for, served, serving_in_thread

from clicket import Conflict, Policy, Runtime, State, ToolCall, ToolContext, tool
from clicket.client import Client, ServerUnavailable, SyncClient
from clicket.errors import InvalidInput, NotFound, PermissionDenied, UsageError
from clicket.kernel import ToolStatus


@tool
async def wait(ctx: ToolContext) -> str:
    """Wait to be cancelled."""
    await asyncio.Event().wait()
    return "never"


@tool(depends_on="add")
async def after_add() -> str:
    """Only after add."""
    return "after"


@tool(max_retries=0)
async def boom() -> None:
    """Fail."""
    raise ValueError("boom")


@tool
async def pay(amount: int) -> int:
    """Costs money."""
    return amount


ALL = [*TOOLS, wait, after_add, boom, pay]
ASKS = Policy(ask=["pay"], deny=["echo"])


@asynccontextmanager
async def either(kind: str, policy: Policy | None = None) -> AsyncIterator[Any]:
    if kind == "runtime":
        async with make(ALL, policy=policy) as runtime:
            yield runtime
    else:
        async with served(ALL, policy=policy) as it, Client(it.url) as client:
            yield client


@pytest.fixture(params=["runtime", "client"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestSameAsARuntime:
    async def test_calls(self, kind: str) -> None:
        async with either(kind) as rt:
            good = await rt.call("add", {"a": 1, "b": 2}, thread="t", id="one", metadata={"turn": 3})
            assert (good.output, good.content, good.success, good.call_id) == (3, "3", True, "one")
            assert good.metadata == {"turn": 3}
            assert list(good.stages) == ["find", "authorize", "validate", "execute", "process", "persist"]
            assert (await rt.call("add", '{"a": 1, "b": 2}')).output == 3
            bad = await rt.call("fail", {"message": "no luck"})
            assert (bad.state, bad.error.code) == (State.FAILED, "tool_error")
            assert "no luck" in bad.error.message
            record = await rt.get("one")
            assert_sound(record)
            assert record.arguments == {"a": 1, "b": 2}
            assert await rt.state("one", thread="t") is State.COMPLETED

    @pytest.mark.parametrize(
        ("name", "arguments", "code"),
        [
            ("nope", None, "tool_not_found"),
            ("add", {"a": 1}, "invalid_input"),
            ("add", '{"a": 1, "a": 2, "b": 3}', "invalid_input"),
            ("add", "{", "invalid_input"),
            ("add", '{"a": NaN, "b": 1}', "invalid_input"),
            ("add", {"a": float("nan"), "b": 1}, "invalid_input"),
            ("add", {"a": "\ud800", "b": 1}, "invalid_input"),
            ("add", {"a": 1, "b": 2, "c": object()}, "invalid_input"),
            ("add", '{"a": 1, "b": 2}, "priority": 9', "invalid_input"),
            ("add", "", "invalid_input"),
            ("after_add", None, "tool_unavailable"),
            ("echo", None, "permission_denied"),
        ],
    )
    async def test_what_is_refused_is_returned(self, kind: str, name: str, arguments: Any, code: str) -> None:
        async with either(kind, ASKS) as rt:
            result = await rt.call(name, arguments, thread="t")
            assert result.state is State.FAILED
            assert result.error.code == code
            assert (await rt.get(result.call_id)).error.code == code
            submitted = await rt.submit(name, arguments, thread="t")
            assert (await submitted.result()).error.code == code

    async def test_the_same_id(self, kind: str) -> None:
        async with either(kind) as rt:
            first = await rt.call("add", {"a": 1, "b": 2}, id="x")
            again = await rt.call("add", {"a": 1, "b": 2}, id="x")
            assert again.output == first.output
            assert len((await rt.history()).items) == 1
            with pytest.raises(Conflict):
                await rt.call("add", {"a": 2, "b": 2}, id="x")

    async def test_events_and_streams(self, kind: str) -> None:
        async with either(kind) as rt:
            handle = await rt.submit("count", {"to": 5}, thread="t")
            events = [event async for event in handle.events()]
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert events[-1].is_terminal
            assert [event.seq async for event in handle.events(after=4)] == [e.seq for e in events[4:]]
            assert (await handle.result()).output == "done"
            again = await rt.handle(handle.id)
            assert [event async for event in again.events()] == events
            streamed = [event async for event in rt.stream("count", {"to": 2})]
            assert sum(event.type == "output" for event in streamed) >= 1
            assert streamed[-1].is_terminal

    async def test_many(self, kind: str) -> None:
        async with either(kind) as rt:
            calls = [ToolCall("add", {"a": n, "b": 0}, id=f"n{n % 7}") for n in range(9)]
            results = await rt.call_many(calls, max_concurrency=1)
            assert [r.output for r in results[:7]] == list(range(7))
            assert [r.error.code for r in results[7:]] == ["conflict", "conflict"]

    async def test_cancel(self, kind: str) -> None:
        async with either(kind) as rt:
            handle = await rt.submit("wait", thread="t")
            async for event in handle.events():
                if event.type == "attempt_started":
                    break
            assert await rt.cancel(handle.id, reason="enough") is True
            result = await handle.result()
            assert (result.state, result.error.code) == (State.CANCELLED, "cancelled")
            assert await handle.cancel() is False

    async def test_a_caller_that_goes_takes_its_call_along(self, kind: str) -> None:
        async with either(kind) as rt:
            waiting = asyncio.create_task(rt.call("wait", id="w"))

            async def running() -> bool:
                try:
                    return bool((await rt.get("w")).started_at)
                except NotFound:
                    return False

            await eventually(running)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await rt.get("w")).state is State.CANCELLED

    async def test_approvals(self, kind: str) -> None:
        async with either(kind, ASKS) as rt:
            one, two = await rt.submit("pay", {"amount": 1}), await rt.submit("pay", {"amount": 2})
            assert {r.id for r in (await rt.history(waiting_for="approval")).items} == {one.id, two.id}
            with pytest.raises(InvalidInput):
                await rt.approve(one.id, arguments={"amount": "much"})
            assert await rt.approve(one.id, arguments={"amount": 5}, reason="a bit more") is True
            assert await rt.deny(two.id, reason="no") is True
            assert (await one.result()).output == 5
            assert (await two.result()).error.code == "approval_denied"
            assert await rt.approve(two.id) is False
            assert [entry.what for entry in await rt.audit(limit=2)] == ["call.denied", "call.approved"]

    async def test_decisions_about_what_was_seen(self, kind: str) -> None:
        async with either(kind, ASKS) as rt:
            one, two = await rt.submit("pay", {"amount": 1}), await rt.submit("pay", {"amount": 2})
            seen = {id: (await rt.get(id)).approval["hash"] for id in (one.id, two.id)}
            for decide in (rt.approve, rt.deny):
                with pytest.raises(Conflict):
                    await decide(one.id, seen=seen[two.id])
            assert await rt.approve(one.id, seen=seen[one.id]) is True
            assert await rt.deny(two.id, seen=seen[two.id][:16]) is True
            assert (await one.result()).output == 1

    async def test_the_hub(self, kind: str) -> None:
        async with either(kind) as rt:
            hub = rt.hub("t/ü ?")
            assert "after_add" not in await hub.available()
            await rt.call("add", {"a": 1, "b": 2}, thread="t/ü ?")
            assert "after_add" in await hub.available()
            for _ in range(3):
                await rt.call("boom", thread="t/ü ?")
            status = await hub.status("boom")
            assert (status.status, status.consecutive_failures) == (ToolStatus.FAILED, 3)
            assert "[failed: boom]" in await hub.summary()
            assert "- add: Add two numbers." in await hub.prompt()
            text = await hub.snapshot()
            assert await hub.reset() == ["boom"]
            assert await hub.restore(text) is True
            assert await hub.restore("nonsense") is False
            assert (await hub.status("boom")).status is ToolStatus.FAILED
            assert (await hub.set("add", "maintenance", "moving")).reason == "moving"

    async def test_big_results(self, kind: str) -> None:
        async with either(kind) as rt:
            result = await rt.call("long", {"size": 5_000})
            assert result.truncated
            assert len(result.content.encode()) <= 1_000
            assert result.output == "x" * 5_000
            assert await rt.artifact(result.artifact, 10, 15) == b"x" * 5
            assert await rt.artifact(result.artifact, 4_990) == b"x" * 10
            assert await rt.artifact(result.artifact, 9_000) == b""

    async def test_figures(self, kind: str) -> None:
        async with either(kind) as rt:
            for _ in range(5):
                await rt.call("boom", thread="a")
                await rt.hub("a").reset()
            await rt.call("add", {"a": 1, "b": 1})
            report = await rt.report()
            assert (report.tools["boom"].failed, report.tools["add"].success) == (5, 1)
            assert [(a.tool, a.runs) for a in await rt.anomalies()] == [("boom", 5)]
            assert (await rt.cache.stats()).hits == 0
            assert (await rt.cache.list(limit=10)).items == []
            assert await rt.cache.clear(max_age=60) == 0
            assert await rt.cache.clear() == 0
            assert [info.name for info in await rt.tools()] == [each.name for each in ALL]

    async def test_pages_of_any_length(self, kind: str) -> None:
        async with either(kind) as rt:
            for number in range(205):
                await rt.call("add", {"a": number, "b": 0}, id=f"n{number}")
            first = await rt.history(limit=150)
            rest = await rt.history(limit=150, cursor=first.cursor)
            assert [r.id for r in (*first.items, *rest.items)] == [f"n{n}" for n in reversed(range(205))]
            assert rest.cursor is None

    async def test_what_is_not_there(self, kind: str) -> None:
        async with either(kind) as rt:
            for asked in (rt.get("nope"), rt.cancel("nope"), rt.approve("nope"), rt.artifact("sha256-" + "0" * 64)):
                with pytest.raises(NotFound):
                    await asked
            with pytest.raises(UsageError):
                await rt.history(limit=5_000)


def test_it_has_every_name_that_callers_use() -> None:
    def public(cls: type) -> set[str]:
        return {name for name, value in vars(cls).items() if not name.startswith("_") and inspect.isfunction(value)}

    server_side = {
        "acting_for", "activity", "add", "arguments_of", "check_token", "examine", "held_calls", "is_held", "on_close", "pin_until",
        "remove", "retention", "spawn", "stop_claiming", "subscribe", "sweep", "workers",
    }  # fmt: skip  # these belong where the tools are
    assert public(Runtime) - public(Client) - server_side == set()


class TestAcrossTheNetwork:
    async def test_a_request_whose_answer_was_lost_is_repeated_and_nothing_runs_twice(self) -> None:
        import httpx2

        runs = []

        @tool
        async def once() -> int:
            runs.append(1)
            return len(runs)

        class Lossy(httpx2.AsyncHTTPTransport):
            """Loses every second response after the server sent it."""

            def __init__(self) -> None:
                super().__init__()
                self.requests = 0

            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                answer = await super().handle_async_request(request)
                self.requests += 1
                if self.requests % 2:
                    await answer.aclose()
                    raise httpx2.ReadError("the line went dead", request=request)
                return answer

        lossy = Lossy()
        async with served([once]) as it, Client(it.url, transport=lossy) as rt:
            assert (await rt.call("once")).output == 1
            handle = await rt.submit("once")
            assert (await handle.result()).output == 2
            assert len(runs) == 2
        assert lossy.requests > 4

    async def test_characters_that_break_lines_elsewhere_do_not_break_events(self) -> None:
        text = "a\u2028b\u2029c\x85d\x0be\x1cf\r\ng"

        @tool
        async def say(ctx: ToolContext) -> str:
            ctx.emit(text)
            return text

        async with served([say]) as it, Client(it.url) as rt:
            handle = await rt.submit("say")
            assert (await asyncio.wait_for(handle.result(), PATIENCE)).output == text
            assert any(text in repr_of.data.values() for repr_of in [e async for e in handle.events()])

    async def test_a_server_that_goes_down_is_retried(self) -> None:
        import httpx2

        asked = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            asked.append(request)
            if len(asked) < 3:
                return httpx2.Response(503, json={"code": "shutting_down", "detail": "on its way out"})
            return httpx2.Response(200, json={"call_id": "x", "tool": "add", "state": "completed", "output": 3})

        async with Client("http://server", transport=httpx2.MockTransport(answer)) as rt:
            assert (await rt.call("add", {"a": 1, "b": 2})).output == 3
        assert len({request.content for request in asked}) == 1  # under the same id

    async def test_what_json_cannot_say_is_refused_as_a_runtime_would(self) -> None:
        import httpx2

        sent = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            sent.append(request)
            return httpx2.Response(422, json={"code": "invalid_input", "detail": "no", "call_id": "x"})

        itself: dict[str, Any] = {}
        itself["itself"] = itself
        async with Client("http://server", transport=httpx2.MockTransport(answer)) as rt:
            for odd in ({"amount": float("nan")}, '{"amount": 1, "amount": 2}', '{"amount": ', itself):
                with pytest.raises(InvalidInput):
                    await rt.approve("x", arguments=odd)
            assert not sent
            for odd in (itself, {(1, 2): 3}):
                assert (await rt.call("pay", odd)).state is State.FAILED  # type: ignore[arg-type]  # on purpose
            with pytest.raises(InvalidInput):
                await rt.cancel("..")
            assert sent[-1].url.raw_path == b"/calls/%2E%2E/cancel"

    async def test_a_server_that_is_not_there(self) -> None:
        async with served() as it:
            url = it.url
        async with Client(url) as rt:
            with pytest.raises(ServerUnavailable, match="clicket serve"):
                await rt.get("x")
        with pytest.raises(UsageError, match="localhost:8000"):
            Client("localhost:8000")

    async def test_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with served(ALL) as it:
            header = await key_for(it, "ann", "read", "call")
            key = header["authorization"].split()[1]
            async with Client(it.url) as rt:
                with pytest.raises(PermissionDenied):
                    await rt.tools()
            async with Client(it.url, key=key) as rt:
                assert (await rt.call("add", {"a": 1, "b": 2})).output == 3
                with pytest.raises(PermissionDenied):
                    await rt.audit()
            monkeypatch.setenv("CLICKET_API_KEY", key)
            async with Client(it.url) as rt:
                assert (await rt.call("add", {"a": 1, "b": 2})).output == 3

    async def test_recovery_is_the_servers(self) -> None:
        async with served() as it, Client(it.url) as rt:
            with pytest.raises(UsageError, match="clicket recover"):
                await rt.recover()

    async def test_files_go_in_and_out(self) -> None:
        async with served() as it, Client(it.url) as rt:
            name = await rt.put_artifact(b"hello")
            assert await rt.artifact(name) == b"hello"
            assert await rt.artifact(name, 1, 3) == b"el"


def test_a_program_without_a_loop() -> None:
    with serving_in_thread(ALL) as url, SyncClient(url) as rt:
        assert rt.call("add", {"a": 1, "b": 2}).output == 3
        handle = rt.submit("count", {"to": 2})
        assert [event.type for event in handle.events()][-1] == "state_changed"
        assert handle.result().output == "done"
        assert [r.output for r in rt.call_many([("add", {"a": n, "b": n}) for n in range(3)])] == [0, 2, 4]
        assert "add" in rt.hub("t").available()
        assert rt.report().tools["add"].success == 4
        assert rt.artifact(rt.put_artifact(b"file")) == b"file"
        assert rt.cache.clear() == 0
        assert rt.get(handle.id).success
