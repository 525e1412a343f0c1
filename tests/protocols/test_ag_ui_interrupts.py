"""AG-UI: approvals as interrupts and their resume; sub-agents' events and interrupts; tools that the client runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.protocols.kit import ASK, Run, pay, run, served_agents, shop, user
from tests.protocols.payments import FORM, measure, order
from tests.scenarios.interpreter_kit import NAME, interpreter
from tests.scenarios.server_kit import Api, key_for

from clicket import Policy, Runtime, tool
from clicket.agents import Agent, Ask, Check, ReActAgent, Refuse
from clicket.testing import ScriptedModel


def answer(interrupt: dict[str, Any], **payload: Any) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


async def interrupted(it: Api, **more: Any) -> Run:
    made = await run(it, user("pay 5"), **more)
    assert made[-1]["outcome"]["type"] == "interrupt", made
    return made


async def resumed(it: Api, first: Run, *entries: dict[str, Any], id: str = "r2", **more: Any) -> Run:
    [snapshot] = first.of("MESSAGES_SNAPSHOT")
    return await run(it, *snapshot["messages"], id=id, resume=list(entries), **more)


async def test_an_approval_is_an_interrupt_and_its_resume(tmp_path: Path) -> None:
    async with shop(tmp_path) as it:
        first = await interrupted(it)
        [interrupt] = first.interrupts
        [start] = first.of("TOOL_CALL_START")
        assert (interrupt["reason"], interrupt["toolCallId"]) == ("tool_call", start["toolCallId"])
        assert '{"amount":5}' in interrupt["message"]
        assert interrupt["responseSchema"]["properties"]["editedArgs"]["properties"]["amount"] == {"type": "integer"}
        assert first.types[-3:] == ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        assert first[-3]["snapshot"]["clicket"]["waitingFor"] == [interrupt["id"]]
        second = await resumed(it, first, answer(interrupt, approved=True))
        assert not second.of("TOOL_CALL_START"), "the call was announced in the first run"
        [result] = second.of("TOOL_CALL_RESULT")
        assert (result["toolCallId"], result["content"]) == (start["toolCallId"], "paid 5")
        assert second.text == "Paid."
        assert second[-1]["outcome"] == {"type": "success"}
        assert (await it.get("/agents/t")).json()["turns"] == 1, "both runs are one turn"


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        ({"approved": False, "reason": "too much"}, "too much"),
        ({"approved": True, "editedArgs": {"amount": 3}}, "paid 3"),
        ({"approved": True, "response": "paid in cash"}, "paid in cash"),
    ],
)
async def test_deny_edit_and_answer(tmp_path: Path, payload: dict[str, Any], content: str) -> None:
    async with shop(tmp_path) as it:
        first = await interrupted(it)
        second = await resumed(it, first, answer(first.interrupts[0], **payload))
        [result] = second.of("TOOL_CALL_RESULT")
        assert content in result["content"]
        assert result["metadata"]["clicket"]["success"] is payload["approved"]
        assert second.text == "Paid."


@pytest.mark.parametrize(
    ("payload", "content"),
    [({"approved": True, "response": {"size": 4}}, '["accept",{"size":4}]'), ({"approved": False}, '["decline",null]')],
)
async def test_the_question_of_a_tool_shows_its_form(tmp_path: Path, payload: dict[str, Any], content: str) -> None:
    async with shop(tmp_path, [[["order", {}]], "Paid."], tools=[order]) as it:
        first = await interrupted(it)
        [interrupt] = first.interrupts
        assert interrupt["message"] == "the shop asks: Which size?"
        fields = interrupt["responseSchema"]["properties"]
        assert (set(fields), fields["response"]["properties"]) == (
            {"approved", "reason", "response"},
            FORM["properties"],
        )
        assert interrupt["metadata"]["clicket"]["question"]["schema"] == FORM
        wrong = await resumed(it, first, answer(interrupt, approved=True), id="wrong")
        assert (wrong.types, "Respond with the fields" in wrong[-1]["message"]) == (["RUN_STARTED", "RUN_ERROR"], True)
        second = await resumed(it, first, answer(interrupt, **payload))
        [result] = second.of("TOOL_CALL_RESULT")
        assert (result["content"].replace(" ", ""), second.text) == (content, "Paid.")


async def test_each_question_of_a_call_is_an_interrupt_of_its_own(tmp_path: Path) -> None:
    """An answer to the first one, sent again, does not answer the second."""
    async with shop(
        tmp_path, [[["measure", {}]], "Paid."], tools=[measure], policy=Policy(ask=["measure"], self_approval=True)
    ) as it:
        first = await interrupted(it)
        [approval] = first.interrupts
        second = await resumed(it, first, answer(approval, approved=True))
        [one] = second.interrupts
        third = await resumed(it, second, answer(one, approved=True, response={"size": 1}), id="r3")
        [other] = third.interrupts
        assert len({approval["id"], one["id"], other["id"]}) == 3
        assert approval["id"] == approval["metadata"]["clicket"]["callId"] == other["metadata"]["clicket"]["callId"]
        assert [each["message"] for each in (one, other)] == ["the shop asks: Which a?", "the shop asks: Which b?"]
        late = await resumed(it, second, answer(one, approved=True, response={"size": 1}), id="late")
        assert (late[-1]["type"], late[-1].get("code")) == ("RUN_ERROR", "conflict")
        assert other["id"] in late[-1]["message"]
        both = [{"interruptId": one["id"], "status": "cancelled"}, answer(other, approved=True, response={"size": 2})]
        again = [await run(it, user("pay 5")), await resumed(it, first, answer(approval, approved=True))]
        assert [each.interrupts for each in again] == [[approval], [one]], (
            "a run that is read again has its own question"
        )
        last = await resumed(it, third, *both, id="r4")
        [result] = last.of("TOOL_CALL_RESULT")
        assert result["content"].replace(" ", "") == '[{"size":1},{"size":2}]'


async def test_a_question_after_an_approval_that_another_person_gave(tmp_path: Path) -> None:
    async with shop(tmp_path, [[["measure", {}]], "Paid."], tools=[measure], policy=Policy(ask=["measure"])) as it:
        client, boss = await key_for(it, "client", "call", "read"), await key_for(it, "boss", "approve")
        first = await interrupted(it, headers=client)
        entry = {"interruptId": first.interrupts[0]["id"], "status": "resolved"}
        waiting = asyncio.ensure_future(resumed(it, first, entry, headers=client))
        await eventually(lambda: len(it.parts.event_streams.open) == 1)
        assert (await it.post(f"/calls/{first.interrupts[0]['id']}/approve", headers=boss)).status_code == 200
        async with asyncio.timeout(PATIENCE):
            second = await waiting
        assert [each["message"] for each in second.interrupts] == ["the shop asks: Which a?"]


async def test_a_tool_that_a_program_uses_waits(tmp_path: Path) -> None:
    program = [[[NAME, {"task": "tools.pay(amount=5)"}]], "Paid."]
    async with shop(tmp_path, program, tools=[pay, interpreter(tools=["pay"])]) as it:
        first = await interrupted(it)
        [interrupt] = first.interrupts
        assert (interrupt["reason"], interrupt["metadata"]["clicket"]["tool"]) == ("confirmation", "pay")
        second = await resumed(it, first, answer(interrupt, approved=True))
        [result] = second.of("TOOL_CALL_RESULT")
        assert ("paid 5" in result["content"], second.text) == (True, "Paid.")


async def test_an_abandoned_interrupt_cancels_its_call(tmp_path: Path) -> None:
    async with shop(tmp_path) as it:
        first = await interrupted(it)
        entry = {"interruptId": first.interrupts[0]["id"], "status": "cancelled"}
        [result] = (await resumed(it, first, entry)).of("TOOL_CALL_RESULT")
        assert result["metadata"]["clicket"]["state"] == "cancelled"


async def test_runs_and_answers_that_are_repeated(tmp_path: Path) -> None:
    async with shop(tmp_path) as it:
        first = await interrupted(it)
        again = await run(it, user("pay 5"))
        assert again.interrupts == first.interrupts, "the same run ends in the same way"
        yes = answer(first.interrupts[0], approved=True)
        second = await resumed(it, first, yes)
        assert (await resumed(it, first, yes))[-1] == second[-1], "the same resume"
        after = await run(it, user("pay 5"))
        assert after[-1]["outcome"]["type"] == "interrupt", "the first run ended at its interrupt, also afterwards"
        assert not after.of("TOOL_CALL_RESULT")
        calls = (await it.get("/calls", params={"tool": "pay"})).json()["items"]
        assert len(calls) == 1, "nothing ran twice"


async def test_the_same_answer_in_another_run_and_a_contradiction(tmp_path: Path) -> None:
    gate = asyncio.Event()

    @tool(name="pay")
    async def slow_pay(amount: int) -> str:
        """Pay."""
        await gate.wait()
        return f"paid {amount}"

    async with shop(tmp_path, tools=[slow_pay]) as it:
        first = await interrupted(it)
        running = asyncio.ensure_future(resumed(it, first, answer(first.interrupts[0], approved=True)))

        async def is_running() -> bool:
            call = (await it.get(f"/calls/{first.interrupts[0]['id']}", params={"thread": "t"})).json()
            return bool(call["state"] == "running")

        await eventually(is_running)
        same = asyncio.ensure_future(resumed(it, first, answer(first.interrupts[0], approved=True), id="r3"))
        other = await resumed(it, first, answer(first.interrupts[0], approved=False), id="r4")
        assert (other.types, other[-1]["code"]) == (["RUN_STARTED", "RUN_ERROR"], "conflict")
        await eventually(lambda: len(it.parts.event_streams.open) == 2)
        gate.set()
        assert (await running).text == (await same).text == "Paid."


async def test_another_person_decides_while_the_client_waits(tmp_path: Path) -> None:
    async with shop(tmp_path, policy=Policy(ask=["pay"])) as it:
        client, boss = await key_for(it, "client", "call", "read"), await key_for(it, "boss", "approve")
        first = await interrupted(it, headers=client)
        id = first.interrupts[0]["id"]
        entry = {"interruptId": id, "status": "resolved"}
        waiting = asyncio.ensure_future(resumed(it, first, entry, headers=client))
        await eventually(lambda: len(it.parts.event_streams.open) == 1)
        assert (await it.post(f"/calls/{id}/approve", headers=boss)).status_code == 200
        second = await waiting
        assert second.of("TOOL_CALL_RESULT")[0]["content"] == "paid 5"
        assert second.text == "Paid."


async def test_rules_of_resuming(tmp_path: Path) -> None:
    two = [[["pay", {"amount": 1}], ["pay", {"amount": 2}]], "Paid."]
    async with shop(tmp_path, two) as it:
        first = await interrupted(it)
        one, other = first.interrupts
        wrong: list[tuple[list[dict[str, Any]], str]] = [
            ([answer(one, approved=True)], "conflict"),
            ([answer(one, approved=True), answer(one, approved=True)], "invalid_input"),
            ([{**answer(one, approved=True), "interruptId": "nonsense"}], "not_found"),
            ([answer(one, approved=True), answer(other, approved="yes")], "invalid_input"),
            ([answer(one, approved=True), answer(other, approved=True, more=1)], "invalid_input"),
            ([answer(one, approved=True), answer(other, approved=False, editedArgs={})], "invalid_input"),
            ([answer(one, approved=True), answer(other, approved=True, editedArgs=[1])], "invalid_input"),
            ([answer(one, approved=True), {**answer(other), "payload": [1]}], "invalid_input"),
        ]
        for place, (entries, code) in enumerate(wrong):
            refused = await resumed(it, first, *entries, id=f"w{place}")
            assert (refused.types, refused[-1].get("code")) == (["RUN_STARTED", "RUN_ERROR"], code), refused
        message = await run(it, user("hello?", "u2"), id="m")
        assert (message.types, message[-1]["code"]) == (["RUN_STARTED", "RUN_ERROR"], "conflict")
        assert one["id"] in message[-1]["message"]
        both = await run(
            it, user("hello?", "u2"), id="b", resume=[answer(one, approved=True), answer(other, approved=True)]
        )
        assert both.types == ["RUN_STARTED", "RUN_ERROR"]
        assert (await run(it, id="look")).interrupts == first.interrupts, "a run without input shows them again"
        done = await resumed(it, first, answer(one, approved=True), answer(other, approved=False))
        assert [result["metadata"]["clicket"]["success"] for result in done.of("TOOL_CALL_RESULT")] == [True, False]
        late = await resumed(it, first, answer(one, approved=True), answer(other, approved=False), id="late")
        assert (late.types[-1], late[-1]["code"]) == ("RUN_ERROR", "not_waiting")


# Sub-agents.


def team(boss: list[Any], worker: list[Any]) -> Any:
    def agents(rt: Runtime) -> list[Agent]:
        inner = ReActAgent(rt, ScriptedModel(worker), name="worker", tools=["pay"])
        rt.add(inner.as_tool("ask_worker", "Works."))
        return [ReActAgent(rt, ScriptedModel(boss), name="helper"), inner]

    return agents


async def test_the_events_of_a_sub_agent_are_attributed_to_it() -> None:
    agents = team([[("ask_worker", {"task": "pay 5"})], "Done."], [[("pay", {"amount": 5})], "I paid."])
    async with served_agents([pay], agents) as it:
        made = await run(it, user("go"))
        [started], [finished] = made.of("SUBAGENT_STARTED"), made.of("SUBAGENT_FINISHED")
        outer, inner = made.of("TOOL_CALL_START")
        assert (started["name"], started["parentToolCallId"]) == ("worker", outer["toolCallId"])
        assert finished["result"] == {"text": "I paid.", "stopped": "finished", "ended": "stop", "value": None}
        assert inner["subagentRunId"] == started["subagentRunId"]
        results = made.of("TOOL_CALL_RESULT")
        assert [result.get("subagentRunId") for result in results] == [started["subagentRunId"], None]
        assert made.index(finished) < made.index(results[1]), "its events come before the result of its call"
        said = [event["delta"] for event in made.of("TEXT_MESSAGE_CONTENT") if "subagentRunId" in event]
        assert "".join(said) == "I paid."
        assert made.text == "Done."


async def test_an_interrupt_of_a_sub_agent() -> None:
    agents = team([[("ask_worker", {"task": "pay 5"})], "Done."], [[("pay", {"amount": 5})], "I paid."])
    async with served_agents([pay], agents, policy=ASK) as it:
        first = await interrupted(it)
        [interrupt], [finished] = first.interrupts, first.of("SUBAGENT_FINISHED")
        assert finished["outcome"] == {"type": "suspended", "interruptIds": [interrupt["id"]]}
        assert interrupt["subagentRunId"] == finished["subagentRunId"]
        second = await resumed(it, first, answer(interrupt, approved=True))
        [started] = second.of("SUBAGENT_STARTED")
        assert started["subagentRunId"] == finished["subagentRunId"], "the same sub-agent goes on"
        assert not second.of("TOOL_CALL_START")
        assert [result["content"] for result in second.of("TOOL_CALL_RESULT")] == ["paid 5", "I paid."]
        assert second.text == "Done."


async def test_a_sub_agent_that_fails_or_is_refused() -> None:
    boss = [[("ask_worker", {"task": "pay 5"})], "Sorry."]
    async with served_agents([pay], team(boss, [ValueError("no luck")])) as it:
        made = await run(it, user("go"))
        [failed] = made.of("SUBAGENT_ERROR")
        assert "no luck" in failed["message"]
        assert made.text == "Sorry."
    async with served_agents([pay], team(boss, []), policy=Policy(deny=["ask_worker"])) as it:
        made = await run(it, user("go"))
        assert not made.of("SUBAGENT_STARTED")
        assert made.of("TOOL_CALL_RESULT")[0]["metadata"]["clicket"]["code"] == "permission_denied"


async def test_a_check_that_asks_is_an_interrupt_and_its_text_can_be_changed() -> None:
    def asks(turn: Any, text: str) -> Ask | Refuse | None:
        return Refuse("Ask politely.") if "damn" in text else Ask("May it go on?") if "secret" in text else None

    def agents(rt: Runtime) -> list[Agent]:
        checks = [Check(asks, on="input"), Check(asks, on="output")]
        return [ReActAgent(rt, ScriptedModel(["a secret"]), name="helper", checks=checks)]

    async with served_agents([pay], agents) as it:
        refused = await run(it, user("damn"))
        assert refused[-1]["type"] == "RUN_FINISHED"
        first = await run(it, user("damn"), user("go", "u2"), id="r2")
        assert "a secret" not in str(first.of("TEXT_MESSAGE_CONTENT"))
        [interrupt] = first.interrupts
        assert "May it go on?" in interrupt["message"]
        snapshot = first.of("MESSAGES_SNAPSHOT")[-1]
        assert [message["content"] for message in snapshot["messages"]] == ["damn", "Ask politely.", "go"]
        entry = answer(interrupt, approved=True, editedArgs={"text": "a rule"})
        second = await run(it, *snapshot["messages"], id="r3", resume=[entry])
        assert second.text == "a rule"


# Tools of the client.

COLOUR = {"name": "pick_colour", "description": "Ask the user.", "parameters": {"type": "object", "properties": {}}}


def painter(*calls: Any) -> Any:
    def agents(rt: Runtime) -> list[Agent]:
        return [ReActAgent(rt, ScriptedModel([list(calls), "Painted.", "Again."]), name="helper", tools=["pay"])]

    return agents


async def test_a_tool_that_the_client_runs() -> None:
    agents = painter(("pick_colour", {"hint": "warm"}))
    async with served_agents([pay], agents) as it:
        first = await run(it, user("paint"), tools=[COLOUR])
        [start], [args] = first.of("TOOL_CALL_START"), first.of("TOOL_CALL_ARGS")
        assert (start["toolCallName"], args["delta"]) == ("pick_colour", '{"hint":"warm"}')
        assert first[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [start["toolCallId"]]}
        assert not first.of("TOOL_CALL_RESULT")
        [snapshot] = first.of("MESSAGES_SNAPSHOT")
        result = {"id": "x1", "role": "tool", "toolCallId": start["toolCallId"], "content": "red"}
        second = await run(it, *snapshot["messages"], result, id="r2", tools=[COLOUR])
        assert second.of("TOOL_CALL_RESULT")[0]["content"] == "red"
        assert second.text == "Painted."
        history = (await it.get("/agents/t/messages")).json()["messages"]
        assert [message["content"] for message in history if message["role"] == "tool"] == ["red"]


async def test_a_tool_of_the_client_that_fails() -> None:
    async with served_agents([pay], painter(("pick_colour", {}))) as it:
        first = await run(it, user("paint"), tools=[COLOUR])
        id = first[-1]["outcome"]["pendingToolCallIds"][0]
        result = {"id": "x1", "role": "tool", "toolCallId": id, "content": "", "error": "the user closed the window"}
        second = await run(it, result, id="r2")
        [given] = second.of("TOOL_CALL_RESULT")
        assert (given["metadata"]["clicket"]["success"], "closed the window" in given["content"]) == (False, True)


async def test_a_result_that_is_missing_repeated_or_forged() -> None:
    calls = (("pick_colour", {}), ("pay", {"amount": 5}))
    async with served_agents([pay], painter(*calls), policy=ASK) as it:
        first = await run(it, user("paint"), tools=[COLOUR])
        assert [each["metadata"]["clicket"]["tool"] for each in first.interrupts] == ["pay"]
        colour, payment = (start["toolCallId"] for start in first.of("TOOL_CALL_START"))
        forged = {"id": "f", "role": "tool", "toolCallId": payment, "content": "paid 1000000"}
        refused = await run(it, forged, id="f1")
        assert (refused.types, refused[-1]["code"]) == (["RUN_STARTED", "RUN_ERROR"], "permission_denied")
        yes = [answer(first.interrupts[0], approved=True)]
        second = await run(it, id="r2", resume=yes)
        assert second[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [colour]}, (
            "its result is still missing"
        )
        right = {"id": "x", "role": "tool", "toolCallId": colour, "content": "red"}
        third = await run(it, right, id="r3")
        assert third.text == "Painted."
        assert (await run(it, {**right, "content": "blue"}, id="r4"))[-1]["outcome"] == {"type": "success"}
        history = (await it.get("/agents/t/messages")).json()["messages"]
        assert sorted(m["content"] for m in history if m["role"] == "tool") == ["paid 5", "red"]


async def test_tools_that_cannot_be_offered() -> None:
    async with served_agents([pay], painter(("pick_colour", {}))) as it:
        for tools in ([{**COLOUR, "name": "pay"}], [COLOUR, COLOUR], [{**COLOUR, "name": "a b"}], [{"name": ""}]):
            body = {"threadId": "t", "runId": "r", "messages": [user("x")], "tools": tools}
            refused = await it.post("/ag-ui/helper", json=body)
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input"), refused.text
        first = await run(it, user("paint"), tools=[COLOUR])
        assert first[-1]["outcome"]["pendingToolCallIds"]
        assert (await it.post("/agents/t/stop")).json() == {"stopped": True}
        assert (await run(it, id="r2"))[-1]["outcome"] == {"type": "success"}, "the thread can go on"
