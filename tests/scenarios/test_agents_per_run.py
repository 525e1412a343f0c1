"""Options of one run: they take the place of the agent's for that turn, are on record, and hold wherever the turn goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says
from tests.scenarios.kit import make

from clicket.agents import AgentBusy, Limits, Middleware, ReActAgent, Turn
from clicket.errors import UsageError
from clicket.model.chat import ChatRequest
from clicket.testing import ScriptedModel


class Named(Says):
    def __init__(self, name: str, answer: Any) -> None:
        super().__init__(answer)
        self.name = name


async def test_options_hold_for_one_turn() -> None:
    seen: list[dict[str, Any]] = []

    class Notes(Middleware):
        def before_model(self, turn: Turn, request: ChatRequest) -> None:
            seen.append(dict(turn.metadata))

    async with make([echo]) as rt:
        own = Named("own", lambda r: f"{r.messages[0].content} {[o.name for o in r.tools]}")
        other = Named("other", lambda r: '{"n": 7}')
        agent = ReActAgent(rt, own, system="Be kind.", middleware=[Notes()])
        first = await agent.run("a", thread="t", system="Be brief.", tools=[], metadata={"user": 7})
        assert first.text == "Be brief. []"
        second = await agent.run("b", thread="t", model=other, output=dict[str, int])
        assert second.value == {"n": 7}
        assert (await agent.run("c", thread="t")).text == "Be kind. ['echo']"
        assert seen == [{"user": 7}, {}, {}]
        begun = [
            event.data["entry"]
            for turn in (1, 2)
            for event in (await rt.get(f"turn-{turn}", thread="agent:react/t")).events
            if event.data.get("entry", {}).get("e") == "begun"
        ]
        assert (begun[0]["system"], begun[0]["tools"], begun[0]["metadata"]) == ("Be brief.", [], {"user": 7})
        assert (begun[1]["model"], begun[1]["output"]["type"]) == ("other", "object")


async def test_limits_of_a_run() -> None:
    async with make([echo]) as rt:
        agent = ReActAgent(rt, Says(lambda _: [("echo", "{}")]))
        result = await agent.run("go", limits=Limits(max_steps=2))
        assert (result.stopped, result.steps) == ("max_steps", 2)


async def test_tools_of_a_run_only_narrow() -> None:
    async with make([echo]) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "a"})], "done"]), tools=[])
        read = (await agent.run("go", tools=["echo"])).messages[2]
        assert read.failed
        assert "this agent has no tools" in read.content


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"modle": 1}, "did you mean 'model'"),
        ({"model": "gpt"}, "not a model"),
        ({"system": 7}, "system is a text"),
        ({"limits": {"max_steps": 1}}, "Limits"),
        ({"metadata": {"a": object()}}, "JSON"),
        ({"tools": "echo"}, "list of names"),
        ({"output": 7}, "output"),
    ],
)
async def test_a_wrong_option_is_refused_before_a_turn_begins(given: dict[str, Any], says: str) -> None:
    async with make([echo]) as rt:
        agent = ReActAgent(rt, ScriptedModel([]))
        for start in (agent.run, agent.begin):
            with pytest.raises(UsageError, match=f"(?i){says}"):
                await start("go", thread="t", **given)
        assert (await agent.look("t")).turns == 0


async def interrupted(store: str, model: Any, **options: Any) -> None:
    rt = make([echo], store, close_timeout=0.0)
    async with rt:
        agent = ReActAgent(rt, ScriptedModel([]), system="Be kind.")
        await agent.begin("go", thread="t", model=model, **options)
        await model.answer.reached.wait()


async def test_a_process_without_the_model_waits_for_one_that_brings_it(sqlite: str) -> None:
    await interrupted(sqlite, Named("special", Gate()), system="Be brief.", limits=Limits(max_steps=1))
    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, Named("own", lambda _: "wrong"), system="Be kind.")
        await rt.recover()

        async def waits() -> bool:
            return (await agent.look("t")).waiting_for == ["model:special"]

        await eventually(waits)
        with pytest.raises(AgentBusy, match="the model 'special'"):
            await agent.run("another", thread="t")
        again = Named("special", lambda r: r.messages[0].content)
        result = await agent.resume("t", model=again)
        assert result is not None
        assert (result.text, result.turn) == ("Be brief.", 1)
        assert (await agent.look("t")).waiting_for == []


async def test_a_turn_that_waits_for_a_model_can_be_stopped(sqlite: str) -> None:
    await interrupted(sqlite, Named("special", Gate()))
    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, Named("own", lambda _: "next"), system="Be kind.")
        await rt.recover()

        async def waits() -> bool:
            return (await agent.look("t")).waiting_for == ["model:special"]

        await eventually(waits)
        assert await agent.stop("t")
        result = await asyncio.wait_for(agent.run("another", thread="t"), 20)
        assert (result.turn, result.text) == (2, "next")


async def test_the_same_message_with_the_model_continues_the_turn(sqlite: str) -> None:
    await interrupted(sqlite, Named("special", Gate()))
    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, Named("own", lambda _: "wrong"), system="Be kind.")
        result = await agent.run("go", thread="t", model=Named("special", lambda _: "right"))
        assert (result.text, result.turn) == ("right", 1)


async def test_a_process_without_the_model_leaves_the_turn_to_one_that_has_it(sqlite: str) -> None:
    await interrupted(sqlite, Named("special", Gate()))
    async with make([echo], sqlite) as without, make([echo], sqlite) as rt:
        other = ReActAgent(without, Named("own", lambda _: "wrong"), system="Be kind.")
        await without.recover()

        async def waits() -> bool:
            return (await other.look("t")).waiting_for == ["model:special"]

        await eventually(waits)
        agent = ReActAgent(rt, Named("special", lambda _: "right"), system="Be kind.")
        result = await asyncio.wait_for(agent.wait("t", 1), 30)
        assert result is not None
        assert result.text == "right"
