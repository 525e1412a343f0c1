"""Approvals that people give: for later calls, in the tool's place, together with another person, and never for their own calls."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound, make, types

from clicket import Condition, Policy, Rule, Runtime, State, tool
from clicket.agents import ReActAgent
from clicket.engine.people.grants import Grants as EngineGrants
from clicket.errors import Conflict, InvalidInput, NotFound, PermissionDenied, QueueFull, UsageError
from clicket.sync import Runtime as BlockingRuntime
from clicket.testing import ScriptedModel

ASK = Policy(ask=["pay"])


class Receipt(msgspec.Struct):
    number: int


@pytest.fixture
def paid() -> list[int]:
    return []


@pytest.fixture
def pay(paid: list[int]) -> Any:
    @tool(cache=60.0)
    async def pay(amount: int = 500, to: str = "") -> str:
        paid.append(amount)
        return f"paid {amount}"

    return pay


async def waits(rt: Runtime, amount: int = 1, **names: Any) -> bool:
    """Does such a call wait for a person?"""
    handle = await rt.submit("pay", {"amount": amount}, **names)
    record = await rt.get(handle.id, thread=names.get("thread"))
    if record.waiting_for is None:
        await handle.result()
    return record.waiting_for == "approval"


async def grant(rt: Runtime, terms: Any, *, by: str = "Ada", amount: int = 1, **names: Any) -> str:
    handle = await rt.submit("pay", {"amount": amount}, **names)
    assert await rt.approve(handle.id, thread=names.get("thread"), by=by, grant=terms)
    await handle.result()
    given = (await rt.get(handle.id, thread=names.get("thread"))).approval
    assert given is not None
    return str(given["grant"])


# Grants.


async def test_a_grant_is_for_the_version_of_the_tool_that_was_asked_about(sqlite: str) -> None:
    def pay(version: str) -> Any:
        async def paid(amount: int = 500) -> str:
            return f"paid {amount} by {version}"

        return tool(paid, name="pay", version=version) if version else tool(paid, name="pay")

    async with make([pay("")], sqlite, policy=ASK) as rt:
        await grant(rt, {"uses": 10})
    for version, asks in (("2", True), ("", False), ("1", False)):  # without a version it is the first
        async with make([pay(version)], sqlite, policy=ASK) as rt:
            assert await waits(rt) is asks, version
            assert [(each.version, each.used) for each in await rt.grants.list()] == [
                ("1", 0 if asks else 1 + (version == "1"))
            ]


async def test_later_calls_run_without_a_person_and_say_which_grant_let_them(store: str, pay: Any) -> None:
    async with make([pay], store, policy=ASK) as rt:
        id = await grant(rt, {"uses": 1, "seconds": 60, "arguments": {"properties": {"amount": {"maximum": 10}}}})
        assert await waits(rt, 11)
        assert (await rt.call("pay", {"amount": 7})).output == "paid 7"
        [record] = [each for each in (await rt.history()).items if each.arguments == {"amount": 7}]
        assert await waits(rt, 8), "it was used"
        [listed] = await rt.grants.list()
        entries = {entry.what: entry for entry in await rt.audit.list()}
    assert record.approval is not None
    assert (record.approval["approved"], record.approval["grant"], record.approval["by"]) == (True, id, "Ada")
    [given] = [event.data for event in record.events if event.type == "approval_given"]
    assert given["grant"] == id
    assert types(record).index("approval_given") == types(record).index("approval_requested") + 1
    assert_sound(record)
    assert (listed.id, listed.used, listed.state, listed.by, listed.tool) == (id, 1, "used_up", "Ada", "pay")
    assert entries["grant.used"].details["call"] == record.id
    assert entries["call.approved"].details["grant"] == id


async def test_revoked_grants_let_no_call_run(store: str, pay: Any) -> None:
    async with make([pay], store, policy=ASK) as rt:
        id = await grant(rt, {})
        assert not await waits(rt)
        assert (await rt.grants.revoke(id, by="Bob")).revoked_by == "Bob"
        assert await waits(rt, 2)
        assert await rt.grants.list(state="active") == []
        assert [each.id for each in await rt.grants.list(tool="pay")] == [id]
        assert await rt.grants.list(tool="mail") == []
        assert (await rt.audit.list(limit=1))[0].what == "grant.revoked"
        with pytest.raises(NotFound):
            await rt.grants.revoke("gr_none")


async def test_a_caller_sees_its_own_grants_and_revokes_none(store: str, pay: Any) -> None:
    async with make([pay], store, policy=ASK) as rt:
        ann, bob = rt.acting_for("ann"), rt.acting_for("bob")
        handle = await ann.submit("pay", {"amount": 1})
        assert await rt.approve(handle.id, by="boss", grant={})
        assert (len(await ann.grants.list()), len(await bob.grants.list())) == (1, 0)
        assert not await waits(ann, 2)
        assert await waits(bob)
        with pytest.raises(PermissionDenied):
            await ann.grants.revoke((await rt.grants.list())[0].id)


async def test_deny_wins_over_every_grant(store: str, pay: Any, paid: list[int]) -> None:
    never = Rule(verdict="deny", tools=["pay"], when=[Condition(path="/amount", op=">", value=100)])
    async with make([pay], store, policy=Policy(rules=[never], ask=["pay"])) as rt:
        await grant(rt, {})
        result = await rt.call("pay", {"amount": 101})
        assert result.error is not None
        assert result.error.code == "permission_denied"
        assert (await rt.call("pay", {})).error is not None, "its default is above 100, too"
    assert paid == [1]


async def test_a_grant_that_cannot_be_given_changes_nothing(store: str, pay: Any) -> None:
    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {"amount": 1})
        for terms, wrong in (
            ({"use": 1}, "uses"),
            ({"arguments": {"type": 1}}, "schema"),
            ({"seconds": -1}, "seconds"),
        ):
            with pytest.raises(UsageError, match=wrong):
                await rt.approve(handle.id, grant=terms)  # type: ignore[arg-type]
        assert (await rt.get(handle.id)).waiting_for == "approval"
        assert await rt.grants.list() == []
        with pytest.raises(Conflict):
            await rt.approve(handle.id, seen="0" * 64, grant={})
        assert await rt.deny(handle.id)
        assert not await rt.approve(handle.id, grant={})
        assert await rt.grants.list() == []


async def test_a_grant_has_no_secret_in_it(store: str) -> None:
    @tool(sensitive=["key"])
    async def pay(key: str) -> str:
        return "paid"

    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {"key": "hunter2hunter2"})
        with pytest.raises(UsageError, match="secret"):
            await rt.approve(handle.id, grant={"arguments": {"properties": {"key": {"const": "hunter2hunter2"}}}})
        assert await rt.approve(handle.id, grant={"arguments": {"properties": {"key": {"minLength": 3}}}})
        assert (await rt.call("pay", {"key": "anotherkey99"})).success


async def test_the_same_call_made_again_uses_the_grant_once(store: str, pay: Any) -> None:
    async with make([pay], store, policy=ASK) as rt:
        await grant(rt, {"uses": 2})
        for _ in range(3):
            assert (await rt.call("pay", {"amount": 3}, id="same")).success
        assert [each.used for each in await rt.grants.list()] == [1]


async def test_calls_that_other_processes_run_use_grants_too(pay: Any, tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'calls.db'}"
    async with make([pay], url, policy=ASK, engine="workers") as rt, make([pay], url, policy=ASK):
        first = await rt.submit("pay", {"amount": 1})
        assert await rt.approve(first.id, by="Ada", grant={"uses": 1})
        assert (await asyncio.wait_for(rt.call("pay", {"amount": 2}), PATIENCE)).output == "paid 2"
        third = await rt.submit("pay", {"amount": 3})
        assert (await rt.get(third.id)).waiting_for == "approval"
        assert await rt.respond(third.id, "not today", by="Ada")
        result = await asyncio.wait_for(third.result(), PATIENCE)
    assert (result.output, result.metadata["answered_by"]) == ("not today", "Ada")


def test_without_an_event_loop(pay: Any) -> None:
    with BlockingRuntime([pay], store="memory://", policy=ASK) as rt:
        handle = rt.submit("pay", {"amount": 1})
        assert rt.approve(handle.id, grant={"uses": 1})
        assert rt.call("pay", {"amount": 2}).success
        [given] = rt.grants.list()
        assert rt.grants.revoke(given.id).state == "revoked"
        asked = rt.submit("pay", {"amount": 3})
        assert rt.respond(asked.id, {"no": True}, by="Ada")
        assert asked.result().output == {"no": True}


# Answers.


async def test_a_person_answers_in_the_tools_place(store: str, pay: Any, paid: list[int]) -> None:
    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {"amount": 1}, metadata={"answered_by": "me", "order": 7})
        seen = ((await rt.get(handle.id)).approval or {})["hash"]
        assert await rt.respond(handle.id, {"receipt": 5}, by="Ada", reason="paid by hand", seen=seen)
        result = await handle.result()
        assert not await rt.respond(handle.id, "again")
        record = await rt.get(handle.id)
        assert await waits(rt, 1), "an answer is not cached"
        health = await rt.hub().status("pay")
        report = await rt.report()
    assert (result.state, result.output, result.content) == (State.COMPLETED, {"receipt": 5}, '{"receipt":5}')
    assert result.metadata == {"answered_by": "Ada", "order": 7} == record.metadata
    assert not paid
    assert record.attempts == []
    assert record.stages["execute"].outcome == "answered"
    assert record.approval is not None
    assert (record.approval["responded"], record.approval["by"]) == (True, "Ada")
    assert_sound(record)
    assert health.failures == 0
    assert report.totals.total == 1


async def test_an_answer_fits_the_output_schema(store: str) -> None:
    @tool
    async def pay() -> Receipt:
        return Receipt(1)

    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {})
        with pytest.raises(InvalidInput, match="number"):
            await rt.respond(handle.id, {"number": "five"})
        with pytest.raises(UsageError, match="cannot be recorded"):
            await rt.respond(handle.id, object())
        with pytest.raises(UsageError, match="put_artifact"):
            await rt.respond(handle.id, {"number": 1, "text": "x" * 2_000_000})
        assert (await rt.get(handle.id)).waiting_for == "approval"
        assert await rt.respond(handle.id, {"number": 5})
        assert (await handle.result()).output == {"number": 5}


async def test_a_long_answer_is_cut_and_kept_whole(store: str) -> None:
    @tool(max_result_size=1_000)
    async def pay() -> str:
        return ""

    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {})
        assert await rt.respond(handle.id, "word " * 2_000, by="Ada")
        result = await handle.result()
        assert result.truncated
        assert result.artifact is not None
        assert await rt.artifact(result.artifact) == b"word " * 2_000
        assert result.metadata["answered_by"] == "Ada"


async def test_an_answer_has_its_secrets_masked(store: str) -> None:
    @tool(sensitive=["key"])
    async def pay(key: str) -> str:
        return ""

    async with make([pay], store, policy=ASK) as rt:
        handle = await rt.submit("pay", {"key": "hunter2hunter2"})
        assert await rt.respond(handle.id, "the key is hunter2hunter2", by="Ada")
        result = await handle.result()
        record = await rt.get(handle.id)
    assert "hunter2hunter2" not in repr(record.events) + str(result.output)


async def test_the_turn_of_an_agent_goes_on_with_the_answer(pay: Any) -> None:
    rt = make([pay], "memory://", policy=ASK)
    model = ScriptedModel([[("pay", {"amount": 3})], "Done."])
    agent = ReActAgent(rt, model)
    async with rt:
        turn = asyncio.create_task(agent.run("Pay three.", thread="t"))
        while not (asked := (await rt.history(waiting_for="approval")).items):
            await asyncio.sleep(0.01)
        assert await rt.respond(asked[0].id, "already paid", thread="t", by="Ada")
        result = await asyncio.wait_for(turn, PATIENCE)
    assert result.text == "Done."
    assert "already paid" in repr(model.requests[-1].messages)


# Who.


async def test_the_caller_does_not_approve_its_own_call(store: str, pay: Any, paid: list[int]) -> None:
    async with make([pay], store, policy=ASK) as rt:
        ann = rt.acting_for("ann")
        handle = await ann.submit("pay", {"amount": 1})
        for decide in (ann.approve(handle.id), rt.approve(handle.id, by="ann"), rt.respond(handle.id, 1, by="ann")):
            with pytest.raises(PermissionDenied, match="another person"):
                await decide
        result = await rt.bulk("approve", [handle.id], by="ann")
        assert (result.done, [failure.code for failure in result.failures]) == (0, ["permission_denied"])
        assert (await rt.bulk("approve", [handle.id], by="bob")).done == 1
        assert (await handle.result()).success
        second = await ann.submit("pay", {"amount": 2})
        assert await ann.deny(second.id), "anybody may take a call back"
    assert paid == [1]


async def test_a_policy_may_allow_it_and_a_program_without_callers_needs_nothing(store: str, pay: Any) -> None:
    rules = [Rule(verdict="ask", tools=["pay"], self_approval=True)]
    async with make([pay], store, policy=Policy(rules=rules)) as rt:
        ann = rt.acting_for("ann")
        handle = await ann.submit("pay", {"amount": 1})
        assert await ann.approve(handle.id)
        own = await rt.submit("pay", {"amount": 2})
        assert await rt.approve(own.id)


async def test_nested_calls_are_of_the_same_caller(store: str, pay: Any) -> None:
    async with make([pay], store, policy=ASK) as rt:
        model = ScriptedModel([[("pay", {"amount": 3})], "Done."])
        agent = ReActAgent(rt, model)
        helper = ScriptedModel([[("helper", {"task": "pay"})], "Done."])
        rt.add(agent.as_tool("helper", "Pays."))
        boss = ReActAgent(rt, helper, name="boss")
        turn = asyncio.create_task(boss.acting_for(rt.acting_for("ann")).run("Pay.", thread="t"))
        while not (asked := (await rt.history(waiting_for="approval")).items):
            await asyncio.sleep(0.01)
        assert asked[0].caller == "ann"
        with pytest.raises(PermissionDenied):
            await rt.acting_for("ann").approve(asked[0].id, thread=asked[0].thread)
        assert await rt.approve(asked[0].id, thread=asked[0].thread, by="bob")
        await asyncio.wait_for(turn, PATIENCE)


async def test_two_people(store: str, pay: Any, paid: list[int]) -> None:
    rules = [Rule(verdict="ask", tools=["pay"], approvers=2)]
    async with make([pay], store, policy=Policy(rules=rules)) as rt:
        handle = await rt.submit("pay", {"amount": 1})
        hash = ((await rt.get(handle.id)).approval or {})["hash"]
        with pytest.raises(UsageError, match="named"):
            await rt.approve(handle.id)
        for more, wrong in (({"arguments": {"amount": 2}}, "same arguments"), ({"grant": {}}, "granted")):
            with pytest.raises(UsageError, match=wrong):
                await rt.approve(handle.id, by="Ada", **more)  # type: ignore[arg-type]
        assert await rt.approve(handle.id, by="Ada", seen=hash)
        record = await rt.get(handle.id)
        assert record.waiting_for == "approval"
        assert record.approval is not None
        assert [each["by"] for each in record.approval["approvals"]] == ["Ada"]
        assert (record.approval["approved"], record.approval["hash"]) == (None, hash)
        [listed] = (await rt.history(waiting_for="approval")).items
        assert listed.id == handle.id
        assert not paid
        with pytest.raises(Conflict, match="already"):
            await rt.approve(handle.id, by="Ada")
        assert await rt.approve(handle.id, by="Bob", seen=hash)
        assert (await handle.result()).output == "paid 1"
        record = await rt.get(handle.id)
        denied = await rt.submit("pay", {"amount": 2})
        assert await rt.approve(denied.id, by="Ada")
        assert await rt.deny(denied.id, by="Bob")
        assert (await denied.result()).error is not None
    assert_sound(record)
    assert paid == [1]


async def test_two_approvals_of_one_person_at_once_are_one(store: str, pay: Any, paid: list[int]) -> None:
    async with make([pay], store, policy=Policy(ask=["pay"], approvers=2)) as rt:
        handle = await rt.submit("pay", {"amount": 1})
        results = await asyncio.gather(*(rt.approve(handle.id, by="Ada") for _ in range(4)), return_exceptions=True)
        assert any(result is True for result in results)
        record = await rt.get(handle.id)
        assert record.waiting_for == "approval"
        assert not paid
        assert await rt.approve(handle.id, by="Bob")
        assert (await handle.result()).success
    assert paid == [1]


async def test_the_first_approval_survives_a_restart(tmp_path: Any, pay: Any, paid: list[int]) -> None:
    url, policy = f"sqlite:///{tmp_path / 'calls.db'}", Policy(ask=["pay"], approvers=2)
    async with make([pay], url, policy=policy) as rt:
        await rt.submit("pay", {"amount": 1}, id="p")
        assert await rt.approve("p", by="Ada")
    async with make([pay], url, policy=policy) as rt:
        assert (await rt.get("p")).waiting_for == "approval"
        with pytest.raises(Conflict):
            await rt.approve("p", by="Ada")
        assert await rt.approve("p", by="Bob")
        assert (await (await rt.handle("p")).result()).success
    assert paid == [1]


@pytest.mark.parametrize(
    "wrong",
    [{"approvers": 0}, {"approvers": True}, {"approvers": 11}, {"self_approval": 1}, {"approvers": "2"}],
)
def test_policies_that_are_none(wrong: Any) -> None:
    with pytest.raises(UsageError):
        Policy(**wrong)
    with pytest.raises(UsageError):
        Rule(verdict="ask", **wrong)
    with pytest.raises(UsageError, match="rules that ask"):
        Rule(verdict="deny", approvers=2)


# While the store is asked for grants.


@pytest.fixture
def slow_grants(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Grants are found, and used, only after the event."""
    found, use = asyncio.Event(), EngineGrants.use

    async def slow(self: EngineGrants, call: Any) -> Any:
        used = await use(self, call)
        await found.wait()
        return used

    monkeypatch.setattr(EngineGrants, "use", slow)
    return found


async def test_a_call_that_is_cancelled_or_late_meanwhile_does_not_run(
    store: str, pay: Any, paid: list[int], slow_grants: asyncio.Event
) -> None:
    async with make([pay], store, policy=ASK) as rt:
        first = asyncio.create_task(rt.submit("pay", {"amount": 1}, id="first"))
        slow_grants.set()
        assert await rt.approve((await first).id, grant={})
        await (await rt.handle("first")).result()
        slow_grants.clear()
        left = asyncio.create_task(rt.call("pay", {"amount": 2}, id="left"))
        late = asyncio.create_task(rt.call("pay", {"amount": 3}, id="late", deadline=0.05))
        assert (await late).state is State.TIMEOUT
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        assert (await rt.get("left")).state is State.CANCELLED
        slow_grants.set()
        await asyncio.sleep(0)
        for id in ("left", "late"):
            assert_sound(await rt.get(id))
    assert paid == [1]


@pytest.mark.parametrize("approves", [False, True])
async def test_a_person_who_decides_meanwhile_is_the_one_who_decided(
    tmp_path: Any, pay: Any, paid: list[int], slow_grants: asyncio.Event, approves: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'calls.db'}"
    async with make([pay], url, policy=ASK) as rt, make([pay], url, policy=ASK) as other:
        slow_grants.set()
        await grant(rt, {})
        slow_grants.clear()
        first = asyncio.create_task(rt.submit("pay", {"amount": 2}, id="seen"))
        await asyncio.sleep(0)
        handle = await rt.submit("pay", {"amount": 2}, id="seen")  # stores the question
        decide = other.approve if approves else other.deny
        assert await decide("seen", by="Bea")
        slow_grants.set()
        result = await handle.result()
        await first
        record = await rt.get("seen")
        assert [event.data["by"] for event in record.events if event.type == "approval_given"] == ["Bea"]
        assert result.success is approves
        assert_sound(record)
    assert paid == [1, 2][: 1 + approves]


async def test_a_runtime_that_closes_meanwhile_leaves_the_question(
    tmp_path: Any, pay: Any, paid: list[int], slow_grants: asyncio.Event
) -> None:
    url = f"sqlite:///{tmp_path / 'calls.db'}"
    async with make([pay], url, policy=ASK, close_timeout=0.1) as rt:
        slow_grants.set()
        await grant(rt, {})
        slow_grants.clear()
        waiting = asyncio.create_task(rt.submit("pay", {"amount": 2}, id="open"))
        await asyncio.sleep(0.05)
        asyncio.get_running_loop().call_later(0.3, slow_grants.set)
    await asyncio.gather(waiting, return_exceptions=True)
    async with make([pay], url, policy=ASK) as rt:
        left = [record for record in (await rt.history()).items if record.id == "open"]
        assert [record.waiting_for for record in left] in ([], ["approval"])
    assert paid == [1]


async def test_a_full_queue_refuses_a_granted_call(pay: Any) -> None:
    @tool
    async def hold() -> None:
        await asyncio.sleep(600)

    async with make([pay, hold], policy=ASK, max_concurrency=1, max_queue=1) as rt:
        await grant(rt, {"uses": 5})
        holding = [await rt.submit("hold", {}) for _ in range(2)]
        with pytest.raises(QueueFull):
            await rt.call("pay", {"amount": 2})
        for handle in holding:
            await handle.cancel()
        assert (await rt.call("pay", {"amount": 3})).success


async def test_a_turn_that_was_begun_in_the_name_of_another_caller(store: str, pay: Any) -> None:
    async with make([pay], store, policy=ASK) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("pay", {"amount": 3})], "Done."]))
        rt.add(agent.as_tool("helper", "Pays."))
        boss = ReActAgent(rt, ScriptedModel([[("helper", {"task": "pay"})], "Done."]), name="boss")
        view = rt.acting_for("ann", requesters=["root"])
        turn = asyncio.create_task(boss.acting_for(view).run("Pay.", thread="t"))
        while not (waiting := (await rt.history(waiting_for="approval")).items):
            await asyncio.sleep(0.01)
        for name in ("ann", "root"):
            with pytest.raises(PermissionDenied):
                await rt.approve(waiting[0].id, thread=waiting[0].thread, by=name)
        assert await rt.approve(waiting[0].id, thread=waiting[0].thread, by="bob")
        await asyncio.wait_for(turn, PATIENCE)
