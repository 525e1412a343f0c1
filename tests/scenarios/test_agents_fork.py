"""Forks: a new thread from any turn or step, and the old one as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.tools import echo
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server
from tests.scenarios.agent_kit import Gate, Says, check_pairs
from tests.scenarios.kit import make

from clicket import Image, tool
from clicket.agents import AgentBusy, AgentState, PlanExecuteAgent, ReActAgent
from clicket.agents.fork_sweep import ForkSweep
from clicket.agents.memory import ENTRIES, FORK, TURN
from clicket.agents.thread_retention import ThreadSweep
from clicket.errors import Conflict, NotFound, UsageError
from clicket.model.chat import ChatReply, ChatRequest, Usage
from clicket.testing import ScriptedModel

PICTURE = b"\x89PNG\r\n\x1a\n" + b"\0" * 8 + (2).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"\0" * 20
PLAN = '{"command": "create", "title": "pay", "steps": ["rent", "gas"]}'


class Shop:
    """A tool that counts."""

    def __init__(self) -> None:
        self.paid: list[str] = []

        @tool
        async def pay(bill: str) -> str:
            self.paid.append(bill)
            return f"paid {bill}, number {len(self.paid)}"

        self.pay = pay


def pays(*bills: str) -> Any:
    return [("pay", {"bill": bill}) for bill in bills]


async def texts(agent: ReActAgent, thread: str) -> list[str]:
    return [message.content for message in await agent.messages(thread)]


async def test_a_fork_goes_its_own_way_and_the_old_thread_stays(store: str) -> None:
    shop = Shop()
    async with make([shop.pay], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([pays("rent"), "one", "two", "three", "other two"]))
        for text in ("first", "second", "third"):
            await agent.run(text, thread="t")
        before = await agent.messages("t")
        fork = await agent.fork("t", after=1, to="f")
        assert (fork.thread, fork.turns, fork.state, fork.text) == ("f", 1, AgentState.FINISHED, "one")
        assert fork.origin is not None
        assert (fork.origin.thread, fork.origin.after, fork.origin.step) == ("t", 1, None)
        assert fork.usage == Usage()
        assert await texts(agent, "f") == ["first", "", "paid rent, number 1", "one"]
        result = await agent.run("another second", thread="f")
        assert (result.turn, result.text) == (2, "other two")
        assert "Their sessions are fresh" in result.messages[5].content
        check_pairs(result.messages)
        assert await agent.messages("t") == before
        assert (await agent.look("t")).turns == 3
        assert shop.paid == ["rent"]
        pages = [await agent.history("f", limit=1), await agent.history("f", after=1, limit=1)]
        assert [(page.turns[0].turn, page.after) for page in pages] == [(1, 1), (2, None)]
        own = [event async for event in agent.events("t", after="1-0.0")]
        taken = [event async for event in agent.events("f", after="1-0.0")]
        assert [(e.id, e.type, e.data) for e in taken if e.turn == 1] == [
            (e.id, e.type, e.data) for e in own if e.turn == 1
        ]
        assert [event.type for event in taken][-1] == "final"


async def test_a_fork_of_nothing_and_of_all(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel(["one", "again", "two"]))
        await agent.run("first", thread="t")
        empty = await agent.fork("t", after=0, to="empty")
        assert (empty.turns, empty.state) == (0, AgentState.IDLE)
        assert (await agent.run("first", thread="empty")).text == "again"
        whole = await agent.fork("t")
        assert whole.thread.startswith("t-fork-")
        result = await agent.run("second", thread=whole.thread)
        assert [message.content for message in result.messages] == ["first", "one", "second", "two"], "no tool was used"


async def test_a_turn_goes_on_after_a_step(store: str) -> None:
    shop = Shop()
    asked = ScriptedModel([pays("rent"), pays("gas", "phone"), pays("car"), "all is paid", "the rent alone"])
    async with make([shop.pay], store) as rt:
        agent = ReActAgent(rt, asked)
        await agent.run("pay all", thread="t", id="mine")
        fork = await agent.fork("t", after=0, step=2, to="f")
        assert (fork.turns, fork.state, fork.waiting_for) == (0, AgentState.IDLE, ["resume"])
        with pytest.raises(AgentBusy, match=r"agent\.resume\('f'\)"):
            await agent.run("something else", thread="f")
        assert [event.type for event in await agent.recorded("f", 1)].count("tool_result") == 3
        result = await agent.resume("f")
        assert result is not None
        assert (result.turn, result.text, result.thread) == (1, "the rent alone", "f")
        assert [message.content for message in result.messages if message.role == "tool"] == [
            f"paid {bill}, number {number}" for number, bill in enumerate(("rent", "gas", "phone"), 1)
        ]
        check_pairs(result.messages)
        assert shop.paid == ["rent", "gas", "phone", "car"]
        assert result.steps == 3
        assert (await agent.look("f")).waiting_for == []
        assert await agent.resume("f") is None
        assert (await agent.spend("f")).total.tokens == result.usage.total, (
            "what the old thread spent is not counted again"
        )


async def test_a_running_turn_is_not_disturbed(store: str) -> None:
    gate = Gate()

    @tool
    async def wait(n: int) -> str:
        if n == 2:
            await gate()
        return f"waited {n}"

    async with make([wait], store) as rt:
        model = ScriptedModel([[("wait", {"n": 1})], [("wait", {"n": 2}), ("wait", {"n": 3})], "forked", "done"])
        agent = ReActAgent(rt, model)
        await agent.begin("go", thread="t")
        await gate.reached.wait()
        with pytest.raises(NotFound, match="step 2"):
            await agent.fork("t", step=2)
        fork = await agent.fork("t", step=1, to="f")
        result = await agent.resume(fork.thread)
        assert result is not None
        assert result.text == "forked"
        gate.open()
        ended = await agent.wait("t", 1)
        assert ended is not None
        assert ended.text == "done"
        assert [message.content for message in ended.messages if message.role == "tool"] == [
            "waited 1", "waited 2", "waited 3",
        ]  # fmt: skip


async def test_the_same_fork_again_is_that_fork(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel(["one", "two", "three", "four"]))
        for text in ("a", "b"):
            await agent.run(text, thread="t")
        await agent.fork("t", after=1, to="f")
        await agent.run("c", thread="f")
        assert (await agent.fork("t", after=1, to="f")).turns == 2
        with pytest.raises(Conflict, match="not this fork"):
            await agent.fork("t", after=2, to="f")
        with pytest.raises(Conflict):
            await agent.fork("t", after=1, to="t")
        await agent.run("d", thread="other")
        with pytest.raises(Conflict):
            await agent.fork("t", after=1, to="other")
        made = await asyncio.gather(*(agent.fork("t", after=2, to="together") for _ in range(4)))
        assert len({view.origin for view in made}) == 1
        assert len(await agent.forks("t")) == 2


async def test_what_cannot_be_forked(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})], "one", "two", "three"]))
        for text in ("a", "b"):
            await agent.run(text, thread="t")
        with pytest.raises(NotFound, match="has 2 turns"):
            await agent.fork("t", after=3)
        for step in (2, 9):
            with pytest.raises(NotFound, match=f"step {step}"):
                await agent.fork("t", after=0, step=step)
        for wrong in ({"after": -1}, {"after": True}, {"step": 0}, {"to": ""}):
            with pytest.raises(UsageError):
                await agent.fork("t", **wrong)
        await agent.forget("t")
        await agent.run("c", thread="t")
        with pytest.raises(NotFound, match="forgotten"):
            await agent.fork("t", after=1)
        assert (await agent.fork("t", after=3, to="f")).turns == 3
        assert await texts(agent, "f") == ["c", "three"]
        assert await agent.forks("nothing") == []


async def test_forks_of_forks_are_a_tree(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel(["one", "two", "three"]))
        await agent.run("a", thread="t")
        await agent.fork("t", to="f")
        await agent.run("b", thread="f")
        await agent.fork("f", after=2, to="g")
        await agent.fork("f", after=1, to="h")
        (fork,) = await agent.forks("t")
        assert (fork.thread, [deeper.thread for deeper in fork.forks]) == ("f", ["g", "h"])
        assert await texts(agent, "g") == ["a", "one", "b", "two"]
        assert await texts(agent, "h") == ["a", "one"]
        await agent.forget("f")
        assert await agent.forks("t") == []
        assert await texts(agent, "g") == ["a", "one", "b", "two"], "a fork needs no origin"


async def test_a_fork_needs_nothing_of_its_origin(sqlite: str) -> None:
    @tool
    async def draw() -> Any:
        return ["a picture", Image(PICTURE)]

    seen: list[ChatRequest] = []

    def answer(request: ChatRequest) -> Any:
        seen.append(request)
        return [("draw", "{}")] if not any(message.role == "tool" for message in request.messages) else "drawn"

    async with make([draw], sqlite) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.run(["draw this", Image(PICTURE)], thread="t")
        await agent.fork("t", to="f")
        await agent.forget("t")
        await rt.sweep()
    async with make([draw], sqlite) as rt:
        agent = ReActAgent(rt, Says(answer))
        await rt.sweep()
        assert [event.type for event in await agent.recorded("f", 1)].count("tool_result") == 1
        await agent.run("and now?", thread="f")
        pictures = [file for message in await agent.messages("f") for file in message.files]
        assert len(pictures) == 2
        for file in pictures:
            assert await rt.host.read_file(file.artifact, 100) == PICTURE


async def test_threads_of_called_agents_come_along(store: str) -> None:
    shop = Shop()
    async with make([shop.pay], store) as rt:
        clerk = ReActAgent(rt, ScriptedModel([pays("rent"), "the clerk has paid"]), name="clerk")
        rt.add(clerk.as_tool("ask_clerk", "Pays."))
        boss = ReActAgent(
            rt, ScriptedModel([[("ask_clerk", {"task": "pay the rent"})], "it is paid", "and again"]), name="boss"
        )
        await boss.run("pay", thread="t")
        (inner,) = [thread.name for thread in (await rt.threads()).items if thread.name.startswith("t/")]
        for fork in (await boss.fork("t", to="whole"), await boss.fork("t", after=0, step=1, to="cut")):
            taken = inner.replace("t/", f"{fork.thread}/", 1)
            assert await texts(clerk, taken) == await texts(clerk, inner)
            assert [e.type for e in await clerk.recorded(taken, 1)] == [e.type for e in await clerk.recorded(inner, 1)]
            assert (await clerk.look(taken)).usage == Usage()
        result = await boss.resume("cut")
        assert result is not None
        assert result.text == "and again"
        assert shop.paid == ["rent"]


async def test_a_plan_comes_along(store: str) -> None:
    shop = Shop()
    asked: list[str] = []

    def answer(request: ChatRequest) -> Any:
        last = request.messages[-1]
        asked.append(last.content[:40])
        if any(offer.name == "plan" for offer in request.tools):
            return [("plan", PLAN)] if last.role == "user" and last.content == "pay" else "the plan is done"
        bill = "rent" if "step 1" in last.content else "gas"
        return f"{last.content}" if last.role == "tool" else [("pay", f'{{"bill": "{bill}"}}')]

    async with make([shop.pay], store) as rt:
        agent = PlanExecuteAgent(rt, Says(answer))
        done = await agent.run("pay", thread="t")
        assert done.plan is not None
        whole = await agent.fork("t", to="whole")
        assert whole.plan == done.plan
        paid = list(shop.paid)
        await agent.fork("t", after=0, step=1, to="cut")
        again = await agent.resume("cut")
        assert again is not None
        assert again.plan is not None
        assert len(shop.paid) == 2 * len(paid), "the steps of the plan come after step 1, so they are carried out again"
        check_pairs(again.messages)


async def test_met_dependencies_come_along(store: str) -> None:
    @tool
    async def login() -> str:
        return "in"

    @tool(depends_on="login")
    async def read() -> str:
        return "the page"

    offered: list[set[str]] = []

    def answer(request: ChatRequest) -> Any:
        offered.append({offer.name for offer in request.tools})
        return [("login", "{}")] if request.messages[-1].content == "log in" else "done"

    async with make([login, read], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.run("hello", thread="t")
        await agent.run("log in", thread="t")
        await agent.fork("t", after=1, to="before")
        await agent.fork("t", after=2, to="after")
        await agent.run("read", thread="before")
        assert "read" not in offered[-1]
        await agent.run("read", thread="after")
        assert "read" in offered[-1]
        assert (await rt.call("read", thread="after")).success


async def test_queued_messages_and_ids_of_messages(store: str) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        if request.messages[-1].content == "slow":
            await gate()
        return f"answer to {request.messages[-1].content}"

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.run("first", thread="t", id="one")
        await agent.begin("slow", thread="t")
        await gate.reached.wait()
        await agent.send("later", thread="t")
        await agent.fork("t", to="f")
        assert await agent.queued("f") == []
        assert (await agent.run("first", thread="f", id="one")).turn == 1, "the turn of that id"
        with pytest.raises(Conflict):
            await agent.run("another", thread="f", id="one")
        gate.open()
        await agent.wait("t", 2)


async def test_a_fork_is_continued_in_another_process(sqlite: str) -> None:
    shop = Shop()
    async with make([shop.pay], sqlite) as rt:
        agent = ReActAgent(rt, ScriptedModel([pays("rent"), pays("gas"), "paid"]), system="old words")
        await agent.run("pay", thread="t")
        await agent.fork("t", after=0, step=1, to="f")
    seen: list[ChatRequest] = []

    def answer(request: ChatRequest) -> ChatReply:
        seen.append(request)
        return ChatReply(text="from there")

    async with make([shop.pay], sqlite) as rt:
        agent = ReActAgent(rt, Says(answer), system="new words")
        await rt.recover()
        assert (await agent.look("f")).waiting_for == ["resume"], "nothing continues it by itself"
        result = await agent.resume("f")
        assert result is not None
        assert result.text == "from there"
        assert "old words" in seen[0].messages[0].content, "a turn keeps its instructions"


async def test_one_caller_does_not_find_the_forks_of_another(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel(["one", "two"]))
        ann, bob = agent.acting_for(rt.acting_for("ann")), agent.acting_for(rt.acting_for("bob"))
        await ann.run("first", thread="t")
        await ann.fork("t", to="f")
        with pytest.raises(NotFound):
            await bob.fork("t", after=1)
        assert (await bob.look("f")).turns == 0
        assert await bob.forks("t") == []
        await rt.forget(caller="ann")
        assert (await ann.look("f")).turns == 0
        records = rt.host.records
        for kind in (TURN, ENTRIES, FORK):
            assert await records.documents(kind) == []


async def test_a_fork_that_was_not_completed_is_removed(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel(["one", "two"]))
        await agent.run("first", thread="t")

        async def killed(*given: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(rt.host.records, "put_documents", killed, raising=False)
            with pytest.raises(KeyboardInterrupt):
                await agent.fork("t", to="f")
        assert (await agent.look("f")).turns == 0
        assert (await agent.history("f")).turns == []
        assert await agent.recorded("f", 1) == []
        assert await agent.forks("t") == []
        records = rt.host.records
        assert [document.key for document in await records.documents(TURN) if "!" in document.key]
        soon = rt.host.clock.now() + 1
        await agent.fork("t", to="g")
        assert await ForkSweep().step(records, soon) == 1
        assert {document.key.split("!")[0] for document in await records.documents(TURN) if "!" in document.key} == {
            "/react/g"
        }
        assert await texts(agent, "g") == ["first", "one"]
        assert (await agent.fork("t", to="f")).turns == 1


async def test_a_thread_with_a_long_name_can_be_forked(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel(["one"]))
        name = "n" * 512
        await agent.run("first", thread=name)
        fork = await agent.fork(name)
        assert await texts(agent, fork.thread) == ["first", "one"]


@pytest.fixture(params=["redis", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "redis":
        with redis_server(tmp_path) as redis:
            yield redis.url
    else:
        with postgres_server() as postgres:
            yield postgres.url()


async def test_two_runtimes_over_one_store(shared: str) -> None:
    shop = Shop()
    script: list[Any] = [pays("rent"), pays("gas"), "paid", "from there", "and again"]
    async with make([shop.pay], shared) as one, make([shop.pay], shared) as two:
        here, there = ReActAgent(one, ScriptedModel(script)), ReActAgent(two, ScriptedModel(script[3:]))
        await here.run("pay", thread="t")
        made = await asyncio.gather(here.fork("t", after=0, step=1, to="f"), there.fork("t", after=0, step=1, to="f"))
        assert [view.waiting_for for view in made] == [["resume"], ["resume"]]
        result = await there.resume("f")
        assert result is not None
        assert (result.text, await texts(here, "f")) == ("from there", [message.content for message in result.messages])
        again = await there.rerun("t", turn=1, model=ScriptedModel([pays("rent", "gas"), "in one step"]))
        assert [message.content for message in again.messages if message.role == "tool"] == [
            "paid rent, number 1", "paid gas, number 2",
        ]  # fmt: skip
        assert shop.paid == ["rent", "gas"]
        assert {fork.thread for fork in await here.forks("t")} == {"f", again.thread}


async def test_an_idle_fork_is_removed_with_all_that_it_has(sqlite: str) -> None:
    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, ScriptedModel(["one", "two"]))
        await agent.run("first", thread="t")
        await agent.fork("t", to="f")
        records = rt.host.records
        later = rt.host.clock.now() + 1

        async def has_turn(caller: str, agent: str, thread: str) -> bool:
            return thread == "t"

        assert await ThreadSweep().step(rt._opened.store, later, has_turn) == 1
        for kind in (TURN, ENTRIES):
            assert [document.key for document in await records.documents(kind) if "!" in document.key] == []
        assert (await agent.look("f")).turns == 0
        assert await texts(agent, "t") == ["first", "one"]
        assert (await agent.fork("t", to="f")).turns == 1, "the name is free again"
