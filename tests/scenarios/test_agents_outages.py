"""A store that does not answer for a while does not end a turn: it waits, goes on, and every call has run once."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import apsw
import pytest
from tests.cutting_proxy import cutting_proxy
from tests.kit.waiting import eventually
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer
from tests.scenarios.agent_kit import Gate, Says, asks, check_pairs
from tests.scenarios.kit import make

import clicket.runtime.compose
from clicket import Runtime, tool
from clicket.agents import AgentState, PlanExecuteAgent, ReActAgent
from clicket.agents.outages import Outages
from clicket.errors import StoreUnavailable
from clicket.model.chat import ChatReply, ChatRequest, Usage

CHORES = (
    "audit",
    "backlog",
    "claim_orphans",
    "claim_waiting",
    "close",
    "news",
    "open",
    "owned",
    "owners",
    "renew",
    "requests",
    "sweep",
)
"""Operations that the runtime makes by itself, at times that a test does not decide."""


class Outage:
    """A store of which `length` operations in a row fail, from operation `first` on; 0: none does."""

    def __init__(self, store: Any) -> None:
        self.armed = False
        self.names: list[str] = []
        self.first = self.length = 0
        for name, method in inspect.getmembers(store, inspect.ismethod):
            if inspect.iscoroutinefunction(method) and name not in CHORES:
                setattr(store, name, self._failing(name, method))
        self._append, store.append = store.append, self._appended
        self._now, store.document_now = store.document_now, self._read_now

    def arm(self, first: int = 0, length: int = 3) -> None:
        self.armed, self.first, self.length = True, first, length

    def _fails(self, name: str) -> bool:
        if not self.armed:
            return False
        self.names.append(name)
        return self.first > 0 and self.first <= len(self.names) < self.first + self.length

    def _failing(self, name: str, method: Any) -> Any:
        async def operation(*args: Any, **named: Any) -> Any:
            if self._fails(name):
                raise StoreUnavailable("store: no answer within 2 s. clicket goes on by itself when it answers.")
            return await method(*args, **named)

        return operation

    def _appended(self, change: Any, done: Any) -> None:
        if self._fails("append"):
            asyncio.get_running_loop().call_soon(done, change, StoreUnavailable("store: no answer within 2 s."))
        else:
            self._append(change, done)

    def _read_now(self, *args: Any) -> Any:
        return None if self.armed else self._now(*args)  # what is read while an outage is possible is awaited


@asynccontextmanager
async def failing(
    monkeypatch: pytest.MonkeyPatch, tools: list[Any], **settings: Any
) -> AsyncIterator[tuple[Runtime, Outage]]:
    outages: list[Outage] = []
    opened = clicket.runtime.compose.open_store

    def open_store(given: Any) -> Any:
        store = opened(given)
        outages.append(Outage(store))
        return store

    monkeypatch.setattr(clicket.runtime.compose, "open_store", open_store)
    for place in (
        "clicket.agents.outages._FIRST",
        "clicket.engine.journal.journal._RETRY_FIRST",
        "clicket.engine.spend.book._RETRY_FIRST",
    ):
        monkeypatch.setattr(place, 0.001)
    async with make(tools, **settings) as rt:
        yield rt, outages[0]
    monkeypatch.setattr(clicket.runtime.compose, "open_store", opened)


class Scene:
    """An agent that calls tools and another agent; the tools count how often each call ran."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.ran: list[str] = []

    def tools(self) -> list[Any]:
        @tool
        async def pay(n: int) -> str:
            self.ran.append(f"pay {n}")
            return f"paid {n} " + "x" * 300

        @tool
        async def fail(n: int) -> str:
            self.ran.append(f"fail {n}")
            raise ValueError("it does not work")

        return [pay, fail]

    def agent(self, rt: Runtime) -> ReActAgent:
        usage = Usage(input_tokens=10, output_tokens=1)

        async def inner(request: ChatRequest) -> ChatReply:
            asked = sum(message.role == "assistant" for message in request.messages)
            return asks(("pay", '{"n": 10}'), usage=usage) if not asked else ChatReply(text="inner done", usage=usage)

        async def outer(request: ChatRequest) -> ChatReply:
            if not request.tools:
                return ChatReply(text="they paid", usage=usage)
            asked = sum(len(message.uses) for message in request.messages)
            await self.gate()
            if not asked:
                return asks(("pay", '{"n": 1}'), ("fail", '{"n": 2}'), ("ask", '{"task": "do it"}'), usage=usage)
            return asks(("pay", '{"n": 3}'), usage=usage) if asked == 3 else ChatReply(text="done", usage=usage)

        helper = ReActAgent(rt, Says(inner), name="helper", tools=["pay"])
        rt.add(helper.as_tool("ask"))
        return ReActAgent(rt, Says(outer), tools=["pay", "fail", "ask"], max_observation=200, max_seconds=600)

    def planner(self, rt: Runtime) -> PlanExecuteAgent:
        usage = Usage(input_tokens=10, output_tokens=1)
        steps = [{"text": "one", "depends_on": []}, {"text": "two", "depends_on": []}]
        create = json.dumps({"command": "create", "title": "Bills", "steps": steps})

        async def plan(request: ChatRequest) -> ChatReply:
            await self.gate()
            if any(message.uses for message in request.messages):
                return ChatReply(text="done", usage=usage)
            return asks(("plan", create), usage=usage)

        async def execute(request: ChatRequest) -> ChatReply:
            begins = max(place for place, message in enumerate(request.messages) if message.role == "user")
            number = int(request.messages[begins].content.partition("Carry out step ")[2].partition(":")[0])
            if any(message.uses for message in request.messages[begins:]):
                return ChatReply(text=f"step {number} is done", usage=usage)
            return asks(("pay", f'{{"n": {number}}}'), usage=usage)

        return PlanExecuteAgent(rt, Says(plan), executor=Says(execute), tools=["pay"])


async def turn(rt: Runtime, outage: Outage, scene: Scene, agent: Any, first: int) -> Any:
    """Run a turn with an outage; what it left."""
    await agent.begin("go", thread="t")
    await scene.gate.reached.wait()
    outage.arm(first)
    scene.gate.open()
    await eventually(lambda: not rt.is_held("turn-1", f"agent:{agent.name}/t", ""))
    outage.armed = False
    view = await agent.look("t")
    messages = await agent.messages("t")
    check_pairs(messages)
    calls = sorted((call.tool, str(call.state)) for call in (await rt.history(limit=100)).items)
    return view.state, view.text, view.error, view.usage, [(m.role, m.failed, m.content[:40]) for m in messages], calls


BUDGET = {"scope": "all", "limit_tokens": 10_000_000, "period": "total", "on_reached": "stop"}


async def outages_everywhere(monkeypatch: pytest.MonkeyPatch, kind: str, one_of: int) -> None:
    """An outage of three operations that begins at every n-th operation of a turn."""
    whole, number, first, ran = None, 0, 0, list[str]()
    while first <= number:
        scene = Scene()
        async with failing(monkeypatch, scene.tools(), budgets=[BUDGET]) as (rt, outage):
            found = await turn(rt, outage, scene, scene.agent(rt) if kind == "react" else scene.planner(rt), first)
            if whole is None:
                whole, number, ran = found, len(outage.names), sorted(scene.ran)
                assert whole[0] is AgentState.FINISHED
                assert ran == (["fail 2", "pay 1", "pay 10", "pay 3"] if kind == "react" else ["pay 1", "pay 2"])
            assert found == whole, f"operation {first}: {outage.names[first - 1]}"
            assert sorted(scene.ran) == ran, f"operation {first}: {outage.names[first - 1]}"
        first += one_of
    assert number > 30


@pytest.mark.parametrize("kind", ["react", "plan"])
async def test_an_outage_changes_nothing_of_a_turn(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    await outages_everywhere(monkeypatch, kind, 3)  # each operation fails in one of the runs


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["react", "plan"])
async def test_an_outage_at_any_operation_changes_nothing_of_a_turn(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    await outages_everywhere(monkeypatch, kind, 1)


async def test_a_turn_that_waits_for_the_store_can_be_stopped_and_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for ends in ("stop", "close"):
        scene = Scene()
        async with failing(monkeypatch, scene.tools(), budgets=[BUDGET], close_timeout=0.0) as (rt, outage):
            agent = scene.agent(rt)
            await agent.begin("go", thread="t")
            await scene.gate.reached.wait()
            outage.arm(2, 1_000_000)
            scene.gate.open()
            await eventually(lambda: len(outage.names) >= 2)  # it is awaited here
            if ends == "stop":
                running = agent._tool.turns["", "t"]
                outage.armed = False
                assert await agent.stop("t")
                await eventually(lambda: not rt.is_held("turn-1", "agent:react/t", ""))
                assert (await agent.look("t")).stopped == "cancelled"
                assert running.stopping == "cancel"
            else:
                outage.armed = False


async def test_an_error_of_a_store_that_answers_ends_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not an outage: to wait for its end would be to wait for ever."""
    scene = Scene()
    async with failing(monkeypatch, scene.tools()) as (rt, _):

        async def damaged(thread: str) -> Any:
            raise StoreUnavailable("the health of the tools cannot be read: it is damaged.")

        agent = scene.agent(rt)
        await agent.begin("go", thread="t")
        await scene.gate.reached.wait()
        monkeypatch.setattr(type(rt.host), "offers", lambda self, thread: damaged(thread))
        scene.gate.open()
        await eventually(lambda: not rt.is_held("turn-1", "agent:react/t", ""))
        view = await agent.look("t")
        assert (view.state, view.error) == (AgentState.ERROR, "the health of the tools cannot be read: it is damaged.")


@pytest.mark.slow
async def test_turns_survive_a_redis_that_hangs(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    await twelve_turns(monkeypatch, redis.port, lambda port: f"redis://127.0.0.1:{port}")


@pytest.mark.slow
async def test_turns_survive_a_postgres_that_hangs(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    await twelve_turns(monkeypatch, postgres.port, lambda port: postgres.url().replace(str(postgres.port), str(port)))


async def twelve_turns(monkeypatch: pytest.MonkeyPatch, port: int, url: Callable[[int], str]) -> None:
    """A network that passes nothing for longer than `store_timeout`, while twelve agents work."""
    found, waits, count = asyncio.Event(), Outages.wait, 0

    async def watched(self: Outages, error: StoreUnavailable) -> None:
        nonlocal count
        count += 1
        found.set()
        await waits(self, error)

    monkeypatch.setattr(Outages, "wait", watched)
    async with cutting_proxy(port) as proxy:
        scene = Scene()
        async with make(
            scene.tools(), url(proxy.port), store_timeout=0.5, lease=60.0, budgets=[BUDGET], max_concurrency=50
        ) as rt:
            agent = scene.agent(rt)
            threads = [f"t{number}" for number in range(12)]
            for thread in threads:
                await agent.begin("go", thread=thread)
            await scene.gate.reached.wait()
            proxy.silence()
            scene.gate.open()
            await found.wait()
            proxy.mend()
            for thread in threads:
                result = await agent.wait(thread, 1)
                assert result is not None
                assert (result.text, result.stopped) == ("done", "finished")
                assert [m.failed for m in result.messages if m.role == "tool"] == [False, True, False, False], (
                    result.messages
                )
            for name in ("pay 1", "fail 2", "pay 10", "pay 3"):
                assert scene.ran.count(name) == 12
    assert count


async def test_a_turn_that_went_through_an_outage_keeps_its_id(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paid: list[int] = []

    @tool
    async def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    async with make([pay], sqlite) as rt:
        offers, asked = type(rt.host).offers, 0

        async def failing_once(host: Any, thread: str) -> Any:
            nonlocal asked
            asked += 1
            if asked == 2:  # between the two steps
                raise StoreUnavailable("no answer", transient=True)
            return await offers(host, thread)

        monkeypatch.setattr(type(rt.host), "offers", failing_once)
        agent = ReActAgent(rt, Says(lambda request: "done" if paid else asks(("pay", '{"cents": 5}'))))
        for _ in range(2):
            result = await agent.run("go", thread="t", id="one")
            assert (result.turn, result.text, paid) == (1, "done", [5])


@pytest.mark.parametrize("by_agent", [False, True], ids=["tool", "sub-agent"])
async def test_a_full_disk_fails_no_call_that_an_agent_waits_for(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, by_agent: bool
) -> None:
    """Waiters are told of a full disk at once, and it answers reads: the turn waits until there is room."""
    is_full, probes, opened = False, 0, clicket.runtime.compose.open_store
    gate = Gate()

    @tool
    async def pay(cents: int) -> str:
        await gate()
        return "paid"

    def filling(given: Any) -> Any:
        store: Any = opened(given)
        append, document = store.append, store.document

        def appended(change: Any, done: Any) -> None:
            if is_full:
                full = StoreUnavailable("the disk is full", lasting=True)
                asyncio.get_running_loop().call_soon(done, change, full)
            else:
                append(change, done)

        async def read(kind: str, key: str) -> Any:
            nonlocal probes
            probes += kind == "outage"
            return await document(kind, key)

        store.append, store.document = appended, read
        return store

    def answer(name: str) -> Callable[[ChatRequest], ChatReply | str]:
        called = asks((name, '{"cents": 5}' if name == "pay" else '{"task": "pay"}'))
        return lambda request: called if len(request.messages) == 1 else f"read {request.messages[-1].content}"

    monkeypatch.setattr(clicket.runtime.compose, "open_store", filling)
    async with make([pay], sqlite) as rt:
        agent = ReActAgent(rt, Says(answer("pay")), name="inner")
        if by_agent:
            rt.add(agent.as_tool("ask_inner", "Pays."))
            agent = ReActAgent(rt, Says(answer("ask_inner")), name="outer")
        turn = asyncio.create_task(agent.run("go", thread="t"))
        await gate.reached.wait()
        is_full = True
        gate.open()
        await eventually(lambda: turn.done() or probes > 6)
        is_full = False
        assert (await turn).text == ("read read paid" if by_agent else "read paid")


async def test_a_turn_waits_for_a_full_disk_that_refuses_a_document(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event of the turn was refused, and reads are answered: only the error says that the disk is full."""
    is_full, refused, opened = False, 0, clicket.runtime.compose.open_store

    def filling(given: Any) -> Any:
        store: Any = opened(given)

        def refusing(write: Any) -> Any:
            async def written(*args: Any) -> Any:
                nonlocal refused
                if is_full:
                    refused += 1
                    raise StoreUnavailable("the disk is full", lasting=True)
                return await write(*args)

            return written

        store.put_document, store.put_documents = refusing(store.put_document), refusing(store.put_documents)
        return store

    monkeypatch.setattr(clicket.runtime.compose, "open_store", filling)
    for place in ("clicket.agents.outages._FIRST", "clicket.engine.spend.book._RETRY_FIRST"):
        monkeypatch.setattr(place, 0.001)
    async with make([], sqlite, budgets=[BUDGET]) as rt:
        agent = ReActAgent(rt, Says(lambda request: "done"))
        is_full = True
        turn = asyncio.create_task(agent.run("go", thread="t"))
        await eventually(lambda: turn.done() or refused > 8)
        is_full = False
        assert (await turn).text == "done"


async def test_a_turn_that_was_taken_over_in_an_outage_asks_no_model(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease ends while the store does not answer, so another process may own the turn, and have asked the model."""
    is_down, probes, opened = False, 0, clicket.runtime.compose.open_store

    def hanging(given: Any) -> Any:
        store: Any = opened(given)

        def failing(work: Any) -> Any:
            async def operation(*args: Any) -> Any:
                nonlocal probes
                probes += is_down and args[0] == "outage"
                if is_down:
                    raise StoreUnavailable("store: no answer within 2 s.")
                return await work(*args)

            return operation

        for name in ("document", "put_document", "put_documents"):
            setattr(store, name, failing(getattr(store, name)))
        return store

    asked = 0

    def answer(request: ChatRequest) -> str:
        nonlocal asked
        asked += 1
        return "done"

    monkeypatch.setattr(clicket.runtime.compose, "open_store", hanging)
    monkeypatch.setattr("clicket.agents.outages._FIRST", 0.001)
    async with make([], sqlite, budgets=[BUDGET], lease=0.6) as rt:
        agent = ReActAgent(rt, Says(answer))
        is_down = True
        turn = asyncio.create_task(agent.run("go", thread="t"))
        await eventually(lambda: turn.done() or probes > 2)
        with contextlib.closing(apsw.Connection(str(rt.store.path))) as other:
            other.set_busy_timeout(5_000)
            other.execute("UPDATE calls SET fence = fence + 1, owner = 999")
        is_down = False
        assert (await turn).text == "done"  # by the next owner, which is this process again
        assert asked == 1
