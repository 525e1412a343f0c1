"""Policy: allow, deny or ask. A call for which the policy asks waits, across restarts, until a person decides or it
times out."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound, make, states, types

from clicket import Condition, Policy, Rule, State, tool
from clicket.engine.lifecycle.stopping import Stopping
from clicket.kernel import ToolStatus
from clicket.testing import StepClock, with_clock


@pytest.fixture
def paid() -> list[int]:
    return []


@pytest.fixture
def pay(paid: list[int]) -> Any:
    @tool(tags="money", permissions=["spend"])
    async def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    return pay


ASK = Policy(ask=["pay"])


async def test_calls_under_approval_wait_and_run_when_approved(store: str, pay: Any, paid: list[int]) -> None:
    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {"amount": 5}, id="p")
        record = await rt.get("p")
        assert (record.state, record.waiting_for) == (State.PENDING, "approval")
        assert types(record)[-1] == "approval_requested"
        assert not paid
        assert await rt.approve("p", by="Ada", reason="fine")
        result = await handle.result()
        assert not await rt.approve("p")
        assert not await rt.deny("p")
        record = await rt.get("p")
    assert result.output == "paid 5"
    assert paid == [5]
    assert record.waiting_for is None
    [given] = [e.data for e in record.events if e.type == "approval_given"]
    assert given == {"approved": True, "by": "Ada", "reason": "fine"}
    assert states(record.events) == ["pending", "initializing", "running", "completed"]
    assert_sound(record)


async def test_denied_calls_never_run(store: str, pay: Any, paid: list[int]) -> None:
    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {"amount": 5})
        assert await rt.deny(handle.id, by="Bob", reason="too dear")
        result = await handle.result()
        record = await rt.get(handle.id)
    assert result.state is State.FAILED
    assert result.error is not None
    assert result.error.code == "approval_denied"
    assert "Bob" in result.error.message
    assert "too dear" in result.error.message
    assert not paid
    assert_sound(record)


async def test_the_approval_deadline_ends_the_call(store: str, pay: Any, paid: list[int]) -> None:
    async with make([pay], store, policy=Policy(ask=["pay"], approval_timeout=0.05)) as rt:
        result = await rt.call("pay", {"amount": 5})
        record = await rt.get(result.call_id)
    assert result.state is State.TIMEOUT
    assert result.metadata["phase"] == "approval"
    assert not paid
    assert record.waiting_for is None
    assert_sound(record)


async def test_cancel_and_deadline_reach_a_call_that_waits_for_approval(store: str, pay: Any, paid: list[int]) -> None:
    async with make([pay], store, policy=ASK) as rt:
        waiting = await rt.submit("pay", {"amount": 1})
        assert await waiting.cancel()
        assert (await waiting.result()).state is State.CANCELLED
        assert not await rt.approve(waiting.id)
        late = await rt.call("pay", {"amount": 2}, deadline=0.05)
        assert (late.state, late.metadata["phase"]) == (State.TIMEOUT, "deadline")
    assert not paid


@pytest.mark.parametrize("decide", ["approve", "deny"])
@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("deadline", [None, 60.0], ids=["timeout", "deadline"])
async def test_a_decision_while_the_approval_expires_counts_if_it_is_acknowledged(
    store: str, pay: Any, paid: list[int], decide: str, turns: int, deadline: float | None
) -> None:
    """`turns`: of the event loop, between the decision and the end of the approval's time, or of the call's."""
    clock = StepClock()
    policy = Policy(ask=["pay"], approval_timeout=60.0 if deadline is None else None)
    async with with_clock(make([pay], store, policy=policy), clock) as rt:
        handle = await rt.submit("pay", {"amount": 5}, id="p", deadline=deadline)
        deciding = asyncio.create_task(getattr(rt, decide)("p"))
        for _ in range(turns):
            await asyncio.sleep(0)
        clock.advance(61)
        counts = await asyncio.wait_for(deciding, PATIENCE)
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        assert_sound(await rt.get("p"))
    decided = State.COMPLETED if decide == "approve" else State.FAILED
    if not (deadline and decide == "approve"):  # an approved call may run out of time
        assert result.state is (decided if counts else State.TIMEOUT)
    assert result.state in (decided, State.TIMEOUT)
    assert paid == ([5] if result.success else [])


@pytest.mark.parametrize("deadline", [None, 0.05], ids=["timeout", "deadline"])
async def test_a_process_that_dies_after_it_has_closed_the_question(
    sqlite: str, pay: Any, paid: list[int], monkeypatch: pytest.MonkeyPatch, deadline: float | None
) -> None:
    """No decision is taken meanwhile, and the next process ends the call."""
    policy = Policy(ask=["pay"], approval_timeout=0.05 if deadline is None else None)
    closed = asyncio.Event()
    with monkeypatch.context() as patch:
        patch.setattr(Stopping, "_expire_soon", lambda *_: closed.set())
        async with make([pay], sqlite, policy=policy) as rt:
            await rt.submit("pay", {"amount": 5}, id="p", deadline=deadline)
            await closed.wait()
            assert await rt.approve("p") is False
    async with make([pay], sqlite, policy=policy) as rt:
        assert await rt.approve("p") is False
        result = await asyncio.wait_for((await rt.handle("p")).result(), PATIENCE)
        phase = "approval" if deadline is None else "deadline"
        assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, phase)
        assert_sound(await rt.get("p"))
    assert paid == []


async def test_an_approval_survives_a_restart(sqlite: str, pay: Any, paid: list[int]) -> None:
    async with make([pay], sqlite, policy=ASK) as rt:
        for id in ("yes", "no"):
            await rt.submit("pay", {"amount": 7}, id=id)
    async with make([pay], sqlite, policy=ASK) as rt:
        assert (await rt.get("yes")).waiting_for == "approval"
        assert (await rt.get("yes")).state is State.PENDING
        assert not paid
        handle = await rt.handle("yes")
        assert await rt.approve("yes")
        assert (await asyncio.wait_for(handle.result(), PATIENCE)).output == "paid 7"
        assert await rt.deny("no")
        record = await rt.get("no")
        assert record.error is not None
        assert record.error.code == "approval_denied"
        assert_sound(await rt.get("yes"))
    assert paid == [7]


async def test_the_approval_deadline_goes_on_across_a_restart(sqlite: str, pay: Any, paid: list[int]) -> None:
    policy = Policy(ask=["pay"], approval_timeout=0.3)
    asked = time.time()
    async with make([pay], sqlite, policy=policy) as rt:
        await rt.submit("pay", {"amount": 7}, id="p")
    async with make([pay], sqlite, policy=policy) as rt:
        result = await asyncio.wait_for((await rt.handle("p")).result(), PATIENCE)
    assert result.state is State.TIMEOUT
    assert time.time() - asked >= 0.3
    assert not paid


async def test_invalid_input_is_refused_before_an_approval_is_requested(store: str, pay: Any) -> None:
    async with make([pay], store, policy=ASK) as rt:
        result = await rt.call("pay", {"amount": "much"})
        record = await rt.get(result.call_id)
    assert result.error is not None
    assert result.error.code == "invalid_input"
    assert "approval_requested" not in types(record)


async def test_a_waiting_call_takes_no_slot(store: str, pay: Any) -> None:
    @tool
    async def quick() -> str:
        return "quick"

    async with make([pay, quick], store, policy=ASK, max_concurrency=1) as rt:
        handles = [await rt.submit("pay", {"amount": i}) for i in range(3)]
        assert (await rt.call("quick")).output == "quick"
        for handle in handles:
            assert await rt.approve(handle.id)
        assert all([(await h.result()).success for h in handles])


async def test_an_approved_call_is_not_refused_by_a_full_queue(store: str, pay: Any, paid: list[int]) -> None:
    gate = asyncio.Event()

    @tool
    async def hold() -> None:
        await gate.wait()

    async with make([pay, hold], store, policy=ASK, max_concurrency=1, max_queue=1) as rt:
        waiting = await rt.submit("pay", {"amount": 1})
        holders = [await rt.submit("hold") for _ in range(2)]
        assert await rt.approve(waiting.id)
        gate.set()
        for holder in holders:
            await holder.result()
        assert (await asyncio.wait_for(waiting.result(), PATIENCE)).success
        assert_sound(await rt.get(waiting.id))
    assert paid == [1]


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (Policy(deny=["pay"]), "permission_denied"),
        (Policy(deny=["p*"], allow=["pay"]), "permission_denied"),
        (Policy(deny=["tag:money"]), "permission_denied"),
        (Policy(default="deny"), "permission_denied"),
        (Policy(default="deny", allow=["pay"]), None),
        (Policy(deny=["other"]), None),
        (Policy(granted=[]), "permission_denied"),
        (Policy(granted=["spend", "more"]), None),
        (Policy(rule=lambda request: "deny"), "permission_denied"),
        (Policy(rule=lambda request: "allow", deny=["pay"]), None),
        (Policy(rule=lambda request: None, deny=["pay"]), "permission_denied"),
        (Policy(rule=lambda request: 1 / 0), "permission_denied"),
        (Policy(rule=lambda request: request.arguments["amount"] > 3 and "deny"), "permission_denied"),
        (Policy(rule=lambda request: "perhaps"), "permission_denied"),
        (Policy(rule=lambda request: True), "permission_denied"),
    ],
)
async def test_what_the_policy_says(store: str, pay: Any, paid: list[int], policy: Policy, code: str | None) -> None:
    async with make([pay], store, policy=policy) as rt:
        result = await rt.call("pay", {"amount": 5})
        record = await rt.get(result.call_id)
    assert (result.error.code if result.error else None) == code
    assert paid == ([5] if code is None else [])
    if code:
        assert result.stages["authorize"].outcome == code
        assert record.arguments is None
        assert record.refused is not None
        assert record.refused["reason"] == code


async def test_a_rule_sees_arguments_as_they_came_and_cannot_change_them(store: str, pay: Any, paid: list[int]) -> None:
    seen = []

    def rule(request: Any) -> Any:
        seen.append(request.arguments)
        return "allow"

    async with make([pay], store, policy=Policy(rule=rule)) as rt:
        assert (await rt.call("pay", '{"amount": 5}')).success
        assert not (await rt.call("pay", {"amount": float("nan")})).success
    assert seen[0] == '{"amount": 5}'
    assert paid == [5]


async def test_a_default_is_judged_like_what_was_sent(store: str) -> None:
    ran: list[int] = []

    @tool
    async def order(amount: int = 500, note: str | None = None) -> int:
        ran.append(amount)
        return amount

    big = Condition(path="/amount", op=">", value=100)
    noted = Condition(path="/note", op="!=", value=None)
    policy = Policy(rules=[Rule(verdict="deny", when=[big]), Rule(verdict="deny", when=[noted])])
    async with make([order], store, policy=policy) as rt:
        assert not (await rt.call("order", {})).success
        assert not (await rt.call("order")).success
        assert not (await rt.call("order", {"amount": 1, "note": "x"})).success
        assert (await rt.call("order", {"amount": 1})).success
    assert ran == [1]


async def test_rules_about_scopes_and_callers(store: str, pay: Any, paid: list[int]) -> None:
    policy = Policy(
        rules=[
            Rule(verdict="allow", scopes=["admin"]),
            Rule(verdict="deny", callers=["blocked-*"], reason="this key is blocked"),
            Rule(verdict="allow", callers=["k*"], threads=["till-*"]),
        ],
        default="deny",
        granted=["spend"],
    )
    async with make([pay], store, policy=policy) as rt:
        for caller, scopes, thread, wanted in (
            ("blocked-1", ["admin"], "t", True),
            ("blocked-1", ["call"], "till-1", False),
            ("k1", ["call"], "till-1", True),
            ("k1", ["call"], "t", False),
            ("other", [], "till-1", False),
        ):
            result = await rt.acting_for(caller, scopes).call("pay", {"amount": 1}, thread=thread)
            assert result.success is wanted, (caller, scopes, thread)
        assert (await rt.call("pay", {"amount": 1})).success is False
    assert len(paid) == 2


OTHER_POLICIES = (
    None,
    Policy(),
    Policy(deny=["something_else"]),
    Policy(ask=["something_else"]),
    Policy(allow=["*"]),
    Policy(rules=[Rule(verdict="deny", tools=["something_else"])]),
    Policy(rules=[Rule(verdict="allow")]),
    Policy(rule=lambda request: None),
    Policy(rule=lambda request: "allow"),
)


@pytest.mark.parametrize("policy", OTHER_POLICIES)
async def test_a_named_caller_has_only_its_scopes_whatever_the_policy(policy: Policy | None) -> None:
    @tool(permissions=["money"])
    async def transfer() -> str:
        return "done"

    async with make([transfer], policy=policy) as rt:
        assert (await rt.call("transfer")).success  # the program itself
        assert (await rt.acting_for("k1", ["admin"]).call("transfer")).success
        assert (await rt.acting_for("k1", ["call", "money"]).call("transfer")).success
        refused = await rt.acting_for("k1", ["call"]).call("transfer")
        assert refused.error is not None
        assert refused.error.code == "permission_denied"
        assert await rt.acting_for("k1", ["call"]).hub("t").available() == []


async def test_permissions_that_the_policy_grants_are_those_of_every_caller() -> None:
    @tool(permissions=["money"])
    async def transfer() -> str:
        return "done"

    async with make([transfer], policy=Policy(granted=["money"])) as rt:
        assert (await rt.acting_for("k1", ["call"]).call("transfer")).success
    async with make([transfer], policy=Policy(granted=[])) as rt:
        assert not (await rt.acting_for("k1", ["admin"]).call("transfer")).success


async def test_a_tool_that_is_always_denied_is_not_offered() -> None:
    @tool
    async def one(amount: int = 1) -> int:
        return amount

    @tool
    async def two() -> None: ...

    @tool
    async def three() -> None: ...

    rules = [
        Rule(verdict="deny", tools=["one"], when=[Condition(path="/amount", op=">", value=100)]),
        Rule(verdict="deny", tools=["two"], threads=["prod-*"], reason="not in production"),
    ]
    async with make([one, two, three], policy=Policy(rules=rules, deny=["three"])) as rt:
        assert await rt.hub("test").available() == ["one", "two"]
        assert await rt.hub("prod-1").available() == ["one"]
        views = {view.name: view for view in await rt.hub("prod-1").tools()}
        assert views["two"].reason == "the policy denies it: not in production"
        assert views["two"].status is ToolStatus.AVAILABLE
