"""Webhooks end to end: a real receiver in a process of its own that accepts, fails, hangs, is gone, busy, or dies."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.kit.webhook_receiver import Receiver
from tests.scenarios.kit import make

from clicket import Policy, Runtime, tool
from clicket.agents import ReActAgent
from clicket.errors import Conflict, NotFound, PermissionDenied
from clicket.model.chat import ChatReply, Usage
from clicket.model.notice import Notice
from clicket.telemetry.prometheus import scrape
from clicket.testing import ScriptedModel

SECRET = "whsec_" + b64encode(b"one secret of this test, 32 byte").decode()
OTHER = "whsec_" + b64encode(b"a new secret that replaces it...").decode()

_USES = ChatReply(text="done", usage=Usage(input_tokens=60, output_tokens=40))


@tool
async def pay(amount: int, password: str = "") -> str:
    """Pay."""
    if amount < 0:
        raise ValueError(f"cannot pay {amount}")
    return f"paid {amount}"


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with Receiver(tmp_path_factory.mktemp("receiver")) as one:
        yield one


def hook(receiver: Receiver, path: str, *events: str, **more: Any) -> dict[str, Any]:
    return {
        "url": receiver.url(path), "secret": SECRET, "events": list(events) or ["call.ended"], "allow_private": True,
        "name": path, **more,
    }  # fmt: skip


def runtime(store: str, *hooks: dict[str, Any], **settings: Any) -> Runtime:
    return make([pay], store, webhooks=hooks, **settings)


async def ended(rt: Runtime, state: str = "delivered") -> Notice:
    async def look() -> Notice | None:
        await rt.engine.webhooks.delivery.look()  # type: ignore[union-attr]  # there are webhooks
        found = (await rt.notices.list(state=state)).items
        return found[0] if found else None

    found: Notice = await eventually(look)
    return found


def bodies(receiver: Receiver, path: str) -> list[dict[str, Any]]:
    return [json.loads(each["body"]) for each in receiver.requests(path)]


async def test_a_call_that_ended_is_noticed_and_signed(store: str, receiver: Receiver) -> None:
    path = f"/ok/{store[:6]}"
    async with runtime(store, hook(receiver, path, secret=[OTHER, SECRET])) as rt:
        result = await rt.call("pay", {"amount": 3, "password": "hunter2-hunter2"}, thread="t1")
        notice = await ended(rt)
        whole = await rt.notices.get(notice.id)
    [request] = receiver.requests(path)
    assert request["headers"]["webhook-id"] == notice.id
    body = json.loads(request["body"])
    assert body == whole.payload
    assert body["type"] == "call.ended"
    assert body["data"]["call"]["id"] == result.call_id
    assert body["data"]["call"]["state"] == "completed"
    assert "arguments" not in body["data"]
    assert (notice.tries, notice.attempts[0].status) == (1, 204)


async def test_arguments_are_sent_masked_and_only_on_demand(store: str, receiver: Receiver) -> None:
    @tool(sensitive=["password"])
    async def login(user: str, password: str) -> str:
        return user

    path = f"/ok/arguments/{store[:6]}"
    async with make([login], store, webhooks=[hook(receiver, path, include=["arguments"])]) as rt:
        await rt.call("login", {"user": "ann", "password": "hunter2-hunter2"})
        await ended(rt)
    [request] = receiver.requests(path)
    assert "hunter2" not in request["body"]
    assert json.loads(request["body"])["data"]["arguments"] == {"user": "ann", "password": "[secret]"}


async def test_an_attempt_that_fails_is_repeated_under_the_same_id(store: str, receiver: Receiver) -> None:
    path = "/fail/2" if store.startswith("memory") else "/fail/02"
    async with runtime(store, hook(receiver, path, retry=[0.01, 0.01, 0.01])) as rt:
        await rt.call("pay", {"amount": 1})
        notice = await ended(rt)
    assert receiver.ids(path) == [notice.id] * 3
    assert [attempt.status for attempt in notice.attempts] == [500, 500, 204]
    assert len({each["body"] for each in receiver.requests(path)}) == 1


async def test_given_up_then_replayed(store: str, receiver: Receiver) -> None:
    path = "/fail/3" if store.startswith("memory") else "/fail/03"
    async with runtime(store, hook(receiver, path, retry=[0.01])) as rt:
        await rt.call("pay", {"amount": 1})
        notice = await ended(rt, "failed")
        assert notice.problem == "it answered 500"
        again = await rt.notices.replay(notice.id, by="ann")
        assert (again.state, again.tries, again.replays) == ("pending", 0, 1)
        with pytest.raises(Conflict):
            await rt.notices.replay(notice.id)
        assert (await ended(rt)).id == notice.id
        with pytest.raises(NotFound):
            await rt.notices.get("msg_" + "0" * 32)
        assert [entry.details["notice"] for entry in await rt.audit.list()] == [notice.id]
        page = (await scrape(rt))[0].decode()
    assert receiver.ids(path) == [notice.id] * 4
    assert 'clicket_notices_total{state="delivered"} 1.0' in page
    assert 'clicket_notices_total{state="failed"} 1.0' in page
    assert "clicket_notices_pending 0.0" in page


async def test_an_endpoint_that_is_gone_gets_no_more(sqlite: str, receiver: Receiver) -> None:
    async with runtime(sqlite, hook(receiver, "/gone")) as rt:
        await rt.call("pay", {"amount": 1})
        first = await ended(rt, "failed")
        await rt.call("pay", {"amount": 2})
        await eventually(lambda: _count(rt, "failed", 2))
    async with runtime(sqlite, hook(receiver, "/gone")) as rt:  # another process knows it, too
        await rt.engine.webhooks.delivery.look()  # type: ignore[union-attr]
        await rt.call("pay", {"amount": 3})
        await eventually(lambda: _count(rt, "failed", 3))
    assert receiver.ids("/gone") == [first.id]
    async with runtime(sqlite, hook(receiver, "/ok/moved", name="/gone")) as rt:  # another URL under the same name
        await rt.notices.replay(first.id)
        assert (await ended(rt)).id == first.id
    assert receiver.ids("/ok/moved") == [first.id]


async def _count(rt: Runtime, state: str, wanted: int) -> bool:
    await rt.engine.webhooks.delivery.look()  # type: ignore[union-attr]
    return len((await rt.notices.list(state=state)).items) == wanted


async def test_retry_after_is_respected(receiver: Receiver) -> None:
    async with runtime("memory://", hook(receiver, "/busy/3600", retry=[0.01, 0.01])) as rt:
        await rt.call("pay", {"amount": 1})
        first = await eventually(lambda: _tried(rt))
        assert first.next_at is not None
        assert first.next_at > rt.clock.now() + 3_500
        await rt.call("pay", {"amount": 2})  # the endpoint asked for no requests
        await eventually(lambda: _count(rt, "pending", 2))
        await rt.engine.webhooks.delivery.look()  # type: ignore[union-attr]
    assert receiver.ids("/busy") == [first.id]


async def _tried(rt: Runtime) -> Notice | None:
    found = (await rt.notices.list()).items
    return found[0] if found and found[0].tries else None


async def test_redirects_are_not_followed(receiver: Receiver) -> None:
    async with runtime("memory://", hook(receiver, "/redirect", retry=[0.01])) as rt:
        await rt.call("pay", {"amount": 1})
        notice = await ended(rt, "failed")
    assert notice.problem == "it answered 307: redirects are not followed"
    assert notice.id not in receiver.ids("/ok")


async def test_private_addresses_need_leave(receiver: Receiver) -> None:
    async with runtime("memory://", hook(receiver, "/ok/private", retry=[0.01], allow_private=False)) as rt:
        await rt.call("pay", {"amount": 1})
        notice = await ended(rt, "failed")
    assert "not on the public internet" in notice.problem
    assert "allow_private = true" in notice.problem
    assert receiver.requests("/ok/private") == []


async def test_a_receiver_that_hangs_delays_neither_calls_nor_other_endpoints(receiver: Receiver) -> None:
    hooks = hook(receiver, "/hang", timeout=60), hook(receiver, "/ok/quick")
    async with runtime("memory://", *hooks) as rt:
        await asyncio.gather(*(rt.call("pay", {"amount": n}) for n in range(20)))
        await eventually(lambda: len(receiver.ids("/ok/quick")) == 20)
        assert await _tried_at(rt, "/hang") is None, "it still waits for an answer"


async def test_a_receiver_that_hangs_is_given_up(receiver: Receiver) -> None:
    async with runtime("memory://", hook(receiver, "/hang", timeout=0.2, retry=[3600])) as rt:
        await rt.call("pay", {"amount": 1})
        hung = await eventually(lambda: _tried_at(rt, "/hang"))
        assert "did not answer within 0.2 s" in hung.problem


async def _tried_at(rt: Runtime, endpoint: str) -> Notice | None:
    found = (await rt.notices.list(limit=1_000)).items
    return next((each for each in found if each.endpoint == endpoint and each.tries), None)


async def test_a_receiver_that_dies_and_comes_back(tmp_path: Path, sqlite: str) -> None:
    with Receiver(tmp_path) as first:
        port = first.port
        async with runtime(sqlite, hook(first, "/die", retry=[0.01] * 50)) as rt:
            await rt.call("pay", {"amount": 1})
            await eventually(lambda: first.ids("/die"))
            notice = await eventually(lambda: _tried(rt))
            with Receiver(tmp_path, port) as second:
                await rt.engine.webhooks.delivery.close()  # type: ignore[union-attr]
                async with runtime(sqlite, hook(second, "/ok", retry=[0.01], name="/die")) as other:
                    assert (await ended(other)).id == notice.id
                assert second.ids() == first.ids() == [notice.id]


async def test_an_approval_is_asked_for_and_a_status_changes(store: str, receiver: Receiver) -> None:
    path = f"/ok/people/{store[:6]}"
    policy = Policy(ask=["pay"])
    hooks = hook(receiver, path, "approval.requested", "tool.health")
    async with make([pay], store, webhooks=[hooks], policy=policy) as rt:
        handle = await rt.submit("pay", {"amount": 1}, thread="t1")
        await eventually(lambda: bodies(receiver, path))
        [body] = bodies(receiver, path)
        assert body["type"] == "approval.requested"
        record = await rt.get(handle.id)
        assert record.approval is not None
        assert body["data"]["approval"]["seen"] == record.approval["hash"]
        assert "link" not in body["data"]
        await rt.deny(handle.id)
        await handle.result()
        await rt.hub("t1").set("pay", "maintenance", "the bank is closed")
        await eventually(lambda: len(bodies(receiver, path)) == 2)
        body = bodies(receiver, path)[1]
        assert body["type"] == "tool.health"
        assert body["data"]["after"] == "maintenance"
        assert body["data"]["reason"] == "the bank is closed"


async def test_another_part_emits_a_notice_once(store: str, receiver: Receiver) -> None:
    path = f"/ok/budget/{store[:6]}"
    async with runtime(store, hook(receiver, path, "budget.reached")) as rt:
        for _ in range(2):
            await rt.notices.emit("budget.reached", {"limit_usd": 5}, key=["team", "2026-11"], at=1_794_800_000.0)
        await eventually(lambda: receiver.ids(path))
        await rt.call("pay", {"amount": 1})  # not wanted
        await rt.notices.emit("budget.reached", {"limit_usd": 5}, key=["team", "2026-11"], at=1_794_800_000.0)
    assert len(receiver.ids(path)) == 1


async def test_only_the_operator_sees_notices() -> None:
    async with make([pay], "memory://") as rt:
        assert (await rt.notices.list()).items == []
        with pytest.raises(PermissionDenied):
            await rt.acting_for("ann").notices.list()


async def test_without_webhooks_a_call_does_no_more_work() -> None:
    async with make([pay], "memory://") as rt:
        assert rt.engine.webhooks is None
        assert rt.observers.listeners == []
        assert rt.engine.hub.recorder is None


async def test_a_budget_that_is_reached_is_one_notice(sqlite: str, receiver: Receiver) -> None:
    spending = {"budgets": [{"scope": "all", "period": "month", "limit_tokens": 150, "on_reached": "warn"}]}
    async with runtime(sqlite, hook(receiver, "/budget", "budget.reached"), **spending) as rt:
        agent = ReActAgent(rt, ScriptedModel([_USES, _USES, _USES]), name="a", max_answer_tokens=100)
        for _ in range(3):
            await agent.run("go", thread="t")
        notice = await ended(rt)
        assert [each.id for each in (await rt.notices.list(type="budget.reached")).items] == [notice.id]
        sent = (await rt.notices.get(notice.id)).payload
        assert sent["data"]["budget"]["limit_tokens"] == 150
        assert (sent["data"]["thread"], sent["data"]["agent"]) == ("t", "a")


async def test_a_turn_that_waits_and_its_end_are_told(store: str, receiver: Receiver) -> None:
    asks = make(
        [pay], store, policy=Policy(ask=["pay"]), webhooks=[hook(receiver, "/turns", "turn.waiting", "turn.ended")]
    )
    async with asks as rt:
        agent = ReActAgent(rt, ScriptedModel([[("pay", '{"amount": 7}')], "paid"]), name="clerk")
        turn = await agent.begin("pay it", thread="t")

        async def told(type: str) -> dict[str, Any] | None:
            found = (await rt.notices.list(type=type)).items
            return (await rt.notices.get(found[0].id)).payload if found else None

        waits = await eventually(lambda: told("turn.waiting"))
        assert waits["data"]["turn"] == {"agent": "clerk", "thread": "t", "turn": turn, "caller": ""}
        assert waits["data"]["waiting_for"] == "approval"
        await rt.approve(waits["data"]["call"]["id"], thread="t")
        over = await eventually(lambda: told("turn.ended"))
        ended_as = {"agent": "clerk", "turn": turn, "state": "finished", "stopped": "finished", "steps": 2}
        assert ended_as.items() <= over["data"]["turn"].items()
        assert len((await rt.notices.list(type="turn.ended")).items) == 1  # its tool calls are no turns
