"""The agent machine, end to end: how turns start and end, and that an agent can always run again."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.kit.examples import in_long_runs
from tests.kit.tools import add, echo
from tests.scenarios.agent_kit import Gate, Says, asks, check_legal, check_pairs, one
from tests.scenarios.kit import make

from clicket import RetryableError
from clicket.agents import AgentBusy, AgentState, ReActAgent
from clicket.errors import UsageError
from clicket.model.chat import ChatReply, ChatRequest, ToolUse
from clicket.testing import ScriptedModel

IDLE, RUNNING, FINISHED, ERROR = AgentState.IDLE, AgentState.RUNNING, AgentState.FINISHED, AgentState.ERROR


def endless(name: str = "echo") -> Says:
    """Never gives a final answer; each call has new arguments."""
    counted = iter(range(10_000))
    return Says(lambda _: asks((name, f'{{"text": "{next(counted)}"}}')))


class Changes:
    """A hook that records."""

    def __init__(self) -> None:
        self.seen: list[tuple[AgentState, AgentState]] = []

    def __call__(self, before: AgentState, after: AgentState, thread: str) -> None:
        self.seen.append((before, after))


# Ends.


async def test_a_run_ends_when_the_model_asks_for_no_tool(store: str) -> None:
    changes = Changes()
    async with make([add], store) as rt:
        model = ScriptedModel([[("add", {"a": 1, "b": 2})], "three"])
        agent = ReActAgent(rt, model, system="Be brief.", on_state_changed=changes)
        assert agent.state("t") is IDLE
        result = await agent.run("1 + 2?", thread="t")
        assert (result.text, result.state, result.stopped, result.steps, result.calls) == (
            "three", FINISHED, "finished", 2, 1,
        )  # fmt: skip
        assert agent.state("t") is FINISHED
        assert await agent.state("t") is FINISHED  # an awaited hook gets the same
        assert (await agent.look("t")).state is FINISHED
        assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
        assert result.messages[2].content == "3"
        assert result.usage.total > 0
        assert model.requests[0].messages[0].content == "Be brief."
        assert [offer.name for offer in model.requests[0].tools] == ["add"]
        record = await rt.get("react.1.1.1", thread="t")
        assert (record.tool, record.state.value) == ("add", "completed")
    assert changes.seen == [(IDLE, RUNNING), (RUNNING, FINISHED)]


async def test_max_steps_ends_a_run_as_idle_and_says_so(store: str) -> None:
    changes = Changes()
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, endless(), max_steps=3, on_state_changed=changes)
        result = await agent.run("go", thread="t")
        assert result.text == "Terminated: Reached max steps (3)"
        assert (result.stopped, result.state, result.steps, result.calls) == ("max_steps", IDLE, 3, 3)
        check_pairs(result.messages)
        assert agent.state("t") is IDLE
    assert changes.seen == [(IDLE, RUNNING), (RUNNING, IDLE)]


async def test_finishing_on_the_last_allowed_step_is_finished(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {})], [("echo", {"text": "x"})], "done"]), max_steps=3)
        result = await agent.run("go")
        assert (result.stopped, result.steps, result.text) == ("finished", 3, "done")


async def test_the_last_allowed_call_may_be_answered_and_one_more_ends_the_run(store: str) -> None:
    async with make([echo], store) as rt:
        answers = [[("echo", {"text": "1"}), ("echo", {"text": "2"})], "done"]
        agent = ReActAgent(rt, ScriptedModel(answers), max_calls=2)
        assert (await agent.run("go", thread="a")).stopped == "finished"
        answers = [[("echo", {"text": "1"}), ("echo", {"text": "2"}), ("echo", {"text": "3"})], "never said"]
        result = await ReActAgent(rt, ScriptedModel(answers), max_calls=2).run("go", thread="b")
        assert (result.stopped, result.calls, result.steps, result.state) == ("budget", 2, 1, IDLE)
        assert result.text == "Terminated: Reached the budget of tool calls (2)"
        assert [message.failed for message in result.messages[2:]] == [False, False, True]
        calls = (await rt.history(thread="b")).items
        assert [(str(call.state), len(call.attempts)) for call in calls] == [
            ("failed", 0),
            ("completed", 1),
            ("completed", 1),
        ]


async def test_step_counts_do_not_leak_into_the_next_run(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, endless(), max_steps=2)
        for turn in range(1, 4):
            result = await agent.run("go", thread="t")
            assert (result.steps, result.stopped, result.turn) == (2, "max_steps", turn)
            assert len(result.new_messages) == 5
            assert len(result.messages) == 5 * turn
        finished = await ReActAgent(rt, ScriptedModel([[("echo", {})], "ok"]), max_steps=2).run("now?", thread="t")
        assert (finished.steps, finished.stopped) == (2, "finished")


async def test_no_step_at_all_says_so(store: str) -> None:
    async with make([echo], store) as rt:
        model = ScriptedModel(["x"])
        for options in ({"max_steps": 0}, {"max_tokens": 0}, {"max_cost": 0}, {"max_seconds": 0}):
            result = await ReActAgent(rt, model, **options).run("go")  # type: ignore[arg-type]
            assert (result.text, result.steps, result.state) == ("No steps executed", 0, IDLE)
        assert model.requests == []
        # Without tool calls there is still an answer.
        assert (await ReActAgent(rt, model, max_calls=0).run("go")).text == "x"


async def test_an_error_is_kept_raised_and_left_behind(store: str) -> None:
    changes = Changes()
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {})], ValueError("broken"), "fine"]), on_state_changed=changes)
        with pytest.raises(ValueError, match="broken"):
            await agent.run("go", thread="t")
        assert agent.state("t") is ERROR
        view = await agent.look("t")
        assert (view.state, view.error, view.turns) == (ERROR, "ValueError: broken", 1)
        check_pairs(await agent.messages("t"))
        result = await agent.run("again", thread="t")
        assert (result.text, result.state) == ("fine", FINISHED)
        assert (await agent.look("t")).error == ""
    assert changes.seen == [(IDLE, RUNNING), (RUNNING, ERROR), (ERROR, IDLE), (IDLE, RUNNING), (RUNNING, FINISHED)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(asyncio.CancelledError(), "CancelledError"), (KeyError("x"), "'x'"), (None, "NoneType"), (7, "int")],
    ids=["cancelled", "key_error", "none", "number"],
)
async def test_a_model_that_misbehaves_is_an_error_and_the_thread_continues(
    store: str, answer: Any, reason: str
) -> None:
    class Odd:
        name = "odd"

        async def chat(self, request: ChatRequest) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer

    async with make([echo], store) as rt:
        with pytest.raises((RuntimeError, KeyError, UsageError), match=reason):
            await ReActAgent(rt, Odd()).run("go", thread="t")
        agent = ReActAgent(rt, ScriptedModel(["fine"]))
        assert agent.state("t") is ERROR
        assert (await agent.run("again", thread="t")).text == "fine"


# One at a time.


async def test_a_thread_has_one_turn_at_a_time_and_threads_run_side_by_side(store: str) -> None:
    gate = Gate()

    async def wait(_: ChatRequest) -> str:
        await gate()
        return "done"

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(wait))
        first = asyncio.create_task(agent.run("one", thread="t"))
        await gate.reached.wait()
        assert agent.state("t") is RUNNING
        with pytest.raises(AgentBusy, match="one turn at a time"):
            await agent.run("two", thread="t")
        with pytest.raises(AgentBusy):
            await agent.begin("one", thread="t")
        with pytest.raises(AgentBusy):
            [event async for event in agent.stream("two", thread="t")]
        with pytest.raises(AgentBusy):
            await agent.forget("t")
        other = asyncio.create_task(agent.run("three", thread="u"))
        gate.open()
        assert {(await first).thread, (await other).thread} == {"t", "u"}
        assert [message.content for message in await agent.messages("t")] == ["one", "done"]


async def test_of_runs_begun_at_once_one_wins_and_the_rest_are_refused(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(lambda _: "done"))
        came = await asyncio.gather(*(agent.run(f"{n}", thread="t") for n in range(10)), return_exceptions=True)
        won = [each for each in came if not isinstance(each, BaseException)]
        assert won
        assert all(isinstance(each, AgentBusy) for each in came if isinstance(each, BaseException))
        assert (await agent.look("t")).turns == len(won)
        messages = await agent.messages("t")
        assert len(messages) == 2 * len(won)


async def test_another_process_is_refused_too(sqlite: str) -> None:
    gate = Gate()

    async def wait(_: ChatRequest) -> str:
        await gate()
        return "done"

    async with make([echo], sqlite) as here, make([echo], sqlite) as there:
        mine, theirs = ReActAgent(here, Says(wait)), ReActAgent(there, ScriptedModel(["other", "next"]))
        run = asyncio.create_task(mine.run("one", thread="t"))
        await gate.reached.wait()
        with pytest.raises(AgentBusy):
            await theirs.run("two", thread="t")
        assert (await theirs.look("t")).state is RUNNING
        assert (await theirs.run("two", thread="u")).text == "other"
        gate.open()
        await run
        assert (await theirs.run("two", thread="t")).turn == 2
        assert [message.content for message in await mine.messages("t")] == ["one", "done", "two", "next"]


# Hooks.


@pytest.mark.parametrize("kind", ["async", "raising", "method"])
async def test_hooks_may_be_async_or_raise_and_change_nothing(
    store: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[AgentState, AgentState]] = []

    async def later(before: AgentState, after: AgentState, thread: str) -> None:
        await asyncio.sleep(0)
        seen.append((before, after))

    def raising(before: AgentState, after: AgentState, thread: str) -> None:
        seen.append((before, after))
        raise ValueError("a hook's own trouble")

    class Mine(ReActAgent):
        def on_state_changed(self, before: AgentState, after: AgentState, thread: str) -> None:
            seen.append((before, after))

    async with make([echo], store) as rt:
        hook = {"async": later, "raising": raising, "method": None}[kind]
        agent = Mine(rt, ScriptedModel(["a", "b"])) if hook is None else ReActAgent(
            rt, ScriptedModel(["a", "b"]), on_state_changed=hook
        )  # fmt: skip
        with caplog.at_level(logging.CRITICAL if kind != "raising" else logging.ERROR):
            assert (await agent.run("x")).text == "a"
            assert (await agent.run("y")).text == "b"
    check_legal(seen, first=IDLE)
    assert seen == [(IDLE, RUNNING), (RUNNING, FINISHED), (FINISHED, IDLE), (IDLE, RUNNING), (RUNNING, FINISHED)]
    assert ("a hook's own trouble" in caplog.text) == (kind == "raising")


# Wrong use, and correct use that looks wrong.


async def test_what_cannot_be_a_message_or_a_thread_is_refused_before_anything_happens(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([]))
        for wrong in ("", "  \n", None, 7, b"x", "x" * 600_000, "\x01" * 300_000):
            with pytest.raises(UsageError):
                await agent.run(wrong)  # type: ignore[arg-type]
        for wrong in ("", "a\x00b", "\ud800", "x" * 600, None):
            for method in (agent.stop, agent.look, agent.resume, agent.wait, agent.forget, agent.messages):
                with pytest.raises(UsageError):
                    await method(wrong)  # type: ignore[arg-type]
            with pytest.raises(UsageError):
                agent.state(wrong)  # type: ignore[arg-type]
        assert (await rt.history()).items == []
    with pytest.raises(UsageError, match="no method chat"):
        ReActAgent(rt, object())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="name"):
        ReActAgent(rt, ScriptedModel([]), name="a b")
    for wrong in ({"tools": "echo"}, {"model_retries": -1}, {"retry_delay": float("nan")}, {"max_answer_tokens": 0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            ReActAgent(rt, ScriptedModel([]), **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Runtime"):
        ReActAgent(object(), ScriptedModel([]))  # type: ignore[arg-type]


async def test_messages_and_threads_of_odd_letters_work(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(lambda _: "ok"))
        for thread in ("a/b", "a%2Fb", "日本語", "x" * 512, "~", "a b\n", "../..", "."):
            for turn in (1, 2):
                assert (await agent.run("lone \ud800 and \x00", thread=thread)).turn == turn
            assert len(await agent.messages(thread)) == 4
            assert (await agent.look(thread)).turns == 2


async def test_an_agent_may_be_made_before_its_runtime_is_open(store: str) -> None:
    rt = make([echo], store)
    agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})], "ok"]))
    with pytest.raises(UsageError, match="not open"):
        await agent.run("go")
    async with rt:
        assert (await agent.run("go")).text == "ok"


async def test_two_agents_of_one_name_share_their_threads(store: str) -> None:
    gate = Gate()

    async def wait(_: ChatRequest) -> str:
        await gate()
        return "first"

    async with make([echo], store) as rt:
        one_, two = ReActAgent(rt, Says(wait)), ReActAgent(rt, ScriptedModel(["second"]))
        run = asyncio.create_task(one_.run("a", thread="t"))
        await gate.reached.wait()
        assert two.state("t") is RUNNING
        with pytest.raises(AgentBusy):
            await two.run("b", thread="t")
        reading = asyncio.create_task(_types(two, "t"))
        gate.open()
        assert (await run).text == "first"
        assert (await reading)[-1] == "final"
        assert (await two.run("b", thread="t")).text == "second"
        assert [message.content for message in await one_.messages("t")] == ["a", "first", "b", "second"]
        apart = ReActAgent(rt, ScriptedModel(["mine"]), name="apart")
        assert (await apart.run("c", thread="t")).turn == 1


async def _types(agent: ReActAgent, thread: str) -> list[str]:
    return [event.type async for event in agent.events(thread)]


async def test_models_are_retried_after_transient_failures(store: str) -> None:
    async with make([echo], store) as rt:
        answers = [RetryableError("busy", retry_after=0), ConnectionError("gone"), "fine"]
        agent = ReActAgent(rt, ScriptedModel(answers), retry_delay=0)
        result = await agent.run("go")
        assert (result.text, result.steps) == ("fine", 1)


MANY = in_long_runs(1_000, else_=200)


async def test_many_threads_side_by_side(store: str) -> None:
    started = 0
    all_started = asyncio.Event()

    async def meet(request: ChatRequest) -> ChatReply:
        nonlocal started
        if len(request.messages) > 1:
            return ChatReply(text="done")
        started += 1
        if started == MANY:
            all_started.set()
        await all_started.wait()
        return asks(ToolUse(id="x", name="echo", arguments='{"text": "hi"}'))

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(meet))
        results = await asyncio.gather(*(agent.run("go", thread=f"t{n}") for n in range(MANY)))
        assert {(result.text, result.steps, result.calls) for result in results} == {("done", 2, 1)}
        assert len({result.thread for result in results}) == MANY


async def test_forgetting_a_thread_leaves_no_message_and_no_second_turn_of_one_name(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(lambda _: "ok"))
        for _ in range(3):
            await agent.run("go", thread="t")
        assert await agent.forget("t") == 3
        assert await agent.messages("t") == []
        assert (await agent.history("t")).turns == []
        assert agent.state("t") is IDLE
        result = await agent.run("again", thread="t")
        assert (result.turn, len(result.messages)) == (4, 2)
        assert await agent.forget("nobody") == 0


def test_the_kit_can_fail() -> None:
    from clicket.model.chat import ChatMessage

    call = ChatMessage(role="assistant", uses=tuple(one("echo")))
    answer = ChatMessage(role="tool", use_id="u")
    for wrong in ([call], [answer], [call, answer, answer], [call, ChatMessage(role="user", content="x"), answer]):
        with pytest.raises(AssertionError):
            check_pairs(wrong)
    with pytest.raises(AssertionError):
        check_legal([(FINISHED, RUNNING)])
    with pytest.raises(AssertionError):
        check_legal([(IDLE, RUNNING), (IDLE, RUNNING)])


# How an answer ended.


@pytest.mark.parametrize(
    ("reply", "ended"),
    [
        (ChatReply(text="whole"), "stop"),
        (ChatReply(text="cut", ended="length"), "length"),
        (ChatReply(text="", ended="length"), "length"),
        (ChatReply(text="I cannot.", ended="refusal"), "refusal"),
        (ChatReply(text=" \n"), "empty"),
        (ChatReply(text="odd", ended="tool_calls"), "stop"),  # type: ignore[arg-type]  # of a model of one's own
    ],
)
async def test_a_result_says_how_its_answer_ended(store: str, reply: ChatReply, ended: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([reply]))
        events = [event async for event in agent.stream("go", thread="t")]
        assert (events[-1].data["stopped"], events[-1].data["ended"]) == ("finished", ended)
        (turn,) = (await agent.history("t")).turns
        assert turn.ended == ended
        again = await agent.run("go", thread="t", turn=1)
        assert again.ended == ended


async def test_a_turn_that_did_not_finish_has_no_end_of_an_answer() -> None:
    async with make([echo]) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})]]), max_steps=1)
        assert (await agent.run("go")).ended is None
