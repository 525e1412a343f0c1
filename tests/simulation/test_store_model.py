"""The model of the store port fulfils the contract of stores, as a store behind a network and as a file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from tests.simulation.store_model import ModelSession, StoreModel

from clicket.kernel import State
from clicket.ports import Append, Stale, Store
from clicket.testing import Check, shared_store_contract, store_contract
from clicket.testing.store_kit import ALIVE, append, creation, news
from clicket.testing.store_stats import stats


@pytest.fixture(params=[True, False], ids=["bus", "file"])
def make(request: pytest.FixtureRequest) -> Callable[[], Store]:
    model = StoreModel(claims_by_append=request.param)
    return partial(ModelSession, model, clock=time.time, bus=request.param)


@pytest.mark.parametrize("check", [*store_contract, *shared_store_contract], ids=lambda check: check.__name__)
async def test_model(check: Check, make: Callable[[], Store]) -> None:
    await check(make)


# What the contract does not say: time, lost answers, the bus.

OWNER = msgspec.structs.replace(ALIVE, lease=10.0)


def given_away(id: str) -> Append:
    change = creation(id)
    change.owned = False
    return change


def test_an_owner_is_dead_when_its_lease_has_run_out() -> None:
    model = StoreModel()
    one, two = model.register(OWNER, 0.0), model.register(OWNER, 5.0)
    assert model.append(creation("a"), one, 1.0) is None
    assert model.claim_orphans({"tool"}, 9, two, 11.0) == [], "a write renews the lease"
    (claimed,) = model.claim_orphans({"tool"}, 9, two, 11.5)
    assert (claimed.owner, claimed.taken_from, claimed.fence, claimed.claims) == (two, one, 2, 2)
    assert [presence.id for presence in model.owners(two, 11.5)] == [two], "it is given up"
    model.renew(one, 12.0)
    assert [presence.alive for presence in model.owners(two, 12.0)] == [True, True], "and comes back"


def test_an_owner_whose_process_is_gone_is_dead_at_once() -> None:
    model = StoreModel()
    one, two = model.register(OWNER, 0.0), model.register(OWNER, 0.0)
    change = creation("a")
    assert model.append(change, one, 0.0) is None
    assert model.claim(change.key, two, 0.0) is None
    model.declare_dead(one)
    assert model.claim(change.key, two, 0.0) is not None


@pytest.mark.parametrize("claim", [False, True])
def test_an_append_whose_answer_was_lost_is_sent_again(claim: bool) -> None:
    model = StoreModel()
    me, other = model.register(OWNER, 0.0), model.register(OWNER, 0.0)
    first = given_away("a") if claim else creation("a")
    assert model.append(first, other if claim else me, 0.0) is None
    end = news(first, state=State.FAILED, ended_at=1.0, stats=stats("failed"), fence=2 if claim else 1, claim=claim)
    if claim:
        end.ended_at, end.state, end.stats = None, State.RUNNING, None
    assert model.append(end, me, 0.0) is None
    assert isinstance(model.append(end, me, 0.0), Stale)
    assert model.append(end, me, 0.0, again=True) is None, "that very unit is there"
    rival = news(first, state=State.CANCELLED)
    assert isinstance(model.append(rival, me, 0.0, again=True), Stale), "another one is not"
    assert sum(figure.count for figure in model.figures(None)) == (0 if claim else 1)
    if claim:
        assert isinstance(model.append(end, other, 0.0, again=True), Stale), "it was claimed by another process"


def test_a_creation_that_was_answered_with_an_error_is_erased() -> None:
    model = StoreModel()
    me = model.register(OWNER, 0.0)
    change = creation("a")
    change.state, change.ended_at, change.stats = State.FAILED, 1.0, stats("failed")
    assert model.append(change, me, 0.0) is None
    assert model.append(change, me, 0.0, again=True) is None
    assert model.erase(change, me, 0.0)
    assert (model.load("a", None, None), model.figures(None), model.tool_health("", "t")) == ([], [], [])
    assert not model.erase(change, me, 0.0)
    assert model.append(change, me, 0.0) is None
    assert model.append(news(change, fence=-1, state=State.FAILED), me, 0.0) is None
    assert not model.erase(change, me, 0.0), "there is more than this unit"


async def test_messages_go_to_the_processes_that_want_them() -> None:
    model = StoreModel()
    giver, worker, reader = (ModelSession(model, clock=lambda: 0.0) for _ in range(3))
    heard: list[tuple[str, str, int]] = []
    for name, session in (("giver", giver), ("worker", worker), ("reader", reader)):
        await session.open(OWNER)
        session.on_hint = lambda kind, key, name=name: heard.append((name, kind, key))  # type: ignore[misc]
        session.bus.hear = lambda kind, key, body, name=name: heard.append((name, kind, key))  # type: ignore[misc]
    given = given_away("a")
    given.to = worker.me
    assert await append(giver, given) == [None]
    await asyncio.sleep(0)
    assert heard == [("worker", "work", given.key)]
    heard.clear()
    await reader.events(given.key, "a", 0)  # from now on it is announced
    assert await append(worker, news(given, fence=2, claim=True)) == [None]
    await asyncio.sleep(0)
    assert sorted(heard) == [
        ("giver", "events", given.key),
        ("giver", "events", given.key),
        ("reader", "events", given.key),
    ]
    heard.clear()
    assert await append(reader, news(news(given), fence=-1, signal=True)) == [None]
    await asyncio.sleep(0)
    assert ("worker", "signal", given.key) in heard
    heard.clear()
    worker.bus.trouble = "cut off"  # type: ignore[misc]
    await worker.hand_back([given.key])
    await asyncio.sleep(0)
    assert heard == []
    for session in (giver, worker, reader):
        await session.close()
    assert model.known == {}
