"""Chunks of the AI SDK's UI message stream: tools, approvals, errors, limits, files, plans and called agents."""

from __future__ import annotations

import json
from typing import Any

from tests.protocols.kit import ASK, pay, served_agents
from tests.scenarios.server_kit import Api, count, fail

from clicket import Runtime
from clicket.agents import Agent, PlanExecuteAgent, ReActAgent
from clicket.testing import ScriptedModel

Chunks = list[dict[str, Any]]
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def said(text: str, id: str = "m1") -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}


def answered(turn: int, call: str, approval: dict[str, Any]) -> dict[str, Any]:
    part = {"type": "tool-pay", "toolCallId": call, "state": "approval-responded", "input": {}, "approval": approval}
    return {"id": f"turn-{turn}", "role": "assistant", "parts": [{"type": "step-start"}, part]}


async def chat(it: Api, message: dict[str, Any], agent: str = "helper", thread: str = "t") -> Chunks:
    response = await it.post(f"/ai-sdk/{agent}", json={"id": thread, "messages": [message]})
    assert response.status_code == 200, response.text
    frames = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    assert frames.pop() == "[DONE]"
    chunks = [json.loads(frame) for frame in frames]
    assert chunks[0]["type"] == "start"
    return chunks


def of(chunks: Chunks, type: str) -> Chunks:
    return [chunk for chunk in chunks if chunk["type"] == type]


def one_agent(answers: list[Any], **options: Any) -> Any:
    def agents(rt: Runtime) -> list[Agent]:
        return [ReActAgent(rt, ScriptedModel(answers), name="helper", **options)]

    return agents


async def test_a_tool_its_output_and_its_failure() -> None:
    answers = [[("count", {"to": 2})], [("fail", {"message": "broken"})], "done"]
    async with served_agents([count, fail], one_agent(answers)) as it:
        chunks = await chat(it, said("go"))
    types = [chunk["type"] for chunk in chunks if chunk["type"] not in ("text-delta", "data-plan")]
    assert types[:3] == ["start", "start-step", "tool-input-available"]
    assert types[-3:] == ["text-end", "finish-step", "finish"]
    (failed,) = of(chunks, "tool-output-error")
    assert "broken" in failed["errorText"]
    outputs = of(chunks, "tool-output-available")
    assert outputs[-1]["output"] == "done"
    assert [each["output"] for each in outputs if each.get("preliminary")] in ([], ["0\n"], ["0\n", "0\n1\n"])
    assert "".join(chunk["delta"] for chunk in of(chunks, "text-delta")) == "done"
    assert chunks[-1]["finishReason"] == "stop"


async def test_a_turn_that_fails_and_one_that_a_limit_ends() -> None:
    async with served_agents((), one_agent([RuntimeError("no model")], model_retries=0)) as it:
        chunks = await chat(it, said("go"))
        assert [chunk["type"] for chunk in chunks] == ["start", "error"]
        assert "no model" in chunks[-1]["errorText"]
    async with served_agents([count], one_agent([[("count", {})]] * 3, max_steps=1)) as it:
        chunks = await chat(it, said("go"))
        assert of(chunks, "text-delta")[-1]["delta"] == "Terminated: Reached max steps (1)"
        assert chunks[-1] == {
            "type": "finish",
            "finishReason": "other",
            "messageMetadata": chunks[-1]["messageMetadata"],
        }
        assert chunks[-1]["messageMetadata"]["stopped"] == "max_steps"


async def test_an_answer_is_a_decision_once_and_the_stream_goes_on_after_the_question() -> None:
    async with served_agents([pay], one_agent([[("pay", {"amount": 5})], "Paid."]), policy=ASK) as it:
        first = await chat(it, said("go"))
        (question,) = of(first, "tool-approval-request")
        assert first[-1] == {"type": "finish", "finishReason": "tool-calls"}
        answer = answered(1, question["toolCallId"], {"id": question["approvalId"], "approved": True})
        for _ in range(2):  # the response of the first may have been lost
            rest = await chat(it, answer)
            assert rest[0]["messageId"] == first[0]["messageId"]
            assert of(rest, "tool-input-available") == []
            assert of(rest, "tool-output-available")[0]["toolCallId"] == question["toolCallId"]
            assert "".join(chunk["delta"] for chunk in of(rest, "text-delta")) == "Paid."
        body = {"id": "t", "messages": [answered(1, question["toolCallId"], {"id": "another", "approved": True})]}
        assert (await it.post("/ai-sdk/helper", json=body)).status_code == 404
        other = {"id": question["approvalId"], "approved": False}
        body = {"id": "t", "messages": [answered(1, question["toolCallId"], other)]}
        assert (await it.post("/ai-sdk/helper", json=body)).status_code == 409
        body = {"id": "t", "messages": [answered(7, question["toolCallId"], other)]}
        assert (await it.post("/ai-sdk/helper", json=body)).status_code == 409


async def test_a_question_of_a_called_agent_is_shown_with_its_call() -> None:
    def agents(rt: Runtime) -> list[Agent]:
        worker = ReActAgent(rt, ScriptedModel([[("pay", {"amount": 5})], "I paid."]), name="worker", tools=["pay"])
        rt.add(worker.as_tool("ask_worker", "Works."))
        model = ScriptedModel([[("ask_worker", {"task": "pay"})], "Done."])
        return [ReActAgent(rt, model, name="helper"), worker]

    async with served_agents([pay], agents, policy=ASK) as it:
        first = await chat(it, said("go"))
        (question,) = of(first, "tool-approval-request")
        called = {chunk["toolCallId"]: chunk["toolName"] for chunk in of(first, "tool-input-available")}
        assert called[question["toolCallId"]] == "pay"
        rest = await chat(it, answered(1, question["toolCallId"], {"id": question["approvalId"], "approved": True}))
        assert "".join(chunk["delta"] for chunk in of(rest, "text-delta")) == "Done."


async def test_files_and_messages_without_content() -> None:
    async with served_agents((), one_agent(["seen", "more"])) as it:
        file = {"type": "file", "mediaType": "image/png", "filename": "dot.png", "url": PIXEL}
        chunks = await chat(it, {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "what?"}, file]})
        assert chunks[-1]["finishReason"] == "stop"
        (message, *_) = (await it.get("/agents/t/messages")).json()["messages"]
        assert [each["media_type"] for each in message["files"]] == ["image/png"]
        for parts in ([], [{"type": "text", "text": " "}], [{**file, "url": "https://example.org/x.png"}]):
            body = {"id": "t", "messages": [{"id": "m2", "role": "user", "parts": parts}]}
            assert (await it.post("/ai-sdk/helper", json=body)).status_code == 422, parts


async def test_a_plan_is_a_part_that_changes() -> None:
    plan = [("plan", {"command": "create", "title": "T", "steps": ["one"]})]

    def agents(rt: Runtime) -> list[Agent]:
        return [
            PlanExecuteAgent(rt, ScriptedModel([plan, "All done."]), executor=ScriptedModel(["did it"]), name="helper")
        ]

    async with served_agents((), agents) as it:
        chunks = await chat(it, said("go"))
    states = [chunk["data"]["steps"][0]["status"] for chunk in of(chunks, "data-plan")]
    assert (states[0], states[-1]) == ("not_started", "completed")
    assert len({chunk["id"] for chunk in of(chunks, "data-plan")}) == 1
    assert "did it" in [chunk["delta"] for chunk in of(chunks, "text-delta")]
