"""AG-UI: the events of a run; runs that are repeated, dropped, stopped; threads that other interfaces began."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.protocols.kit import read_run, run, served_agents, shop, user
from tests.scenarios.agent_server_kit import TURN, Gate, say, served_agent
from tests.scenarios.server_kit import TOOLS, Api

from clicket.agents import PlanExecuteAgent, ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, Delta, ToolUse, Usage
from clicket.testing import ScriptedModel


async def test_a_run_from_its_first_to_its_last_event(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it:
        made = await run(it, user("add 1 and 2"), state={"mine": 1})
        plain = [type for type in made.types if type != "TEXT_MESSAGE_CONTENT"]
        assert (
            plain
            == (
                "RUN_STARTED STATE_SNAPSHOT STATE_DELTA STEP_STARTED TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT "
                "STEP_FINISHED STEP_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_END STATE_DELTA STEP_FINISHED RUN_FINISHED"
            ).split()
        )
        assert (made[0]["threadId"], made[0]["runId"], made[0]["protocolVersion"]) == ("t", "r1", "1.0")
        assert made[1]["snapshot"]["mine"] == 1
        assert made[1]["snapshot"]["clicket"] == {"agent": "helper", "turn": 1, "state": "running"}
        [start], [args], [result] = made.of("TOOL_CALL_START"), made.of("TOOL_CALL_ARGS"), made.of("TOOL_CALL_RESULT")
        assert (start["toolCallName"], args["delta"]) == ("add", '{"a":1,"b":2}')
        assert start["toolCallId"] == args["toolCallId"] == result["toolCallId"]
        assert (result["content"], result["metadata"]["clicket"]["success"]) == ("3", True)
        assert made.text == TURN[1]
        last = made[-1]
        assert last["outcome"] == {"type": "success"}
        assert last["result"] == {
            "text": TURN[1],
            "stopped": "finished",
            "ended": "stop",
            "value": None,
            "steps": 2,
            "calls": 1,
            "turn": 1,
        }
        assert len({start["parentMessageId"], made.of("TEXT_MESSAGE_START")[0]["messageId"], result["messageId"]}) == 3


async def test_the_usage_of_the_run_is_at_its_end() -> None:
    used = Usage(input_tokens=10, output_tokens=2, cached_tokens=4, cache_write_tokens=3)
    asking = ChatReply(uses=(ToolUse(id="1", name="add", arguments='{"a": 1, "b": 1}'),), usage=used)
    model = ScriptedModel([asking, ChatReply(text="done", usage=used)])
    async with served_agents(TOOLS, lambda rt: [ReActAgent(rt, model, name="helper")]) as it:
        [usage] = (await run(it, user("x")))[-1]["usage"]
        parts = {"cachedInputTokens": 8, "cacheWriteInputTokens": 6}
        assert usage == {"inputTokens": 20, "outputTokens": 4, "totalTokens": 24, **parts}


class Typewriter:
    """A model that writes its second word only after the client has read the first."""

    name = "typewriter"

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.used: list[str] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.used.append("chat")
        return ChatReply(text="one two")

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        self.used.append("stream")
        tell(Delta("text", "one "))
        await self.read.wait()
        tell(Delta("text", "two"))
        return ChatReply(text="one two")


@pytest.mark.parametrize("store", ["memory://", "sqlite"])
async def test_the_first_answer_is_streamed_as_the_model_writes(store: str, tmp_path: Path) -> None:
    model, pieces = Typewriter(), []
    url = store if store == "memory://" else f"sqlite:///{tmp_path}/s.db"
    async with served_agents((), lambda rt: [ReActAgent(rt, model, name="helper")], store=url) as it:
        body = {"threadId": "t", "runId": "r1", "messages": [user("go")]}
        async with it.stream("POST", "/ag-ui/helper", json=body) as response:
            async for event in read_run(response):
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    pieces.append(event["delta"])
                    model.read.set()
    assert (model.used, pieces) == (["stream"], ["one ", "two"])


async def test_threads_are_the_agents_own(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it:
        assert (await say(it, "first", wait=True)).json()["turn"] == 1
        made = await run(it, user("second"), id="r2")
        [snapshot] = made.of("MESSAGES_SNAPSHOT")
        assert [message["role"] for message in snapshot["messages"]] == "user assistant tool assistant user".split()
        assert snapshot["messages"][-1] == user("second"), "the client's message keeps its id"
        assert (await it.get("/agents/t")).json()["turns"] == 2
        messages = [*snapshot["messages"], {"id": "a9", "role": "assistant", "content": "x"}, user("third", "u3")]
        third = await run(it, *messages, id="r3")
        assert not third.of("MESSAGES_SNAPSHOT"), "the client has the thread already"
        history = (await it.get("/agents/t/messages")).json()["turns"]
        assert [turn["messages"][0]["content"] for turn in history] == ["first", "second", "third"]


async def test_the_same_run_again_runs_nothing(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it:
        first, again = await run(it, user("go")), await run(it, user("go"))
        assert again[-1] == first[-1]
        assert again.text == first.text
        assert again.of("TOOL_CALL_RESULT") == first.of("TOOL_CALL_RESULT")
        assert (await it.get("/agents/t")).json()["turns"] == 1
        other = await it.post("/ag-ui/helper", json={"threadId": "t", "runId": "r1", "messages": [user("other")]})
        assert (other.status_code, other.json()["code"]) == (409, "conflict")
        same_text = await run(it, user("go", "u2"), id="r2")
        assert same_text[-1]["result"]["turn"] == 2, "another run with the same text is another turn"


async def test_many_requests_of_one_run_at_once_begin_one_turn(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it:
        runs = await asyncio.gather(*(run(it, user("go")) for _ in range(8)))
        assert {made[-1]["result"]["turn"] for made in runs} == {1}
        assert (await it.get("/agents/t")).json()["turns"] == 1


async def test_two_runs_at_once_with_the_same_text_are_two_turns_or_one_is_refused(tmp_path: Path) -> None:
    gate = Gate()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        first = asyncio.ensure_future(run(it, user("go")))
        await gate.reached.wait()
        busy = await it.post("/ag-ui/helper", json={"threadId": "t", "runId": "r2", "messages": [user("go", "u2")]})
        assert (busy.status_code, busy.json()["code"]) == (409, "agent_busy")
        gate.open.set()
        assert (await first)[-1]["outcome"] == {"type": "success"}
        assert (await run(it, user("go", "u2"), id="r2"))[-1]["result"]["turn"] == 2, "a refused run can be sent again"


async def leave_at(it: Api, type: str, **more: Any) -> None:
    body = {"threadId": "t", "runId": "r1", "messages": [user("go")], **more}
    async with it.stream("POST", "/ag-ui/helper", json=body) as response:
        async for event in read_run(response):
            if event["type"] == type:
                return


async def test_a_dropped_connection_does_not_stop_the_turn(tmp_path: Path) -> None:
    gate = Gate()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        await leave_at(it, "TOOL_CALL_START")
        await gate.reached.wait()
        again = asyncio.ensure_future(run(it, user("go")))
        gate.open.set()
        made = await again
        assert made[-1]["result"]["text"] == "done"
        assert made.types.count("TOOL_CALL_START") == 1, "a run that is read again has all its events"
        assert (await it.get("/agents/t")).json()["turns"] == 1


async def test_a_client_may_ask_that_its_turn_ends_with_it(tmp_path: Path) -> None:
    gate = Gate()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        props = {"clicket": {"stopOnDisconnect": True}}
        await leave_at(it, "TOOL_CALL_START", forwardedProps=props)

        async def stopped() -> bool:
            return bool((await it.get("/agents/t")).json()["stopped"] == "cancelled")

        await eventually(stopped)
        assert (await run(it, user("go")))[-1]["outcome"] == {"type": "cancelled"}


async def test_a_run_without_a_message_shows_the_thread_or_follows_its_turn(tmp_path: Path) -> None:
    gate = Gate()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        empty = await run(it)
        assert empty.types == ["RUN_STARTED", "STATE_SNAPSHOT", "RUN_FINISHED"]
        assert (await say(it, "go", wait=0)).status_code == 202
        following = asyncio.ensure_future(run(it, id="r2"))
        await eventually(lambda: len(it.parts.event_streams.open) == 1)
        gate.open.set()
        assert (await following).text == "done"
        shown = await run(it, id="r3")
        [snapshot] = shown.of("MESSAGES_SNAPSHOT")
        assert [message["role"] for message in snapshot["messages"]] == "user assistant tool assistant".split()


async def test_how_a_turn_can_end_otherwise() -> None:
    def agents(rt: Any) -> list[Any]:
        looping = ScriptedModel([[("add", {"a": 1, "b": n})] for n in range(9)])
        return [
            ReActAgent(rt, looping, name="limited", max_steps=2),
            ReActAgent(rt, ScriptedModel([ValueError("no luck")]), name="broken", model_retries=0),
        ]

    async with served_agents(TOOLS, agents) as it:
        limited = await run(it, user("go"), agent="limited")
        assert limited[-1]["result"]["stopped"] == "max_steps"
        assert limited.text == "Terminated: Reached max steps (2)", "a person sees why it ended"
        broken = await run(it, user("go"), agent="broken")
        assert broken.types[-1] == "RUN_ERROR"
        assert (broken[-1]["code"], "no luck" in broken[-1]["message"]) == ("agent_error", True)


async def test_context_reaches_the_model_and_not_the_transcript() -> None:
    model = ScriptedModel(["one", "two"])
    async with served_agents((), lambda rt: [ReActAgent(rt, model, name="helper")]) as it:
        context = [{"description": "the user's city", "value": "Bern"}]
        await run(it, user("weather?"), context=context)
        assert "the user's city: Bern" in model.requests[0].messages[-1].content
        [snapshot] = (await run(it, user("and now?", "u2"), id="r2")).of("MESSAGES_SNAPSHOT")
        assert snapshot["messages"][0] == user("weather?")


async def test_a_plan_is_state_of_the_run() -> None:
    planner = ScriptedModel([[("plan", {"command": "create", "title": "Sum", "steps": ["add"]})], "All done."])
    executor = ScriptedModel([[("add", {"a": 1, "b": 2})], "It is 3."])

    def agents(rt: Any) -> list[Any]:
        return [PlanExecuteAgent(rt, planner, executor=executor, name="helper")]

    async with served_agents(TOOLS, agents) as it:
        made = await run(it, user("go"))
        plans = [
            op["value"] for event in made.of("STATE_DELTA") for op in event["delta"] if op["path"] == "/clicket/plan"
        ]
        assert plans[0]["title"] == "Sum"
        assert plans[-1]["steps"][0]["status"] == "completed"
        assert made[-1]["outcome"] == {"type": "success"}
        started, finished = made.of("STEP_STARTED"), made.of("STEP_FINISHED")
        assert sorted(step["stepName"] for step in started) == sorted(step["stepName"] for step in finished)


async def test_thousands_of_events_and_a_slow_reader(tmp_path: Path) -> None:
    """A long answer comes in thousands of pieces. A reader that is slow loses none of the text."""
    answer = " ".join(f"word{n}" for n in range(3_000))
    async with shop(tmp_path, [answer], policy=None) as it:
        body = {"threadId": "t", "runId": "r1", "messages": [user("go")]}
        text, count = "", 0
        async with it.stream("POST", "/ag-ui/helper", json=body) as response:
            async for event in read_run(response):
                count += 1
                if count % 500 == 0:
                    await asyncio.sleep(0)
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    text += event["delta"]
        assert text == answer
        assert (await run(it, user("go"))).text == answer
