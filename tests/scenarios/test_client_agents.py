"""An agent over the network behaves like a local agent, also when connections break."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.kit.waiting import eventually
from tests.scenarios.agent_server_kit import TURN, Gate, script
from tests.scenarios.kit import make
from tests.scenarios.server_kit import TOOLS, key_for, served, serving_in_thread

from clicket.agents import Agent, AgentBusy, AgentState
from clicket.client import Client, RemoteAgent, ServerUnavailable, SyncAgent, SyncClient
from clicket.errors import ClicketError, Conflict, NotFound, PermissionDenied, UsageError
from clicket.runtime.agent_config import agents_of


def declared(folder: Path, answers: Any = TURN, *, repeat: bool = True) -> dict[str, Any]:
    return {"helper": {"model": script(folder, {"answers": answers, "repeat": repeat})}}


@asynccontextmanager
async def either(kind: str, agents: dict[str, Any], tools: Any = TOOLS) -> AsyncIterator[Any]:
    if kind == "agent":
        async with make(tools, agents=agents) as runtime:
            yield agents_of(runtime)["helper"]
    else:
        async with served(tools, agents=agents) as it, Client(it.url) as client:
            yield client.agent("helper")


@pytest.fixture(params=["agent", "client"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_client_lowers_the_limits_of_a_turn(tmp_path: Path) -> None:
    async with either("client", declared(tmp_path)) as agent:
        result = await agent.run("add", thread="t", limits={"max_steps": 1})
        assert (result.stopped, result.steps) == ("max_steps", 1)
        with pytest.raises(ClicketError, match="max_steps is 30, and the agent allows 20"):
            await agent.run("add", thread="t", limits={"max_steps": 30})
        with pytest.raises(UsageError, match="limits"):
            await agent.run("add", thread="t", limits=3)


class TestSameAsAnAgent:
    async def test_forks_and_reruns(self, kind: str, tmp_path: Path) -> None:
        async with either(kind, declared(tmp_path)) as agent:
            first = await agent.run("add", thread="t")
            fork = await agent.fork("t", after=1, to="f")
            assert (fork.thread, fork.turns, fork.origin.thread, fork.origin.after) == ("f", 1, "t", 1)
            assert await agent.messages("f") == first.messages
            assert (await agent.fork("t", to="f")).turns == 1
            with pytest.raises(Conflict):
                await agent.fork("t", after=0, to="f")
            with pytest.raises(NotFound):
                await agent.fork("t", after=9)
            with pytest.raises(NotFound):
                await agent.rerun("t", turn=9)
            cut = await agent.fork("t", after=0, step=1)
            assert cut.waiting_for == ["resume"]
            with pytest.raises(AgentBusy):
                await agent.run("other", thread=cut.thread)
            resumed = await agent.resume(cut.thread)
            assert resumed is not None
            assert (resumed.thread, resumed.turn) == (cut.thread, 1)
            assert await agent.resume(cut.thread) is None
            again = await agent.rerun("t", turn=1, system="Be quick.", to="again")
            assert (again.thread, again.turn, again.text) == ("again", 1, first.text)
            assert [each.thread for each in await agent.forks("t")] == ["f", cut.thread, "again"]

    async def test_a_turn_that_is_handed_over(self, kind: str, tmp_path: Path) -> None:
        agents = {
            "helper": {
                "model": script(tmp_path, [[["hand_to_billing", {"reason": "money"}]]]),
                "handoffs": ["billing"],
                "max_handoffs": 2,
                "tools": [],
            },
            "billing": {"model": script(tmp_path, {"answers": TURN, "repeat": True}, "billing.json"), "tools": ["add"]},
        }
        async with either(kind, agents) as agent:
            events = [event async for event in agent.stream("add", thread="t")]
            (handed,) = [event.data for event in events if event.type == "handoff"]
            assert (handed["from"], handed["to"], handed["reason"]) == ("helper", "billing", "money")
            assert events[-1].data["agent"] == "billing"
            result = await agent.run("again", thread="t")
            assert (result.text, result.agent, result.turn, result.calls) == (TURN[1], "billing", 2, 1)
            assert [turn.agent for turn in (await agent.history("t")).turns] == ["billing", "billing"]

    async def test_turns(self, kind: str, tmp_path: Path) -> None:
        async with either(kind, declared(tmp_path)) as agent:
            result = await agent.run("add", thread="t")
            assert (result.text, result.state, result.stopped) == (TURN[1], AgentState.FINISHED, "finished")
            assert (result.steps, result.calls, result.turn, result.begins, result.thread) == (2, 1, 1, 0, "t")
            assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
            assert result.messages[1].uses[0].name == "add"
            again = await agent.run("add again", thread="t")
            assert (again.turn, again.begins, len(again.messages), len(again.new_messages)) == (2, 4, 8, 4)
            assert again.usage.total > 0
            assert await agent.messages("t") == again.messages
            page = await agent.history("t", limit=1)
            assert ([turn.turn for turn in page.turns], page.after) == ([1], 1)
            assert [turn.turn for turn in (await agent.history("t", after=1)).turns] == [2]
            view = await agent.look("t")
            assert (view.turns, view.state, view.text) == (2, AgentState.FINISHED, TURN[1])
            assert (await agent.look("other")).state is AgentState.IDLE

    async def test_checks(self, kind: str, tmp_path: Path) -> None:
        agents = declared(tmp_path)
        checks = [{"check": "max_length", "characters": 30, "on": "input"}, {"check": "pii", "on": "input"}]
        agents["helper"]["checks"] = checks
        async with either(kind, agents) as agent:
            refused = await agent.run("a" * 31, thread="t")
            assert (refused.stopped, refused.state, refused.messages) == ("refused", AgentState.IDLE, [])
            assert "may have 30" in refused.text
            await agent.run("add for ann@example.com", thread="t")
            said = [event.data async for event in agent.events("t") if event.type == "decision"]
            assert [(each["by"], each["on"], each["value"]["do"]) for each in said] == [("pii", "input", "change")]
            turns = (await agent.history("t")).turns
            assert [turn.message for turn in turns] == ["a" * 31, "add for ann@example.com"]
            assert turns[1].messages[0].content == "add for [email]"

    async def test_streams(self, kind: str, tmp_path: Path) -> None:
        async with either(kind, declared(tmp_path)) as agent:
            events = [event async for event in agent.stream("add", thread="t")]
            assert events[-1].type == "final"
            assert events[-1].data["text"] == TURN[1]
            assert {"state", "message", "tool_started", "tool_result", "delta", "usage"} <= {e.type for e in events}
            kept = [event for event in events if event.id]
            assert [event async for event in agent.events("t")] == kept
            assert [event async for event in agent.events("t", after=kept[2].id)] == kept[3:]
            assert [event async for event in agent.events("t", after=kept[-1].id)] == []
            assert [event async for event in agent.events("nobody")] == []

    async def test_options_of_one_turn(self, kind: str, tmp_path: Path) -> None:
        async with either(kind, declared(tmp_path, ["no JSON", "[1, 2]"])) as agent:
            result = await agent.run("count", thread="t", output=list[int], tools=["add"], metadata={"user": 7})
            assert (result.value, result.steps) == ([1, 2], 2)
            with pytest.raises(ClicketError, match="metadata"):
                await agent.run("count", thread="t", metadata={"a": object()})
            turn = await agent.begin("count", thread="u", output={"type": "array", "items": {"type": "integer"}})
            events = [event async for event in agent.events("u", follow=False)]
            assert (turn, events[-1].data["value"]) == (1, [1, 2])

    async def test_messages_are_stored(self, kind: str, tmp_path: Path) -> None:
        async with either(kind, declared(tmp_path, ["one", "two"])) as agent:
            sent = await agent.send("first", thread="t", id="a")
            assert (sent.id, sent.turn) == ("a", 1)
            await agent.send("second", thread="t", id="b")
            await agent.send("second", thread="t", id="b")
            with pytest.raises(Conflict):
                await agent.send("third", thread="t", id="b")

            async def ended() -> bool:
                return (await agent.look("t")).turns == 2

            await eventually(ended)
            assert [turn.text for turn in (await agent.history("t")).turns] == ["one", "two"]

    async def test_messages_that_wait_are_listed_and_taken_back(self, kind: str, tmp_path: Path) -> None:
        gate = Gate()
        async with either(kind, declared(tmp_path, [[["gate", {}]], "one", "two"]), [gate.tool]) as agent:
            assert await agent.queued("t") == []
            await agent.begin("first", thread="t")
            await gate.reached.wait()
            await agent.send("second", thread="t", id="b")
            await agent.send("a/b?", thread="t", id="c/d?")
            waiting = await agent.queued("t")
            assert [(each.id, each.text, each.when, each.thread) for each in waiting] == [
                ("b", "second", "next", "t"), ("c/d?", "a/b?", "next", "t"),
            ]  # fmt: skip
            assert await agent.unsend("c/d?", "t")
            assert not await agent.unsend("c/d?", "t")
            assert await agent.queued("u") == []
            gate.open.set()

            async def ended() -> bool:
                return (await agent.look("t")).turns == 2

            await eventually(ended)
            assert not await agent.unsend("b", "t")
            assert [turn.messages[0].content for turn in (await agent.history("t")).turns] == ["first", "second"]

    async def test_follows_across_turns(self, kind: str, tmp_path: Path) -> None:
        async with either(kind, declared(tmp_path)) as agent:
            await agent.run("one", thread="t")
            seen = []
            async with aclosing(agent.events("t", follow=True)) as events:
                async for event in events:
                    seen.append(event)
                    if event.type == "final":
                        if event.turn == 3:
                            break
                        await agent.begin(f"after {event.turn}", thread="t")
            ids = [event.id for event in seen if event.id]
            assert len(set(ids)) == len(ids)
            assert {event.turn for event in seen} == {1, 2, 3}

    async def test_busy_and_stopped(self, kind: str, tmp_path: Path) -> None:
        gate = Gate()
        async with either(kind, declared(tmp_path, [[["gate", {}]], "done"]), [gate.tool]) as agent:
            assert await agent.stop("t") is False
            running = asyncio.create_task(agent.run("wait", thread="t"))
            await gate.reached.wait()
            for same in ("wait", "other"):
                with pytest.raises(AgentBusy):
                    await agent.run(same, thread="t")
                with pytest.raises(AgentBusy):
                    await anext(agent.stream(same, thread="t"))
            assert (await agent.look("t")).state is AgentState.RUNNING
            assert await agent.stop("t", "enough") is True
            result = await running
            assert (result.stopped, result.state) == ("cancelled", AgentState.IDLE)

    async def test_fails(self, kind: str, tmp_path: Path) -> None:
        async with either(kind, declared(tmp_path, ["once"], repeat=False)) as agent:
            await agent.run("one", thread="t")
            with pytest.raises(ClicketError, match="had them all"):
                await agent.run("two", thread="t")
            assert (await agent.look("t")).state is AgentState.ERROR
            events = [event async for event in agent.stream("three", thread="t")]
            assert events[-1].type == "error"

    async def test_an_id_is_one_turn(self, kind: str, tmp_path: Path) -> None:
        async with either(kind, declared(tmp_path)) as agent:
            first = await agent.run("add", thread="t", id="order 7")
            await agent.run("add", thread="t", id="order 8")
            assert await agent.run("add", thread="t", id="order 7") == first
            assert await agent.run("add", thread="t", turn=1) == first
            assert await agent.begin("add", thread="t", id="order 7") == 1
            events = [event async for event in agent.stream("add", thread="t", id="order 7")]
            assert (events[-1].type, events[-1].turn, events[-1].data["text"]) == ("final", 1, first.text)
            for named in ({"id": "order 7"}, {"turn": 1}):
                with pytest.raises(Conflict):
                    await agent.run("something else", thread="t", **named)
                with pytest.raises(Conflict):
                    await agent.begin("something else", thread="t", **named)
                with pytest.raises(Conflict):
                    await anext(agent.stream("something else", thread="t", **named))
            assert (await agent.look("t")).turns == 2

    async def test_a_turn_that_is_begun_twice_is_one(self, kind: str, tmp_path: Path) -> None:
        gate = Gate()
        async with either(kind, declared(tmp_path, [[["gate", {}]], "done"]), [gate.tool]) as agent:
            assert await agent.begin("go", thread="t", turn=1) == 1
            await gate.reached.wait()
            assert await agent.begin("go", thread="t", turn=1) == 1, "while it runs"
            with pytest.raises(Conflict):
                await agent.begin("something else", thread="t", turn=1)
            gate.open.set()
            async for _ in agent.events("t"):
                pass
            assert await agent.begin("go", thread="t", turn=1) == 1, "when it is over"
            for message, turn in (("something else", 1), ("go", 3)):
                with pytest.raises(Conflict, match="turn 2"):
                    await agent.begin(message, thread="t", turn=turn)
            assert (await agent.look("t")).turns == 1


class Breaking(httpx2.AsyncBaseTransport):
    """A transport that loses the response of the first request for each message: the server has handled it."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self.sent: list[bytes] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        if request.method == "POST":
            body = bytes(request.content)
            self.sent.append(body)
            if self.sent.count(body) == 1:
                await answer.aread()
                await answer.aclose()
                raise httpx2.ReadError("the wire was cut")
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_an_answer_that_was_lost_does_not_make_a_second_turn(tmp_path: Path) -> None:
    transport = Breaking()
    async with served(agents=declared(tmp_path)) as it, Client(it.url, transport=transport) as client:
        agent = client.agent()
        assert (await agent.run("one", thread="t")).turn == 1
        assert [event async for event in agent.stream("two", thread="t")][-1].turn == 2
        assert await agent.begin("three", thread="t") == 3
        assert len(transport.sent) == 6
        assert (await it.get("/agents/t")).json()["turns"] in (2, 3)
        await it.parts.agents["helper"].wait("t", 3)
        assert (await agent.look("t")).turns == 3


class Cutting(httpx2.AsyncBaseTransport):
    """A transport that breaks each stream after its first piece."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self.cuts = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        if not answer.headers["content-type"].startswith("text/event-stream"):
            return answer
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=_Cut(answer, self))

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Cut(httpx2.AsyncByteStream):
    def __init__(self, answer: httpx2.Response, cutting: Cutting) -> None:
        self._answer = answer
        self._cutting = cutting

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for piece in self._answer.aiter_raw():
            yield piece
            count += 1
            if count >= 2 and self._cutting.cuts < 4:
                self._cutting.cuts += 1
                raise httpx2.ReadError("the wire was cut")

    async def aclose(self) -> None:
        await self._answer.aclose()


async def test_a_stream_that_breaks_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    gate, transport = Gate(), Cutting()
    agents = declared(tmp_path, [[["gate", {}]], "done"])
    async with served([gate.tool], agents=agents) as it, Client(it.url, transport=transport) as client:
        seen = []
        async for event in client.agent().stream("go", thread="t"):
            seen.append(event)
            if event.type == "tool_started":
                gate.open.set()
        assert transport.cuts > 0, "no connection was cut: the test proves nothing"
        kept = [event for event in seen if event.id]
        async with Client(it.url) as plain:
            assert kept == [event async for event in plain.agent().events("t")]
        assert (await it.get("/agents/t")).json()["turns"] == 1


async def test_keys_and_names(tmp_path: Path) -> None:
    async with served(agents=declared(tmp_path)) as it:
        key = await key_for(it, "a", "read", "call")
        async with Client(it.url, key=key["authorization"].split()[1]) as client:
            [info] = await client.agents()
            assert (info.name, info.kind, info.default, info.limits.max_steps) == ("helper", "react", True, 20)
            assert (await client.agent().run("add")).text == TURN[1]
            with pytest.raises(NotFound, match="Did you mean 'helper'"):
                await client.agent("helpr").run("add")
            with pytest.raises(ClicketError, match="message"):
                await client.agent().run("")
        async with Client(it.url, key="ck_x_y") as client:
            with pytest.raises(PermissionDenied):
                await client.agent().run("add")


async def test_without_agents_and_without_a_server(free_port: int) -> None:
    async with served() as it, Client(it.url) as client:
        assert await client.agents() == []
        with pytest.raises(NotFound, match=r"clicket\.toml"):
            await client.agent().run("hello")
    async with Client(f"http://127.0.0.1:{free_port}") as client:
        with pytest.raises(ServerUnavailable):
            await client.agent().look()


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def test_blocking(tmp_path: Path) -> None:
    with serving_in_thread(agents=declared(tmp_path)) as url, SyncClient(url) as client:
        agent = client.agent()
        assert [each.name for each in client.agents()] == ["helper"]
        assert agent.run("add", thread="t").text == TURN[1]
        assert [event.type for event in agent.stream("add", thread="t")][-1] == "final"
        assert agent.begin("add", thread="u", turn=1) == 1
        assert agent.begin("add", thread="u", turn=1) == 1
        assert len(agent.messages("t")) == 8
        assert agent.history("t", after=1).turns[0].turn == 2
        assert agent.state("t") is AgentState.FINISHED
        assert agent.look("t").turns == 2
        assert agent.stop("t") is False
        assert agent.send("add", thread="v").turn == 1
        assert agent.queued("t") == []
        assert not agent.unsend("nothing", "t")
        assert [event.type for event in agent.events("t")][-1] == "final"
    with pytest.raises(UsageError, match="not open"):
        agent.run("add")


def test_the_faces_have_the_same_names() -> None:
    """A remote agent has the methods of an agent, with the same parameters; the blocking one has all of them."""
    for name, method in vars(RemoteAgent).items():
        if name.startswith("_"):
            continue
        wanted = list(inspect.signature(method).parameters)
        mirrored = list(inspect.signature(getattr(Agent, name)).parameters)
        inside = ("turn", "run", "frontend", "reader")  # for servers
        if name in ("rerun", "resume"):
            inside = ("model", "output", "deps")  # values of a process
        assert [each for each in mirrored if each not in inside or each in wanted] == wanted, name
        assert list(inspect.signature(getattr(SyncAgent, name)).parameters) == wanted, name
