"""Published bugs of agent frameworks and of replayed workflows, as scenarios of agents. The table in `peers_bugs.py` says what each was."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.crash.nest import Nest
from tests.kit.mortal_store import MortalStore
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.agent_kit import Gate, Says, asks, check_pairs
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.peers_bugs_child import Effects, dies_in_a_step, parallel_answers, tools_at

from clicket import Policy, Record, Runtime, State, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.engine.executors.sink import questions
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest
from clicket.stores.sqlite import SqliteStore
from clicket.tools.question import InputQuestion

LONG_AGO = -1e9


async def transcript(agent: ReActAgent, thread: str = "t") -> list[ChatMessage]:
    return [message for turn in (await agent.history(thread)).turns for message in turn.messages]


def results_in(request: ChatRequest) -> list[str]:
    return [message.content for message in request.messages if message.role == "tool"]


# Replays that must agree with the record -----------------------------------------------------------------------------


@pytest.mark.parametrize("order", [["pay", "put", "hold"], ["put", "pay", "hold"]], ids=["as asked", "reversed"])
async def test_vercel_2737_parallel_calls_that_ended_in_another_order(
    tmp_path: Path, nest: Nest, order: list[str]
) -> None:
    """Killed in a step of three calls. The resumed turn keeps the results of two, repeats the third, and asks for no step twice."""
    ending = await nest.raise_child(dies_in_a_step, {"folder": str(tmp_path), "order": order})
    assert ending.signal == signal.SIGKILL
    effects = Effects(tmp_path)
    assert effects.lines == order

    @tool(timeout=None)
    async def pay(n: int) -> str:
        effects.add("pay again")
        return "paid twice"

    @tool(timeout=None)
    async def put(n: int) -> str:
        effects.add("put again")
        return "put twice"

    @tool(idempotent=True, timeout=None)
    async def hold(n: int) -> str:
        effects.add("hold again")
        return f"held {n}"

    async with make([pay, put, hold], sqlite_url(tmp_path)) as rt:
        model = Says(parallel_answers)
        agent = ReActAgent(rt, model)
        result = await asyncio.wait_for(agent.run("Go.", thread="t", id="m"), PATIENCE)
        assert (
            result.text == "paid 1 | put 2 | held 3"
        )  # each result is that of its own call, in the order of the request
        assert model.asked == 1  # the step that was recorded is not asked for again
        check_pairs(await transcript(agent))
    assert effects.lines == [*order, "hold again"]


async def test_vercel_3147_two_processes_replay_one_run(tmp_path: Path) -> None:
    """Both continue an interrupted turn whose number of calls depends on the model's next answer. One does; its history is the only one."""
    gate = Gate()

    async def interrupted(request: ChatRequest) -> str:
        await gate()
        return "never"

    url = sqlite_url(tmp_path)
    async with make(tools_at(tmp_path), url, close_timeout=0.0) as rt:
        await ReActAgent(rt, Says(interrupted)).begin("Go.", thread="t")
        await gate.reached.wait()

    def answers(calls: int) -> Any:
        def answer(request: ChatRequest) -> ChatReply | str:
            done = results_in(request)
            return " | ".join(done) if done else asks(*(("pay", f'{{"n": {n}}}') for n in range(calls)))

        return answer

    async with make(tools_at(tmp_path), url) as one, make(tools_at(tmp_path), url) as two:
        models = [Says(answers(2)), Says(answers(5))]
        agents = [ReActAgent(rt, model) for rt, model in zip((one, two), models, strict=True)]
        ended = await asyncio.wait_for(asyncio.gather(*(agent.resume("t") for agent in agents)), PATIENCE)
        texts = {result.text for result in ended if result is not None}
        assert len(texts) == 1
        assert sorted(model.asked for model in models) == [0, 2]  # one process asked the model, the other one waited
        calls = 2 if models[0].asked else 5
        assert texts == {" | ".join(f"paid {n}" for n in range(calls))}
        assert [len(check_pairs(await transcript(agent))) for agent in agents] == [calls, calls]
    assert sorted(Effects(tmp_path).lines) == [f"pay {n}" for n in range(calls)]


async def test_dbos_818_an_execution_that_was_taken_over_stops(tmp_path: Path) -> None:
    """A process that was taken for dead wakes up inside a step: it makes no further step of the turn."""
    gate = Gate()
    asked: list[str] = []

    def tools(name: str) -> list[Any]:
        @tool(idempotent=True, timeout=None)
        async def hold() -> str:
            if name == "slow":
                await gate()
            return f"held by {name}"

        return [hold, *tools_at(tmp_path)]

    def answers(name: str) -> Any:
        def answer(request: ChatRequest) -> ChatReply | str:
            asked.append(name)
            done = results_in(request)
            return [asks(("hold", "{}")), asks(("pay", '{"n": 1}')), " | ".join(done)][len(done)]

        return answer

    stores = [MortalStore(tmp_path / "calls.db") for _ in range(2)]
    async with Runtime(tools("slow"), store=stores[0]) as slow, Runtime(tools("heir"), store=stores[1]) as heir:
        turn = asyncio.create_task(ReActAgent(slow, Says(answers("slow"))).run("Go.", thread="t"))
        await gate.reached.wait()
        agent = ReActAgent(heir, Says(answers("heir")))
        await stores[0].expire(stores[1], LONG_AGO)
        result = await asyncio.wait_for(agent.resume("t"), PATIENCE)
        assert result is not None
        assert result.text == "held by heir | paid 1"
        gate.open()
        (ended,) = await asyncio.wait_for(asyncio.gather(turn, return_exceptions=True), PATIENCE)
        assert ended.text == result.text  # its caller gets the result on record
        assert asked[:3] == [
            "slow",
            "heir",
            "heir",
        ]  # after that it may still ask its model, and nothing of that is recorded
        check_pairs(await transcript(agent))
    assert Effects(tmp_path).lines == ["pay 1"]


async def test_vercel_2780_an_answer_arrives_while_another_call_runs(tmp_path: Path) -> None:
    """Of two parallel calls one runs and one waits for an approval. The approval does not start the first one again."""
    gate = Gate()
    effects = Effects(tmp_path)

    @tool(timeout=None)
    async def render() -> str:
        effects.add("render")
        await gate()
        return "rendered"

    def answer(request: ChatRequest) -> ChatReply | str:
        return " | ".join(results_in(request)) or asks(("render", "{}"), ("pay", '{"n": 1}'))

    async with make([render, *tools_at(tmp_path)], sqlite_url(tmp_path), policy=Policy(ask=["pay"])) as rt:
        agent = ReActAgent(rt, Says(answer))
        turn = asyncio.create_task(agent.run("Go.", thread="t"))
        await gate.reached.wait()
        (id,) = await eventually(lambda: _waiting(agent))
        await rt.approve(id, thread="t", by="ann")
        await eventually(lambda: "pay 1" in effects.lines)
        gate.open()
        assert (await asyncio.wait_for(turn, PATIENCE)).text == "rendered | paid 1"
    assert effects.lines == ["render", "pay 1"]


async def _waiting(agent: ReActAgent) -> tuple[str, ...]:
    return tuple((await agent.look("t")).waiting_for)


# Approvals in a step -------------------------------------------------------------------------------------------------

SHAPES = [("pay", '{"n": 1}'), ("pay", '{"n": 2}'), ("pay", '{"n": 3}')]


def pays_three(request: ChatRequest) -> ChatReply | str:
    return " | ".join(results_in(request)) or asks(*SHAPES)


async def test_langgraph_6626_parallel_questions_have_their_own_ids(tmp_path: Path) -> None:
    """Three calls wait at once, under three ids; answers in another order reach the calls that they name."""
    async with make(tools_at(tmp_path), sqlite_url(tmp_path), policy=Policy(ask=["pay"])) as rt:
        agent = ReActAgent(rt, Says(pays_three))
        turn = asyncio.create_task(agent.run("Pay.", thread="t"))
        ids = await eventually(lambda: _all_waiting(agent, 3))
        assert len(set(ids)) == 3
        wanted = {(await rt.get(id, thread="t")).arguments["n"]: id for id in ids}
        await rt.approve(wanted[3], thread="t", by="ann", arguments={"n": 30})
        await rt.deny(wanted[1], thread="t", by="ann", reason="not this one")
        await rt.approve(wanted[2], thread="t", by="ann")
        first, second, third = (await asyncio.wait_for(turn, PATIENCE)).text.split(" | ")
        assert "not this one" in first
        assert (second, third) == ("paid 2", "paid 30")
    assert sorted(Effects(tmp_path).lines) == ["pay 2", "pay 30"]


async def _all_waiting(agent: ReActAgent, count: int) -> tuple[str, ...]:
    ids = await _waiting(agent)
    return ids if len(ids) == count else ()


async def test_langgraph_5952_answered_questions_are_not_asked_again(tmp_path: Path) -> None:
    """One of three is answered, then the runtime is closed. After the restart the other two wait, and the first does not run again."""
    url, policy = sqlite_url(tmp_path), Policy(ask=["pay"])
    effects = Effects(tmp_path)
    async with make(tools_at(tmp_path), url, policy=policy, close_timeout=0.0) as rt:
        agent = ReActAgent(rt, Says(pays_three))
        await agent.begin("Pay.", thread="t")
        ids = sorted(await eventually(lambda: _all_waiting(agent, 3)))  # in the order of the request
        await rt.approve(ids[0], thread="t", by="ann")
        await eventually(lambda: effects.lines == ["pay 1"])
        await eventually(lambda: _all_waiting(agent, 2))
    async with make(tools_at(tmp_path), url, policy=policy) as rt:
        model = Says(pays_three)
        agent = ReActAgent(rt, model)
        turn = asyncio.create_task(agent.resume("t"))
        assert set(await eventually(lambda: _all_waiting(agent, 2))) == set(ids[1:])
        for id in ids[1:]:
            await rt.approve(id, thread="t", by="ann")
        result = await asyncio.wait_for(turn, PATIENCE)
        assert result is not None
        assert result.text == "paid 1 | paid 2 | paid 3"
        assert model.asked == 1
    assert sorted(effects.lines) == ["pay 1", "pay 2", "pay 3"]


async def test_langgraph_6208_a_body_that_asks_two_questions(sqlite: str) -> None:
    """The same limit: the body runs from its beginning with each answer. Answers on record are not asked for again, and work that is
    kept as a checkpoint is not done again."""
    work: list[str] = []
    form = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}

    @tool
    async def order(ctx: ToolContext) -> list[Any]:
        if "work" not in await ctx.checkpoints():
            work.append("done")
            await ctx.checkpoint("work", b"done")
        asked = [InputQuestion(key=key, source="the shop", message=key, schema=form) for key in ("hat", "shoe")]
        return [questions(ctx).ask(question, None).content for question in asked]

    async with make([order], sqlite) as rt:
        handle = await rt.submit("order")
        for size in (1, 2):
            await eventually(lambda size=size: _asks(rt, handle.id, ("hat", "shoe")[size - 1]))
            await rt.respond(handle.id, {"size": size})
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        assert (result.output, result.attempts) == ([{"size": 1}, {"size": 2}], 3)
        assert work == ["done"]


async def _asks(rt: Runtime, id: str, message: str) -> bool:
    record = await rt.get(id)
    return record.waiting_for == "approval" and (record.approval or {})["question"]["message"] == message


async def test_agent_framework_7458_the_model_fails_after_an_approved_call(tmp_path: Path) -> None:
    """The approved call is on record: the model reads its result when the message is sent again, and no second approval is needed."""
    down = True

    def answer(request: ChatRequest) -> ChatReply | str:
        done = results_in(request)
        if done and down:
            raise ClicketError("HTTP 500 from the model")
        return done[0] if done else asks(("pay", '{"n": 1}'))

    async with make(tools_at(tmp_path), sqlite_url(tmp_path), policy=Policy(ask=["pay"])) as rt:
        agent = ReActAgent(rt, Says(answer), model_retries=0)
        turn = asyncio.create_task(agent.run("Deploy.", thread="t"))
        (id,) = await eventually(lambda: _waiting(agent))
        await rt.approve(id, thread="t", by="ann")
        with pytest.raises(ClicketError, match="HTTP 500"):
            await asyncio.wait_for(turn, PATIENCE)
        down = False
        assert (await asyncio.wait_for(agent.run("Deploy.", thread="t"), PATIENCE)).text == "paid 1"
        check_pairs(await transcript(agent))
        approvals = [record for record in (await rt.history(thread="t")).items if record.approval]
        assert [(record.id, record.state) for record in approvals] == [(id, State.COMPLETED)]
    assert Effects(tmp_path).lines == ["pay 1"]


# Effects and transcripts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 2], ids=["sent again", "retried"])
async def test_crewai_5802_a_retry_after_a_call_that_succeeded(tmp_path: Path, retries: int) -> None:
    """The model fails once, after the payment. Neither a retry of the request nor the message sent again repeats the payment."""
    failures = 1

    def answer(request: ChatRequest) -> ChatReply | str:
        nonlocal failures
        done = results_in(request)
        if done and failures:
            failures -= 1
            raise ConnectionError("HTTP 500 from the model")
        return done[0] if done else asks(("pay", '{"n": 1}'))

    async with make(tools_at(tmp_path), sqlite_url(tmp_path)) as rt:
        agent = ReActAgent(rt, Says(answer), model_retries=retries, retry_delay=0.0)
        if not retries:
            with pytest.raises(ConnectionError):
                await agent.run("Pay.", thread="t")
        assert (await asyncio.wait_for(agent.run("Pay.", thread="t"), PATIENCE)).text == "paid 1"
        check_pairs(await transcript(agent))
    assert Effects(tmp_path).lines == ["pay 1"]


async def test_openai_agents_4615_the_output_of_a_call_cannot_be_stored_at_first(tmp_path: Path) -> None:
    """The store refuses writes after the tool has run. The turn waits for it, and the transcript has the call and its result."""
    refused = 0

    def answer(request: ChatRequest) -> ChatReply | str:
        return " | ".join(results_in(request)) or asks(("pay", '{"n": 1}'))

    store: Any = SqliteStore(tmp_path / "calls.db")
    append = store.append

    def refusing(change: Any, done: Any) -> None:
        nonlocal refused
        if Effects(tmp_path).lines and refused < 3:
            refused += 1
            asyncio.get_running_loop().call_soon(done, change, StoreUnavailable("store: no answer within 2 s."))
        else:
            append(change, done)

    store.append = refusing
    async with Runtime(tools_at(tmp_path), store=store) as rt:
        agent = ReActAgent(rt, Says(answer))
        assert (await asyncio.wait_for(agent.run("Pay.", thread="t"), PATIENCE)).text == "paid 1"
        assert refused == 3
    async with make(tools_at(tmp_path), sqlite_url(tmp_path)) as rt:
        (call,) = check_pairs(await transcript(ReActAgent(rt, Says(answer))))
        assert call.name == "pay"
    assert Effects(tmp_path).lines == ["pay 1"]


async def test_openai_agents_4254_the_model_asks_for_the_same_effect_again(tmp_path: Path) -> None:
    """The same limit: a call that the model asks for twice, in two steps, is two calls, and both run. What is limited is how often."""

    def insists(request: ChatRequest) -> ChatReply:
        return asks(("pay", '{"n": 1}'))

    async with make(tools_at(tmp_path), sqlite_url(tmp_path)) as rt:
        result = await ReActAgent(rt, Says(insists), max_repeats=2).run("Pay.", thread="t")
        assert result.stopped == "repeated"
        calls = (await rt.history(thread="t", tool="pay")).items
        keys = {record.idempotency_key for record in calls if record.state is State.COMPLETED}
    assert Effects(tmp_path).lines == ["pay 1", "pay 1"]
    assert len(keys) == 2  # a service behind the tool cannot tell them from two payments, either


async def test_adk_7102_what_a_step_adds_to_the_store(tmp_path: Path) -> None:
    """Each result is stored once: twice the steps take about twice the bytes."""
    size = 4_000

    @tool(name="look")
    async def look(n: int) -> str:
        return f"{n}" * size

    def answer(steps: int) -> Any:
        def reply(request: ChatRequest) -> ChatReply | str:
            done = len(results_in(request))
            return asks(("look", f'{{"n": {done % 10}}}')) if done < steps else "done"

        return reply

    async def stored(steps: int) -> int:
        folder = tmp_path / f"{steps}"
        folder.mkdir()
        async with make([look], sqlite_url(folder)) as rt:
            agent = ReActAgent(rt, Says(answer(steps)), max_steps=steps + 1, max_repeats=None)
            assert (await agent.run("Look.", thread="t")).text == "done"
        connection = apsw.Connection(str(folder / "calls.db"))
        ((pages, free, page),) = connection.execute(
            "SELECT page_count, freelist_count, page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        connection.close()
        return int((pages - free) * page)

    few, more, most = [await stored(steps) for steps in (5, 15, 25)]
    assert most - more < 1.5 * (more - few)  # a sum of squares would be 2


# Effects that are taken back -----------------------------------------------------------------------------------------


def bank_tools(undone: list[str]) -> list[Any]:
    """A withdrawal fails as often as its amount says."""
    tries = {"left": 0}

    async def take_back(call: Record, ctx: ToolContext) -> None:
        undone.append(f"{call.tool} {call.arguments}")

    @tool(undo=take_back)
    async def credit(n: int) -> str:
        return "credited"

    @tool(undo=take_back, max_retries=0)
    async def withdraw(failures: int) -> str:
        tries["left"] += 1
        if tries["left"] <= failures:
            raise ValueError("no money")
        return "withdrawn"

    return [credit, withdraw]


async def test_langchain4j_5171_several_failures_in_one_turn() -> None:
    undone: list[str] = []
    replies: list[Any] = [asks(("credit", '{"n": 1}')), *[asks(("withdraw", '{"failures": 9}'))] * 2]

    def answer(request: ChatRequest) -> ChatReply:
        done = len(results_in(request))
        if done == len(replies):
            raise ValueError("the model gives up")
        reply: ChatReply = replies[done]
        return reply

    async with make(bank_tools(undone)) as rt:
        agent = ReActAgent(rt, Says(answer), undo_on="failed")
        with pytest.raises(ValueError, match="gives up"):
            await agent.run("Move it.", thread="t")
        assert undone == ["credit {'n': 1}"]
        report = await rt.undo(thread="t", turn=1, retry=True)
        assert [each.tool for each in report.undone] == ["credit"]
    assert undone == ["credit {'n': 1}"]


async def test_langchain4j_5823_an_error_that_the_agent_recovers_from() -> None:
    undone: list[str] = []

    def credits(request: ChatRequest) -> ChatReply | str:
        return "credited" if results_in(request) else asks(("credit", '{"n": 1}'))

    def works(request: ChatRequest) -> ChatReply | str:
        steps: list[ChatReply | str] = [
            asks(("bank", '{"task": "credit"}')),
            *[asks(("withdraw", '{"failures": 1}'))] * 2,
            "done",
        ]
        return steps[len(results_in(request))]

    async with make(bank_tools(undone)) as rt:
        rt.add(ReActAgent(rt, Says(credits), name="bank", undo_on="failed").as_tool("bank"))
        result = await ReActAgent(rt, Says(works), name="boss", undo_on="failed").run("Move it.", thread="t")
        assert (result.text, result.stopped) == ("done", "finished")
        states = [each.state for each in (await rt.history(tool="withdraw", order="asc")).items]
    assert states == [State.FAILED, State.COMPLETED]
    assert undone == []
