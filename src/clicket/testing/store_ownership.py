"""Laws of a store that several processes share: owners, claims, signals, slots."""

from __future__ import annotations

from collections.abc import Callable

from clicket.kernel import State
from clicket.model import rows_of
from clicket.model.ports import Append, Stale, Store
from clicket.testing.store_kit import (
    ALIVE,
    ANY_TOOL,
    DEAD,
    Laws,
    an_event,
    append,
    created,
    creation,
    ended,
    law,
    news,
    opened,
    seqs,
)

__all__ = ["laws"]

laws = Laws()


@laws
async def what_was_written_is_there_for_others(make: Callable[[], Store]) -> None:
    async with opened(make) as one, opened(make) as two:
        first = await created(one, "a")
        (stored,) = await two.load("a")
        law.equal(stored.events, list(first.events), "another process sees it at once")
        law.equal(await append(two, news(first, fence=-1, signal=True)), [None], "an outsider asks to cancel")
        law.equal(await one.signals(), [first.key], "the owner sees the signal")
        law.equal(await two.signals(), [], "others do not")
    async with opened(make) as three:
        law.equal(await seqs(three, "a"), [1, 2], "a store that is opened again finds what was left")


@laws.opened(ALIVE, ALIVE)
async def live_owners_are_left_alone(one: Store, two: Store) -> None:
    first = await created(one, "a")
    law.equal(await two.claim_orphans(ANY_TOOL, 10), [], "a call of a living owner is not claimed")
    law.equal(await one.claim_orphans(ANY_TOOL, 10), [], "a process does not claim its own calls")
    law.equal(await append(one, news(first)), [None], "the owner can still write")


@laws.opened(DEAD, ALIVE, ALIVE)
async def dead_owners_calls_are_claimed_once(dead: Store, one: Store, two: Store) -> None:
    calls = [await created(dead, f"c{n}", tool="tool" if n < 3 else "other") for n in range(4)]
    await ended(dead, "ended")
    law.equal(await one.claim_orphans(frozenset(), 10), [], "a process without tools claims nothing")
    claimed = await one.claim_orphans(ANY_TOOL, 2)
    claimed += await two.claim_orphans(ANY_TOOL, 10)
    law.equal(
        [c.events[0].call_id for c in claimed], ["c0", "c1", "c2"], "each once, the oldest first, at most `limit`"
    )
    law.equal({(c.fence, c.claims) for c in claimed}, {(2, 2)}, "the next fence, one more claim")
    law(
        all(c.taken_from is not None and c.id == c.events[0].call_id for c in claimed), "a claim names the former owner"
    )
    (error,) = await append(dead, news(calls[0]))
    law(isinstance(error, Stale), "an owner that lost a call can write no more")
    law.equal(await append(one, news(calls[0], fence=2)), [None], "the new owner can")
    law.equal(
        await two.claim_orphans(frozenset({"other"}), 10) != [],
        True,
        "calls of other tools wait for a process that has them",
    )


@laws
async def handed_back_calls_are_claimed(make: Callable[[], Store]) -> None:
    async with opened(make) as one:
        await created(one, "a")
    async with opened(make) as two:
        law.equal(await two.claim_orphans(ANY_TOOL, 10), [], "a call without an owner is not an orphan")
        (claimed,) = await two.claim_waiting(ANY_TOOL, 10)
        law.equal(
            (claimed.fence, claimed.taken_from, [e.seq for e in claimed.events]),
            (2, None, [1]),
            "a runtime that closed left it to the next",
        )


async def _waiting(store: Store, id: str, priority: int = 0, tool: str = "tool", caller: str = "") -> Append:
    change = creation(id, tool=tool, priority=priority, caller=caller)
    data = {"tool": tool, "thread": "t", "caller": caller}
    change.unit = rows_of([an_event(id, 1, "created", State.PENDING, data)])
    change.owned = False
    law.equal(await append(store, change), [None], "a call may be created for others to run")
    return change


@laws.opened(ALIVE, ALIVE)
async def waiting_calls_are_claimed_once_by_priority(one: Store, two: Store) -> None:
    for n, priority in enumerate((0, 5, 0, -1, 5)):
        await _waiting(one, f"c{n}", priority)
    await _waiting(one, "other", 9, tool="other")
    await created(one, "mine")
    claimed = await two.claim_waiting(ANY_TOOL, 2)
    claimed += await one.claim_waiting(ANY_TOOL, 10)
    law.equal([c.id for c in claimed], ["c1", "c4", "c0", "c2", "c3"], "claimed once, by priority, then by age")
    law.equal(
        {(c.fence, c.claims, c.taken_from) for c in claimed}, {(2, 2, None)}, "the next fence; it had no owner before"
    )
    law.equal(await two.claim_waiting(ANY_TOOL, 10), [], "no call is left to claim")
    law.equal(len(await two.owned()), 2, "a claimed call is owned")
    back = claimed[0]
    await two.hand_back([back.key])
    law.equal(await one.claim(back.key) is not None, True, "what was handed back may be taken by name")
    law.equal(await one.claim(back.key), None, "a call is claimed only once")
    law.equal(await two.claim(claimed[2].key), None, "a living owner's call cannot be taken")


@laws.opened(ALIVE, ALIVE)
async def a_call_can_be_given_away(one: Store, two: Store) -> None:
    first = await created(one, "a")
    away = news(first, owned=False)
    law.equal(await append(one, away), [None], "the last thing its owner writes may give it away")
    (claimed,) = await two.claim_waiting(ANY_TOOL, 10)
    law.equal(([e.seq for e in claimed.events], claimed.fence), ([1, 2], 2), "a claimed call has all its events")
    (error,) = await append(one, news(away))
    law(isinstance(error, Stale), "the former owner can write no more")


@laws.opened(DEAD, ALIVE)
async def a_dead_owners_call_may_be_taken_by_name(dead: Store, one: Store) -> None:
    first = await created(dead, "a")
    done = await ended(dead, "b")
    taken = await one.claim(first.key)
    law(taken is not None and taken.fence == 2, "a dead owner's call may be taken")
    law.equal(await one.claim(done.key), None, "an ended one may not")
    law.equal(await one.claim(first.key + 1000), None, "a missing call cannot be claimed")


@laws.opened(DEAD, ALIVE)
async def owners_are_listed_and_come_back(dead: Store, one: Store) -> None:
    listed = {p.owner.host: (p.alive, p.mine) for p in await one.owners()}
    law.equal(
        listed,
        {DEAD.host: (False, False), ALIVE.host: (True, True)},
        "which owners there are, which are alive, which is this one",
    )
    await one.claim_orphans(ANY_TOOL, 10)
    await dead.renew()
    law(DEAD.host in {p.owner.host for p in await one.owners()}, "an owner that was given up can come back")


@laws.opened(DEAD, ALIVE)
async def signals_are_listed_until_claimed(dead: Store, one: Store) -> None:
    first = await created(dead, "a")
    await append(one, news(first, fence=-1, signal=True))
    law.equal(await dead.signals(), [first.key], "the owner sees the signal")
    known = Append(first.call, 2, 1, None, State.PENDING, key=first.key)
    law.equal(await append(dead, known), [None], "the owner reads the signal")
    law.equal(await dead.signals(), [], "a signal that was read is not listed")
    await append(one, news(known, fence=-1, signal=True))
    await one.claim_orphans(ANY_TOOL, 10)
    law.equal((await dead.signals(), await one.signals()), ([], []), "a claim reads the signal")


@laws
async def slots_are_shared_by_all_owners(make: Callable[[], Store]) -> None:
    async with opened(make) as one, opened(make) as two:
        law(await one.hold("tool:a", 1, 3), "a free slot is granted")
        law(await one.hold("tool:a", 1, 3), "saying it twice is saying it once")
        law(await two.hold("tool:a", 2, 3), "up to the capacity of all together")
        law(not await one.hold("tool:a", 2, 3), "more slots than the capacity are refused")
        law(await one.hold("tool:b", 3, 3), "names do not touch each other")
        law(await two.hold("tool:a", 1, 3), "fewer is always granted")
        law(await one.hold("tool:a", 2, 3), "what was freed is free")
        law(await one.hold("tool:a", 1, 0), "fewer slots are granted, also when the capacity has shrunk")
    async with opened(make) as three:
        law(await three.hold("tool:a", 3, 3), "a closed store holds nothing")


@laws.opened(DEAD, ALIVE)
async def dead_owners_hold_no_slots(dead: Store, one: Store) -> None:
    law(await dead.hold("tool:a", 1, 1), "a slot is held")
    law(not await one.hold("tool:a", 1, 1), "a slot is held until its owner is given up")
    await one.claim_orphans(frozenset(), 10)
    law(await one.hold("tool:a", 1, 1), "the slot of an owner that was given up is free")
    law(await dead.hold("tool:b", 1, 1), "an owner that was given up and lives on may hold slots")
    await one.claim_orphans(frozenset(), 10)
    law(await one.hold("tool:b", 1, 1), "when it is given up again, these are free as well")


@laws.opened(ALIVE)
async def waiting_calls_are_claimed_from_callers_in_turn(one: Store) -> None:
    for n in range(30):
        await _waiting(one, f"a{n}", caller="ann")
    await _waiting(one, "b0", caller="bob")
    await _waiting(one, "b1", priority=5, caller="bob")
    await _waiting(one, "c0", priority=-5, caller="cleo")

    async def claim(limit: int) -> list[str]:
        return [call.id for call in await one.claim_waiting(ANY_TOOL, limit)]

    law.equal(await claim(4), ["a0", "b1", "c0", "a1"], "callers take turns; within a caller the priority counts")
    await _waiting(one, "d0", caller="dora")
    law.equal(await claim(1), ["b0"], "the next claim goes on with the next caller")
    law.equal(await claim(1), ["d0"], "a caller that came late waits for no other's queue")
    law.equal(await claim(3), ["a2", "a3", "a4"], "a caller that waits alone takes all turns")
