"""A2A: an agent's card; messages, tasks, streams, cancelling and subscribing; questions and answers, with the protocol's own client."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from a2a.utils.proto_utils import validate_proto_required_fields
from tests.kit.waiting import eventually
from tests.protocols.a2a_kit import ask, client_of, message, read, rpc, state_of
from tests.protocols.kit import ASK, pay, served_agents, shop
from tests.protocols.payments import measure, order
from tests.scenarios.agent_server_kit import TURN, Gate, say, served_agent
from tests.scenarios.interpreter_kit import NAME, interpreter
from tests.scenarios.server_kit import TOOLS, key_for

from clicket import Policy, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel


async def test_the_card(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it, httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, f"{it.url}/a2a/helper").get_agent_card()
        validate_proto_required_fields(card)
        [interface] = card.supported_interfaces
        assert (interface.url, interface.protocol_binding, interface.protocol_version) == (
            f"{it.url}/a2a/helper", "JSONRPC", "1.0",
        )  # fmt: skip
        assert (card.name, card.capabilities.streaming, card.capabilities.push_notifications) == ("helper", True, False)
        assert not card.security_schemes
        assert await A2ACardResolver(http, it.url).get_agent_card() == card, "the default agent's"
        headers = await key_for(it, "k", "read")
        secured = await A2ACardResolver(http, it.url).get_agent_card(http_kwargs={"headers": headers})
        assert secured.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
        assert [sorted(each.schemes) for each in secured.security_requirements] == [["bearer"], ["apiKey"]]


async def test_a_message_is_a_task_and_its_answer_an_artifact(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it, client_of(it.url, streaming=False) as client:
        task = await ask(client, "add 1 and 2")
        assert state_of(task) == "completed"
        [artifact] = task.artifacts
        assert artifact.parts[0].text == TURN[1]
        assert [each.role for each in task.history] == [pb.ROLE_USER, pb.ROLE_AGENT]
        assert (task.history[0].message_id, task.history[0].parts[0].text) == ("m1", "add 1 and 2")
        assert await client.get_task(pb.GetTaskRequest(id=task.id)) == task
        short = await client.get_task(pb.GetTaskRequest(id=task.id, history_length=1))
        assert [each.role for each in short.history] == [pb.ROLE_AGENT]
        second = await ask(client, "and again", "m2", context_id=task.context_id)
        assert (second.context_id, second.id != task.id) == (task.context_id, True)
        turns = (await it.get(f"/agents/{task.context_id}/messages")).json()["turns"]
        assert [turn["messages"][0]["content"] for turn in turns] == ["add 1 and 2", "and again"]


async def test_the_same_message_again_is_the_same_task(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it, client_of(it.url, streaming=False) as client:
        first, again = await ask(client, "go"), await ask(client, "go")
        assert first == again
        with pytest.raises(A2AError, match="another message"):
            await ask(client, "something else")
        tasks = await asyncio.gather(*(ask(client, "many", "m2") for _ in range(6)))
        assert len({task.id for task in tasks}) == 1
        listed = await client.list_tasks(pb.ListTasksRequest())
        assert listed.total_size == 2


async def test_a_stream_from_the_task_to_its_end(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it, client_of(it.url) as client:
        events = await read(client.send_message(message("go")))
        assert events[0].HasField("task")
        working = [e.status_update for e in events if e.HasField("status_update")][:-1]
        assert any("add" in each.status.message.parts[0].text for each in working)
        assert events[-2].artifact_update.artifact.parts[0].text == TURN[1]
        assert state_of(events[-1].status_update) == "completed"
        assert (
            len({event.task.id or event.status_update.task_id or event.artifact_update.task_id for event in events})
            == 1
        )


async def test_immediately_then_subscribe_by_several_then_the_end(tmp_path: Path) -> None:
    gate = Gate()
    async with (
        served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it,
        client_of(it.url, streaming=False, polling=True) as polling,
        client_of(it.url) as client,
    ):
        task = await ask(polling, "go")
        assert state_of(task) == "working"
        await gate.reached.wait()
        readers = [
            asyncio.ensure_future(read(client.subscribe(pb.SubscribeToTaskRequest(id=task.id)))) for _ in range(3)
        ]
        await eventually(lambda: len(it.parts.event_streams.open) == 3)
        gate.open.set()
        streams = await asyncio.gather(*readers)
        assert all(stream[0].HasField("task") for stream in streams)
        assert streams[0][1:] == streams[1][1:] == streams[2][1:], "each reader gets the same events"
        assert state_of(streams[0][-1].status_update) == "completed"
        with pytest.raises(UnsupportedOperationError):
            await read(client.subscribe(pb.SubscribeToTaskRequest(id=task.id)))


async def test_cancel(tmp_path: Path) -> None:
    gate = Gate()
    async with (
        served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it,
        client_of(it.url, streaming=False, polling=True) as client,
    ):
        task = await ask(client, "go")
        await gate.reached.wait()
        assert state_of(await client.cancel_task(pb.CancelTaskRequest(id=task.id))) == "canceled"
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(pb.CancelTaskRequest(id=task.id))
        with pytest.raises(TaskNotFoundError):
            await client.cancel_task(pb.CancelTaskRequest(id="turn-9:t"))
        with pytest.raises(UnsupportedOperationError):
            await ask(client, "more", "m2", task_id=task.id)


async def test_a_client_that_leaves_does_not_stop_the_task(tmp_path: Path) -> None:
    gate = Gate()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it, client_of(it.url) as client:
        stream: Any = client.send_message(message("go"))
        first = await anext(stream)
        await stream.aclose()
        await eventually(lambda: not it.parts.event_streams.open)
        gate.open.set()

        async def completed() -> bool:
            return state_of(await client.get_task(pb.GetTaskRequest(id=first.task.id))) == "completed"

        await eventually(completed)


async def test_tasks_are_listed(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it, client_of(it.url, streaming=False) as client:
        tasks = [await ask(client, f"message {n}", f"m{n}", context_id=f"c{n % 2}") for n in range(5)]
        await say(it, "native", thread="c0", wait=True)
        first = await client.list_tasks(pb.ListTasksRequest(page_size=4))
        assert (len(first.tasks), first.total_size, first.page_size) == (4, 6, 4)
        assert not any(task.artifacts for task in first.tasks)
        rest = await client.list_tasks(pb.ListTasksRequest(page_size=4, page_token=first.next_page_token))
        assert (len(rest.tasks), rest.next_page_token) == (2, "")
        assert {task.id for task in (*first.tasks, *rest.tasks)} > {task.id for task in tasks}
        stamps = [task.status.timestamp.ToNanoseconds() for task in (*first.tasks, *rest.tasks)]
        assert stamps == sorted(stamps, reverse=True)
        one = await client.list_tasks(pb.ListTasksRequest(context_id="c1", include_artifacts=True, history_length=0))
        assert {task.id for task in one.tasks} == {tasks[1].id, tasks[3].id}
        assert all(task.artifacts and not task.history for task in one.tasks)
        none = await client.list_tasks(pb.ListTasksRequest(status=pb.TASK_STATE_CANCELED))
        assert (len(none.tasks), none.total_size) == (0, 0)
        done = await client.list_tasks(pb.ListTasksRequest(status=pb.TASK_STATE_COMPLETED))
        assert done.total_size == 6


# Questions.


@pytest.mark.parametrize(
    ("text", "data", "content"),
    [
        ("approve", None, "paid 5"),
        ("No.", None, "denied"),
        ("", {"approved": True, "arguments": {"amount": 3}}, "paid 3"),
        ("", {"approved": True, "response": "paid in cash"}, "paid in cash"),
        ("", {"approved": False, "reason": "too much"}, "too much"),
    ],
)
async def test_a_question_and_its_answer(tmp_path: Path, text: str, data: Any, content: str) -> None:
    async with shop(tmp_path) as it, client_of(it.url, streaming=False) as client:
        task = await ask(client, "pay 5")
        assert state_of(task) == "input_required"
        question = task.status.message.parts
        assert "pay" in question[0].text
        assert question[1].data.struct_value["tool"] == "pay"
        if data is not None:
            data = {**data, "hash": question[1].data.struct_value["hash"]}
        ended = await ask(client, text, "m2", data=data, task_id=task.id, context_id=task.context_id)
        assert (ended.id, state_of(ended)) == (task.id, "completed")
        turn = (await it.get(f"/agents/{task.context_id}/messages")).json()["turns"][0]
        assert content in next(m["content"] for m in turn["messages"] if m["role"] == "tool")
        assert (await ask(client, text, "m2", data=data, task_id=task.id)).id == task.id, "the same answer again"


@pytest.mark.parametrize(
    ("text", "data", "content"),
    [
        ("", {"approved": True, "response": {"size": 4}}, '["accept",{"size":4'),
        ("deny", None, '["decline",null]'),
    ],
)
async def test_the_question_of_a_tool(tmp_path: Path, text: str, data: Any, content: str) -> None:
    answers = [[["order", {}]], "Done."]
    async with shop(tmp_path, answers, tools=[order]) as it, client_of(it.url, streaming=False) as client:
        task = await ask(client, "go")
        assert state_of(task) == "input_required"
        shown = task.status.message.parts
        assert shown[0].text.startswith("the shop asks: Which size? Answer with a data part")
        assert list(shown[1].data.struct_value["question"]["schema"]["required"]) == ["size"]
        with pytest.raises(A2AError, match="not for an approval"):
            await ask(client, "approve", "w", task_id=task.id)
        answer = data and {**data, "hash": shown[1].data.struct_value["hash"]}
        ended = await ask(client, text, "m2", data=answer, task_id=task.id)
        assert state_of(ended) == "completed"
        turn = (await it.get(f"/agents/{task.context_id}/messages")).json()["turns"][0]
        assert next(m["content"] for m in turn["messages"] if m["role"] == "tool").replace(" ", "").startswith(content)


async def test_a_tool_that_a_program_uses_waits_for_a_credential(tmp_path: Path) -> None:
    @tool(credentials=["github"])
    async def issues(ctx: ToolContext) -> str:
        """Lists issues."""
        return f"with {len(ctx.credential('github'))} characters"

    program = [[[NAME, {"task": "tools.issues()"}]], "Done."]
    tools = [issues, interpreter(tools=["issues"])]
    async with shop(tmp_path, program, tools=tools) as it, client_of(it.url, streaming=False) as client:
        task = await ask(client, "go")
        assert (state_of(task), "issues" in task.status.message.parts[0].text) == ("auth_required", True)
        await it.runtime.credentials.put("github", "0123456789abcdef")

        async def completed() -> bool:
            return state_of(await client.get_task(pb.GetTaskRequest(id=task.id))) == "completed"

        await eventually(completed)


async def test_a_stream_ends_at_a_question_and_a_subscription_does_not(tmp_path: Path) -> None:
    async with shop(tmp_path) as it, client_of(it.url) as client:
        events = await read(client.send_message(message("pay 5")))
        assert state_of(events[-1].status_update) == "input_required"
        task = events[0].task.id
        following = asyncio.ensure_future(read(client.subscribe(pb.SubscribeToTaskRequest(id=task))))
        await eventually(lambda: len(it.parts.event_streams.open) == 1)
        answered = await read(client.send_message(message("approve", "m2", task_id=task)))
        assert state_of(answered[-1].status_update) == "completed"
        followed = await following
        assert state_of(followed[0].task) == "input_required"
        assert state_of(followed[-1].status_update) == "completed"


async def test_a_subscription_gets_each_question_of_a_call(tmp_path: Path) -> None:
    answers = [[["measure", {}]], "Done."]
    questions: list[pb.Message] = []

    async def follow(events: Any) -> None:
        async for event in events:
            status = event.status_update.status
            if status.state == pb.TASK_STATE_INPUT_REQUIRED:
                questions.append(status.message)

    async with (
        shop(tmp_path, answers, tools=[measure]) as it,
        client_of(it.url, streaming=False) as client,
        client_of(it.url) as other,
    ):
        task = await ask(client, "go")
        following = asyncio.ensure_future(follow(other.subscribe(pb.SubscribeToTaskRequest(id=task.id))))
        await eventually(lambda: len(it.parts.event_streams.open) == 1)
        for place, shown in enumerate((task.status.message, None)):
            question = shown or await eventually(lambda: questions and questions[-1])
            given = {"approved": True, "response": {"size": place}, "hash": question.parts[1].data.struct_value["hash"]}
            asked = await ask(client, "", f"a{place}", data=given, task_id=task.id)
        assert state_of(asked) == "completed"
        await following
        assert [question.parts[0].text[:24] for question in questions] == ["the shop asks: Which b? "]
        assert questions[0].message_id != task.status.message.message_id


async def test_answers_that_do_not_fit(tmp_path: Path) -> None:
    async with shop(tmp_path) as it, client_of(it.url, streaming=False) as client:
        task = await ask(client, "pay 5")
        hash = task.status.message.parts[1].data.struct_value["hash"]
        wrong: list[tuple[str, Any]] = [
            ("maybe", None),
            ("", {"approved": "yes", "hash": hash}),
            ("", {"approved": True}),
            ("", {"approved": True, "hash": 5}),
            ("", {"approved": True, "hash": hash[:8]}),
            ("", {"approved": True, "hash": hash[::-1]}),
            ("", {"approved": True, "hash": hash, "callId": "nonsense"}),
            ("", {"approved": True, "hash": hash, "arguments": {"amount": "much"}}),
            ("", {"approved": True, "hash": hash, "more": 1}),
        ]
        for place, (text, data) in enumerate(wrong):
            with pytest.raises(A2AError):
                await ask(client, text, f"w{place}", data=data, task_id=task.id)
        with pytest.raises(A2AError, match="belong together"):
            await ask(client, "approve", "w9", task_id=task.id, context_id="other")
        assert state_of(await client.get_task(pb.GetTaskRequest(id=task.id))) == "input_required"


async def test_a_question_of_a_sub_agent() -> None:
    def agents(rt: Any) -> list[Any]:
        worker = ReActAgent(rt, ScriptedModel([[("pay", {"amount": 5})], "I paid."]), name="worker", tools=["pay"])
        rt.add(worker.as_tool("ask_worker", "Works."))
        boss = ScriptedModel([[("ask_worker", {"task": "pay"})], "Done."])
        return [ReActAgent(rt, boss, name="helper"), worker]

    async with served_agents([pay], agents, policy=ASK) as it, client_of(it.url, streaming=False) as client:
        task = await ask(client, "go")
        assert state_of(task) == "input_required"
        ended = await ask(client, "approve", "m2", task_id=task.id)
        assert ended.artifacts[0].parts[0].text == "Done."


async def test_a_task_that_a_limit_or_an_error_ends() -> None:
    def agents(rt: Any) -> list[Any]:
        looping = ScriptedModel([[("add", {"a": 1, "b": n})] for n in range(9)])
        broken = ScriptedModel([ValueError("no luck")])
        return [
            ReActAgent(rt, looping, name="limited", max_steps=2),
            ReActAgent(rt, broken, name="broken", model_retries=0),
        ]

    async with served_agents(TOOLS, agents) as it:
        for agent, text in (("limited", "max steps"), ("broken", "no luck")):
            async with client_of(it.url, agent) as client:
                events = await read(client.send_message(message("go")))
                assert state_of(events[-1].status_update) == "failed"
                assert text in events[-1].status_update.status.message.parts[0].text
                task = await client.get_task(pb.GetTaskRequest(id=events[0].task.id))
                assert (state_of(task), text in task.status.message.parts[0].text) == ("failed", True)


# What a client may get wrong.


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


async def test_errors_have_the_codes_of_the_protocol(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it:
        version = {"A2A-Version": "1.0"}
        user = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
        cases: list[tuple[str, Any, int]] = [
            ("Nonsense", {}, -32601),
            ("message/send", {}, -32601),
            ("GetTask", {"id": "nonsense"}, -32001),
            ("GetTask", {"id": "turn-1:nowhere"}, -32001),
            ("GetTask", {}, -32602),
            ("GetTask", {"id": 5}, -32602),
            ("CancelTask", {"id": "turn-0:t"}, -32001),
            ("SubscribeToTask", {"id": "turn-1:nowhere"}, -32001),
            ("SendMessage", {}, -32602),
            ("SendMessage", {"message": {**user, "parts": []}}, -32602),
            ("SendMessage", {"message": {**user, "role": "ROLE_AGENT"}}, -32602),
            ("SendMessage", {"message": {**user, "parts": [{"text": " "}]}}, -32602),
            ("SendMessage", {"message": {**user, "parts": [{"text": "x", "mediaType": "image/png"}]}}, -32005),
            ("SendMessage", {"message": {**user, "contextId": "x" * 600}}, -32602),
            ("SendMessage", {"message": {**user, "taskId": "turn-1:nowhere"}}, -32001),
            ("SendMessage", {"message": {**user, "extensions": nested(900)}}, -32602),
            (
                "SendMessage",
                {"message": user, "configuration": {"taskPushNotificationConfig": {"url": "http://x"}}},
                -32003,
            ),
            ("CreateTaskPushNotificationConfig", {"taskId": "x"}, -32003),
            ("ListTaskPushNotificationConfigs", {"taskId": "x"}, -32003),
            ("GetExtendedAgentCard", {}, -32004),
            ("ListTasks", {"pageSize": 0}, -32602),
            ("ListTasks", {"pageSize": 101}, -32602),
            ("ListTasks", {"status": "nonsense"}, -32602),
            ("ListTasks", {"pageToken": "nonsense"}, -32602),
            ("ListTasks", {"statusTimestampAfter": "yesterday"}, -32602),
        ]
        for method, params, code in cases:
            error = (await rpc(it, method, params))["error"]
            assert error["code"] == code, (method, params, error)
            assert error["data"][0]["@type"].endswith("ErrorInfo")
        bodies: list[tuple[bytes, int]] = [
            (b"{", -32700),
            (b"\xff", -32700),
            (b"[]", -32600),
            (b"5", -32600),
            (b'{"jsonrpc": "1.0", "id": 1, "method": "GetTask"}', -32600),
            (b'{"jsonrpc": "2.0", "id": 1}', -32600),
            (b'{"jsonrpc": "2.0", "id": {}, "method": "GetTask"}', -32600),
            (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": []}', -32600),
            (b"[" * 100_000, -32700),
        ]
        for body, code in bodies:
            kind = {"content-type": "application/json", **version}
            answer = (await it.post("/a2a/helper", content=body, headers=kind)).json()
            assert answer["error"]["code"] == code, body[:50]
        old = await it.post("/a2a/helper", json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks"})
        assert old.json()["error"]["code"] == -32009, "without the header a client speaks 0.3"
        assert (await rpc(it, "ListTasks", headers={"A2A-Version": "2.0"}))["error"]["code"] == -32009
        assert (await rpc(it, "ListTasks", headers={"A2A-Version": "1.3"}))["result"]["tasks"] == []
        snake = {"message_id": "s", "role": "ROLE_USER", "parts": [{"text": "x"}], "context_id": "snake"}
        task = (await rpc(it, "SendMessage", {"message": snake}))["result"]["task"]
        assert task["contextId"] == "snake", "the protocol's JSON takes both forms of a name"
        assert len((await rpc(it, "ListTasks", {"context_id": "snake"}))["result"]["tasks"]) == 1
        for path in ("/a2a/nobody", "/ag-ui/nobody"):
            missing = await it.post(path, json={}, headers=version)
            assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_busy_and_working(tmp_path: Path) -> None:
    gate = Gate()
    async with (
        served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it,
        client_of(it.url, streaming=False, polling=True) as client,
    ):
        task = await ask(client, "go", context_id="c")
        await gate.reached.wait()
        with pytest.raises(UnsupportedOperationError, match="is running"):
            await ask(client, "next", "m2", context_id="c")
        with pytest.raises(UnsupportedOperationError, match="waits for no answer"):
            await ask(client, "yes", "m3", task_id=task.id)
        gate.open.set()


async def test_a_policy_without_self_approval(tmp_path: Path) -> None:
    async with shop(tmp_path, policy=Policy(ask=["pay"])) as it:
        mine = await key_for(it, "me", "call", "read", "approve")
        async with client_of(it.url, headers=mine, streaming=False) as client:
            task = await ask(client, "pay 5")
            with pytest.raises(A2AError, match="another person must decide"):
                await ask(client, "approve", "m2", task_id=task.id)
            assert state_of(await client.get_task(pb.GetTaskRequest(id=task.id))) == "input_required"
            denied = await ask(client, "deny", "m3", task_id=task.id)
            assert state_of(denied) == "completed"
