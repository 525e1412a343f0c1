"""Grants alone: which one answers a question, how uses are counted, and what revoking, expiry and a lost approval do to them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples
from tests.unit.engine.fakes import Lower, Recorder

from clicket import Condition, Policy, Rule, tool
from clicket.engine.live_call import Call
from clicket.engine.people.approvers import API_KEY, Approver
from clicket.engine.people.audit import AuditLog
from clicket.engine.people.grants import GRANT, Grants
from clicket.engine.people.questions import ask_for_approval
from clicket.errors import NotFound, UsageError
from clicket.model import read
from clicket.model.grant import Grant, GrantTerms, StoredGrant, narrowest, read_terms

BIG = Rule(verdict="ask", tools=["pay"], when=[Condition(path="/amount", op=">", value=100)])
POLICY = Policy(rules=[BIG], ask=["pay", "mail"])


@tool
async def pay(amount: int = 50, to: str = "") -> str:
    return "paid"


@tool
async def mail(to: str = "") -> str:
    return "sent"


class Parts(Lower):
    def __init__(self, policy: Policy = POLICY) -> None:
        super().__init__(pay, mail, policy=policy)
        self.audited: list[tuple[str, str, dict[str, Any]]] = []

        async def kept(who: str, what: str, **details: Any) -> None:
            self.audited.append((who, what, details))

        audit: Any = Recorder(AuditLog, kept=kept, jot=lambda who, what, **more: self.audited.append((who, what, more)))
        self.grants = Grants(self.store, self.clock, audit, retention=3_600.0)
        self.number = 0

    def asking(self, arguments: Any = None, *, tool: str = "pay", caller: str = "bob", thread: str = "t") -> Call:
        self.number += 1
        return self.admitted(tool, arguments or {}, caller=caller, thread=thread, id=f"c{self.number}")

    async def given(self, terms: GrantTerms, *, by: str = "ann", confirmed: bool = True, **call: Any) -> StoredGrant:
        asked = self.asking(**call)
        ask_for_approval(self.journal, asked, asked.question, purpose="run", reason="", timeout=None)
        self.journal.commit(asked.entry)
        record = read(asked.id, asked.entry.events)
        stored = await self.grants.propose(record, read_terms(terms), Approver(by), by=by, reason="")
        if confirmed:
            await self.grants.confirm(stored)
        return stored

    async def used(self, arguments: Any = None, **call: Any) -> str | None:
        grant = await self.grants.use(self.asking(arguments, **call))
        return None if grant is None else grant.id


async def test_a_grant_is_used_as_often_as_it_says() -> None:
    parts = Parts()
    stored = await parts.given({"uses": 2})
    results = await asyncio.gather(*(parts.used() for _ in range(5)))
    assert sorted(results, key=str) == [None, None, None, stored.grant.id, stored.grant.id]
    [grant] = await parts.grants.listed()
    assert (grant.used, grant.state) == (2, "used_up")
    assert [what for _, what, _ in parts.audited] == ["grant.used", "grant.used"]


async def test_it_holds_for_its_tool_caller_and_thread() -> None:
    parts = Parts()
    stored = await parts.given({"thread": "t1"})
    assert await parts.used(thread="t1") == stored.grant.id
    assert await parts.used(thread="t2") is None
    assert await parts.used(thread="t1", caller="eve") is None
    assert await parts.used(thread="t1", tool="mail") is None


async def test_it_expires_by_the_clock_of_the_runtime() -> None:
    parts = Parts()
    stored = await parts.given({"seconds": 10})
    parts.clock.advance(9.9)
    assert await parts.used() == stored.grant.id
    parts.clock.advance(0.1)
    assert await parts.used() is None
    assert [grant.state for grant in await parts.grants.listed()] == ["expired"]


async def test_arguments_count_with_the_defaults_of_the_tool() -> None:
    parts = Parts()
    small = await parts.given({"arguments": {"properties": {"amount": {"maximum": 10}}}})
    assert await parts.used({"amount": 10}) == small.grant.id
    assert await parts.used({"amount": 11}) is None
    assert await parts.used({}) is None, "the default is 50"
    named = await parts.given({"arguments": {"required": ["amount"], "properties": {"amount": {"const": 50}}}})
    assert await parts.used({}) == named.grant.id


async def test_it_answers_the_rule_that_asked_and_no_other() -> None:
    """A narrower rule of the policy wins: who approved small payments has not approved big ones."""
    parts = Parts()
    small = await parts.given({}, arguments={"amount": 5})
    assert await parts.used({"amount": 100}) == small.grant.id
    assert await parts.used({"amount": 101}) is None
    big = await parts.given({}, arguments={"amount": 500})
    assert await parts.used({"amount": 101}) == big.grant.id
    assert await parts.used({"amount": 5}) == small.grant.id


async def test_another_reason_is_the_same_rule_and_another_condition_is_another() -> None:
    rules = [msgspec.structs.replace(BIG, reason="big"), msgspec.structs.replace(BIG, timeout=5.0)]
    other = Rule(verdict="ask", tools=["pay"], when=[Condition(path="/amount", op=">", value=99)])
    first, same, again, changed = (
        Parts(Policy(rules=[rule])).asking({"amount": 500}).question.rule for rule in (BIG, *rules, other)
    )
    assert first == same == again != changed


async def test_self_approval_is_refused() -> None:
    parts = Parts()
    for caller, name, holder in (("k1", "ann", ""), ("k2", "ci", "ann"), ("k3", "bob", "")):
        await parts.store.put_document(API_KEY, caller, msgspec.json.encode({"name": name, "holder": holder}), 0)
    stored = await parts.given({"caller": "*"}, by="ann", caller="k3")
    assert await parts.used(caller="k3") == stored.grant.id
    assert await parts.used(caller="eve") == stored.grant.id
    for own in ("ann", "k1", "k2"):
        assert await parts.used(caller=own) is None, own
    free = Parts(Policy(ask=["pay"], self_approval=True))
    mine = await free.given({}, by="ann", caller="ann")
    assert await free.used(caller="ann") == mine.grant.id


async def test_a_rule_with_two_approvers_has_no_grants() -> None:
    parts = Parts(Policy(ask=["pay"], approvers=2))
    await parts.given({})
    assert await parts.used() is None


async def test_revoked_at_once_and_only_once() -> None:
    parts = Parts()
    stored = await parts.given({})
    grant, done = await parts.grants.revoke(stored.grant.id, by="boss")
    assert (grant.state, grant.revoked_by, done) == ("revoked", "boss", True)
    assert await parts.used() is None
    assert not (await parts.grants.revoke(stored.grant.id, by="eve"))[1]
    [grant] = await parts.grants.listed()
    assert (grant.state, grant.revoked_by) == ("revoked", "boss")
    with pytest.raises(NotFound, match="no grant 'gr_0'"):
        await parts.grants.revoke("gr_0", by="boss")


async def test_a_grant_counts_only_if_its_approval_is_on_record() -> None:
    parts = Parts()
    lost = await parts.given({}, confirmed=False)
    assert await parts.used() is None, "the process ended before it wrote the approval"
    assert await parts.grants.listed() == []
    with pytest.raises(NotFound):
        await parts.grants.revoke(lost.grant.id, by="boss")
    written = await parts.given({}, confirmed=False)
    call = next(call for call in parts.store._calls.values() if call.id == written.grant.call)
    events = await parts.store.load(call.id, call.thread, call.caller)
    approval = {"approved": True, "by": "ann", "reason": "", "grant": written.grant.id}
    assert await parts.signals.write(events[0], "approval_given", approval)
    assert [grant.id for grant in await parts.grants.listed()] == [written.grant.id]
    assert await parts.used() == written.grant.id, "and after it, nothing is lost"


async def test_a_call_that_was_made_before_uses_none() -> None:
    parts = Parts()
    stored = await parts.given({"uses": 1})
    call = parts.pending("pay", {}, caller="bob", id="again")
    assert await parts.grants.use(call) is None
    assert await parts.used() == stored.grant.id


async def test_what_is_over_is_kept_for_a_while_and_then_swept() -> None:
    parts = Parts()
    await parts.given({"uses": 1})
    await parts.given({"seconds": 5.0}, tool="mail")
    forever = await parts.given({"thread": "x"}, tool="mail")
    await parts.given({}, confirmed=False)
    await parts.used()
    assert await parts.grants.sweep() == 0
    parts.clock.advance(1e9)  # documents have the date of the machine
    assert await parts.grants.sweep() == 3
    assert [grant.id for grant in await parts.grants.listed()] == [forever.grant.id]


async def test_what_cannot_be_read_lets_no_call_run() -> None:
    parts = Parts()
    await parts.store.put_document(GRANT, "pay/gr_1", b"{", 0)
    await parts.store.put_document(GRANT, "pay/gr_2", b'{"grant": {"id": "gr_2"}}', 0)
    assert await parts.used() is None
    assert await parts.grants.listed() == []


async def test_a_question_of_no_rule_has_no_grant() -> None:
    parts = Parts()
    call = parts.asking()
    nobodys = msgspec.structs.replace(call.question, rule="")
    ask_for_approval(parts.journal, call, nobodys, purpose="recovery", reason="", timeout=None)
    parts.journal.commit(call.entry)
    with pytest.raises(UsageError, match="no rule"):
        await parts.grants.propose(read(call.id, call.entry.events), {}, Approver("ann"), by="ann", reason="")


# Properties.

THREADS = ("t1", "t2")
CALLERS = ("bob", "eve")
terms = st.fixed_dictionaries(
    {},
    optional={
        "uses": st.integers(1, 3),
        "seconds": st.sampled_from([5.0, 50.0]),
        "thread": st.sampled_from(THREADS),
        "arguments": st.sampled_from([{"properties": {"amount": {"maximum": 10}}}, {"required": ["to"]}]),
        "caller": st.sampled_from([*CALLERS, "*"]),
    },
)
steps = st.one_of(
    st.tuples(st.just("give"), terms, st.sampled_from(CALLERS)),
    st.tuples(st.just("use"), st.tuples(st.integers(1, 3), st.sampled_from([5, 20])), st.sampled_from(CALLERS)),
    st.tuples(st.just("revoke"), st.integers(0, 5), st.just("")),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 6.0]), st.just("")),
)


def limits_of(grant: Grant) -> set[str]:
    limited = {
        "arguments": grant.arguments is not None, "thread": grant.thread is not None, "caller": grant.caller != "*",
        "uses": grant.uses is not None, "seconds": grant.expires_at is not None,
    }  # fmt: skip
    return {name for name, is_limited in limited.items() if is_limited}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(steps, max_size=14), st.sampled_from(THREADS))
def test_uses_are_counted_and_the_narrowest_grant_is_used(plan: list[Any], thread: str) -> None:
    asyncio.run(_play(plan, thread))


async def _play(plan: list[Any], thread: str) -> None:
    parts, known, counted = Parts(), list[str](), dict[str, int]()
    for step, what, caller in plan:
        if step == "give":
            known.append((await parts.given(what, caller=caller)).grant.id)
        elif step == "wait":
            parts.clock.advance(what)
        elif step == "revoke":
            if known:
                await parts.grants.revoke(known[what % len(known)], by="boss")
        else:
            count, amount = what
            for _ in range(count):
                await _use(parts, amount, caller, thread, counted)
    for grant in await parts.grants.listed():
        assert grant.used == counted.get(grant.id, 0)
        assert grant.uses is None or grant.used <= grant.uses


async def _use(parts: Parts, amount: int, caller: str, thread: str, counted: dict[str, int]) -> None:
    fits = {
        grant.id: grant
        for grant in await parts.grants.listed()
        if grant.state == "active" and grant.covers("pay", caller, thread)
        and (grant.arguments is None or ("properties" in grant.arguments and amount <= 10) or "required" in grant.arguments)
    }  # fmt: skip
    used = await parts.used({"amount": amount, "to": "x"}, caller=caller, thread=thread)
    assert (used is None) is (not fits)
    if used is not None:
        counted[used] = counted.get(used, 0) + 1
        chosen = limits_of(fits[used])
        assert not any(limits_of(other) > chosen for other in fits.values()), "a grant with more limits was there"


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(terms, max_size=8))
def test_the_order_is_total_and_does_not_depend_on_how_grants_are_listed(given: list[Any]) -> None:
    made = [
        StoredGrant(
            grant=Grant(
                id=f"gr_{number}", tool="pay", caller=each.get("caller", "bob"), by="ann", call="c", given_at=float(number),
                thread=each.get("thread"), arguments=each.get("arguments"), uses=each.get("uses"),
                expires_at=each.get("seconds"),
            ),
            rule="r", identities=(), thread="t", caller="bob",
        )
        for number, each in enumerate(given)
    ]  # fmt: skip
    ordered = narrowest(made)
    assert narrowest(reversed(made)) == ordered
    for place, one in enumerate(ordered):
        assert not any(limits_of(later.grant) > limits_of(one.grant) for later in ordered[place + 1 :])
