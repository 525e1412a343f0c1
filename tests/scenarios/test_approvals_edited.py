"""A person may approve a call with other arguments. clicket validates and authorizes them again and runs them; both
versions are recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound, make
from tests.scenarios.process_tools import add

from clicket import Condition, Conflict, Policy, Rule, Runtime, State, ToolContext, tool
from clicket.errors import InvalidInput, NotFound, PermissionDenied
from clicket.testing import StepClock, memory_runtime

ASK = Policy(ask=["pay", "add", "look_up"])


@pytest.fixture
def paid() -> list[Any]:
    return []


@pytest.fixture
def pay(paid: list[Any]) -> Any:
    @tool(tags="money")
    async def pay(amount: int, to: list[str] = []) -> str:  # noqa: B006  # nobody changes it
        paid.append((amount, to))
        return f"paid {amount}"

    return pay


async def test_a_call_runs_with_the_arguments_that_were_approved(store: str, pay: Any, paid: list[Any]) -> None:
    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {"amount": 500, "to": ["eve"]}, id="p")
        waiting = await rt.get("p")
        assert await rt.approve("p", by="Ada", reason="less", arguments={"amount": 5, "to": ["ann"]})
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        record = await rt.get("p")
    assert result.output == "paid 5"
    assert paid == [(5, ["ann"])]
    assert waiting.arguments == {"amount": 500, "to": ["eve"]}
    assert record.arguments == {"amount": 5, "to": ["ann"]}
    assert record.events[0].data["arguments"] == {"amount": 500, "to": ["eve"]}
    [given] = [event.data for event in record.events if event.type == "approval_given"]
    assert given == {"approved": True, "by": "Ada", "reason": "less", "arguments": {"amount": 5, "to": ["ann"]}}
    assert_sound(record)


async def test_the_record_has_the_approval_request_and_the_decision(store: str, pay: Any) -> None:
    rule = Rule(verdict="ask", tools=["pay"], reason="payments", timeout=50)
    async with make([pay], store, policy=Policy(rules=[rule])) as rt:
        handle = await rt.submit("pay", {"amount": 1}, id="p")
        asked = (await rt.get("p")).approval
        assert asked is not None
        assert asked["deadline"] == pytest.approx(asked["requested_at"] + 50)
        assert asked == {
            "why": "payments", "purpose": "run", "requested_at": asked["requested_at"], "deadline": asked["deadline"],
            "approved": None, "by": "", "reason": "", "at": None, "edited": False, "hash": asked["hash"],
            "approvers": 1, "approvals": [], "self_approval": False, "grant": None, "responded": False,
        }  # fmt: skip
        [listed] = (await rt.history(waiting_for="approval")).items
        assert listed.approval == asked
        assert await rt.approve("p", by="Ada", reason="fine", arguments='{"amount": 2}')
        await asyncio.wait_for(handle.result(), PATIENCE)
        record = await rt.get("p")
        stored = (await rt.history()).items[0].approval
    assert record.approval is not None
    assert record.approval["at"] >= asked["requested_at"]
    approvals = [{"by": "Ada", "reason": "fine", "at": record.approval["at"]}]
    assert record.approval == {
        **asked, "approvals": approvals, "approved": True, "by": "Ada", "reason": "fine", "edited": True, "at": record.approval["at"],
    }  # fmt: skip
    assert stored == record.approval


async def test_arguments_that_are_the_same_are_no_edit(store: str, pay: Any) -> None:
    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {"amount": 1}, id="p")
        assert await rt.approve("p", arguments={"amount": 1.0})
        assert (await asyncio.wait_for(handle.result(), PATIENCE)).success
        record = await rt.get("p")
    assert record.approval is not None
    assert record.approval["edited"] is False


@pytest.mark.parametrize(
    "edited",
    [
        {"amount": "much"},
        {"amount": 1, "more": 2},
        {},
        "{",
        '{"amount": 1, "amount": 2}',
        {"amount": float("nan")},
        [1],
    ],
)
async def test_arguments_that_do_not_fit_are_refused_and_the_call_goes_on_waiting(
    store: str, pay: Any, paid: list[Any], edited: Any
) -> None:
    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {"amount": 1}, id="p")
        with pytest.raises(InvalidInput):
            await rt.approve("p", arguments=edited)
        assert (await rt.get("p")).waiting_for == "approval"
        assert not paid
        assert await rt.approve("p", arguments={"amount": 2})
        assert (await asyncio.wait_for(handle.result(), PATIENCE)).output == "paid 2"
        with pytest.raises(NotFound):
            await rt.approve("nobody", arguments={"amount": 2})
        assert not await rt.approve("p", arguments={"amount": 3})
        assert not await rt.approve("p", arguments=edited)
    assert paid == [(2, [])]


async def test_the_policy_denies_edited_arguments_as_it_would_have_denied_the_first(
    store: str, pay: Any, paid: list[Any]
) -> None:
    policy = Policy(
        rules=[
            Rule(
                verdict="deny", tags=["money"], when=[Condition(path="/amount", op=">", value=1_000)], reason="too much"
            ),
            Rule(verdict="ask", tools=["pay"]),
        ]
    )
    async with make([pay], store, policy=policy) as rt:
        handle = await rt.submit("pay", {"amount": 1}, id="p")
        with pytest.raises(PermissionDenied, match="too much"):
            await rt.approve("p", arguments={"amount": 5_000})
        assert (await rt.get("p")).waiting_for == "approval"
        assert await rt.approve("p", arguments={"amount": 1_000})
        assert (await asyncio.wait_for(handle.result(), PATIENCE)).success
    assert paid == [(1_000, [])]


async def test_scopes_count_for_edited_arguments_too_also_after_a_restart(
    sqlite: str, pay: Any, paid: list[Any]
) -> None:
    big = Condition(path="/amount", op=">", value=10)
    policy = Policy(
        rules=[
            Rule(verdict="ask", scopes=["admin"]),
            Rule(verdict="deny", when=[big]),
            Rule(verdict="ask"),
        ]
    )
    async with make([pay], sqlite, policy=policy) as rt:
        await rt.acting_for("boss", ["admin"]).submit("pay", {"amount": 1}, id="boss")
        await rt.acting_for("clerk", ["call"]).submit("pay", {"amount": 1}, id="clerk")
        refused = await rt.acting_for("clerk", ["call"]).call("pay", {"amount": 11})
        assert refused.error is not None
        assert refused.error.code == "permission_denied"
    async with make([pay], sqlite, policy=policy) as rt:
        with pytest.raises(PermissionDenied):
            await rt.approve("clerk", arguments={"amount": 11})
        handle = await rt.handle("boss")
        assert await rt.approve("boss", arguments={"amount": 11})
        assert (await asyncio.wait_for(handle.result(), PATIENCE)).success
    assert paid == [(11, [])]


async def test_the_id_stands_for_the_first_arguments(store: str, pay: Any) -> None:
    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {"amount": 500}, id="p")
        assert await rt.approve("p", arguments={"amount": 5})
        await asyncio.wait_for(handle.result(), PATIENCE)
        again = await rt.call("pay", {"amount": 500}, id="p")
        assert again.output == "paid 5"
        with pytest.raises(Conflict):
            await rt.call("pay", {"amount": 5}, id="p")


async def test_the_first_decision_wins(sqlite: str, pay: Any, paid: list[Any]) -> None:
    async with make([pay], sqlite, policy=ASK) as rt, make([], sqlite) as other:
        handle = await rt.submit("pay", {"amount": 1}, id="p")
        words = await asyncio.gather(
            rt.approve("p", arguments={"amount": 2}), other.approve("p", arguments={"amount": 3}), other.deny("p")
        )
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        record = await rt.get("p")
    assert sorted(words) == [False, False, True]
    assert len([event for event in record.events if event.type == "approval_given"]) == 1
    wanted = [[(2, [])], [(3, [])], []][words.index(True)]
    assert paid == wanted
    assert result.success is bool(wanted)


async def test_an_edit_survives_a_restart(sqlite: str, pay: Any, paid: list[Any]) -> None:
    async with make([pay], sqlite, policy=ASK) as rt:
        await rt.submit("pay", {"amount": 500}, id="p")
    async with make([], sqlite) as approver:  # has no tools, so it can neither check nor run it
        assert await approver.approve("p", by="Ada", arguments={"amount": 5})
        assert not paid
    async with make([pay], sqlite, policy=ASK) as rt:
        result = await asyncio.wait_for((await rt.handle("p")).result(), PATIENCE)
        record = await rt.get("p")
    assert result.output == "paid 5"
    assert paid == [(5, [])]
    assert record.arguments == {"amount": 5}
    assert_sound(record)


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(
    ("edited", "code"), [({"amount": 1, "x": 1}, "invalid_input"), ({"amount": 99}, "permission_denied")]
)
async def test_the_running_process_judges_what_the_approver_could_not(
    sqlite: str, pay: Any, paid: list[Any], live: bool, edited: Any, code: str
) -> None:
    big = Rule(verdict="deny", when=[Condition(path="/amount", op=">", value=50)])
    policy = Policy(rules=[big, Rule(verdict="ask")])

    async def approve() -> None:
        async with make([], sqlite) as approver:
            assert await approver.approve("p", by="Ada", arguments=edited)

    async with make([pay], sqlite, policy=policy) as rt:
        handle = await rt.submit("pay", {"amount": 1}, id="p")
        if live:
            await approve()
            result = await asyncio.wait_for(handle.result(), PATIENCE)
    if not live:
        await approve()
        async with make([pay], sqlite, policy=policy) as rt:
            result = await asyncio.wait_for((await rt.handle("p")).result(), PATIENCE)
    assert result.state is State.FAILED
    assert result.error is not None
    assert result.error.code == code
    assert "Ada" in result.error.message
    assert not paid


async def test_workers_run_what_was_approved(sqlite: str, pay: Any, paid: list[Any]) -> None:
    async with make([pay], sqlite, policy=ASK, engine="workers") as front, make([pay], sqlite) as worker:
        handle = await front.submit("pay", {"amount": 500}, id="p")
        with pytest.raises(InvalidInput):
            await front.approve("p", arguments={"amount": "x"})
        assert await front.approve("p", arguments={"amount": 5})
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        assert (await worker.get("p")).arguments == {"amount": 5}
    assert result.output == "paid 5"
    assert paid == [(5, [])]


async def test_a_rules_own_timeout_ends_a_call_that_was_given_away(sqlite: str, pay: Any) -> None:
    policy = Policy(rules=[Rule(verdict="ask", timeout=0.1)])
    async with make([pay], sqlite, policy=policy, engine="workers") as front:
        result = await asyncio.wait_for(front.call("pay", {"amount": 1}), PATIENCE)
    assert result.state is State.TIMEOUT
    assert result.metadata["phase"] == "approval"


async def test_the_process_lane_gets_the_edited_arguments(store: str) -> None:
    async with make([add], store, policy=ASK) as rt:
        handle = await rt.submit("add", {"a": 1, "b": 1}, id="p")
        assert await rt.approve("p", arguments={"a": 20, "b": 22})
        assert (await asyncio.wait_for(handle.result(), PATIENCE)).output == 42


async def test_the_cache_key_uses_the_edited_arguments(store: str) -> None:
    ran: list[int] = []

    @tool(read_only=True, cache=60)
    async def look_up(n: int) -> int:
        ran.append(n)
        return n

    async with make([look_up], store, policy=ASK) as rt:
        for id, sent, edited in (("a", 1, 7), ("b", 2, 7), ("c", 1, None), ("d", 3, 1)):
            handle = await rt.submit("look_up", {"n": sent}, id=id)
            assert await rt.approve(id, arguments=None if edited is None else {"n": edited})
            result = await asyncio.wait_for(handle.result(), PATIENCE)
            assert result.output == (edited or sent)
            assert result.cached is (id in "bd")
    assert ran == [7, 1]


async def test_what_a_tool_does_to_edited_arguments_is_not_on_record(store: str) -> None:
    @tool
    async def eat(items: list[int]) -> int:
        items.clear()
        return len(items)

    async with make([eat], store, policy=Policy(ask=["eat"])) as rt:
        handle = await rt.submit("eat", {"items": [1]}, id="p")
        assert await rt.approve("p", arguments={"items": [1, 2, 3]})
        await asyncio.wait_for(handle.result(), PATIENCE)
        assert (await rt.get("p")).arguments == {"items": [1, 2, 3]}


async def test_a_rerun_after_recovery_may_have_other_arguments(sqlite: str, tmp_path: Path) -> None:
    started = asyncio.Event()
    got: list[tuple[int, int]] = []

    @tool(recovery="ask")
    async def risky(n: int, ctx: ToolContext) -> int:
        got.append((ctx.attempt, n))
        started.set()
        if ctx.attempt == 1:
            await asyncio.sleep(600)
        return n

    rt = await Runtime([risky], settings=make([], sqlite, close_timeout=0.05).settings).open()
    await rt.submit("risky", {"n": 1}, id="p")
    await started.wait()
    await rt.close(patience=0)
    async with make([risky], sqlite) as again:
        asked = await eventually(lambda: _asked(again))
        assert asked["purpose"] == "recovery"
        assert "attempt 1" in asked["why"]
        handle = await again.handle("p")
        assert await again.approve("p", arguments={"n": 2})
        assert (await asyncio.wait_for(handle.result(), PATIENCE)).output == 2
    assert got == [(1, 1), (2, 2)]


async def _asked(rt: Runtime) -> Any:
    record = await rt.get("p")
    return record.approval if record.waiting_for == "approval" else None


async def test_the_deadline_is_the_rules_own(pay: Any) -> None:
    clock = StepClock()
    policy = Policy(rules=[Rule(verdict="ask", tools=["pay"], timeout=30)], approval_timeout=3_600)
    async with memory_runtime([pay], clock=clock, policy=policy) as rt:
        handle = await rt.submit("pay", {"amount": 1})
        clock.advance(29)
        assert (await rt.get(handle.id)).waiting_for == "approval"
        clock.advance(2)
        assert (await handle.result()).state is State.TIMEOUT


class Shifty(Mapping[str, Any]):
    """Small for so many reads, and big afterwards."""

    def __init__(self, small: int) -> None:
        self._left = small

    def __getitem__(self, key: str) -> Any:
        self._left -= 1
        return 1 if self._left >= 0 else 1_000_000

    def __iter__(self) -> Iterator[str]:
        return iter(("amount",))

    def __len__(self) -> int:
        return 1


async def test_what_was_judged_is_what_runs(store: str, pay: Any, paid: list[Any]) -> None:
    policy = Policy(rules=[Rule(verdict="deny", when=[Condition(path="/amount", op=">", value=100)])])
    async with make([pay], store, policy=policy) as rt:
        for small in range(12):
            await rt.call("pay", Shifty(small))
        for plain in ({"amount": 1_000_000}, '{"amount": 1000000}'):
            assert not (await rt.call("pay", plain)).success
    assert paid
    assert all(amount == 1 for amount, _ in paid)
