"""Laws of queues: callers take turns however many calls of one wait, queues beside the one of a tool's name, rates, the backlog."""

from __future__ import annotations

import asyncio
import time

from clicket.kernel import State
from clicket.model import rows_of
from clicket.model.ports import Append, Store, TakenTokens
from clicket.testing.store_kit import ALIVE, ANY_TOOL, DEAD, Laws, an_event, append, created, creation, law, news

__all__ = ["laws", "shared_laws", "waiting_call"]

laws = Laws()
shared_laws = Laws()
_MANY = 1_050
"""More waiting calls of one caller than a claim may look at one by one."""


def waiting_call(
    id: str, *, caller: str = "", tool: str = "tool", priority: int = 0, queue: str = "", at: float = 100.0
) -> Append:
    """An append that creates a call without an owner."""
    change = creation(id, tool=tool, priority=priority, caller=caller, at=at)
    data = {"tool": tool, "thread": "t", "caller": caller}
    change.unit = rows_of([an_event(id, 1, "created", State.PENDING, data)])
    change.owned = False
    change.queue = queue
    return change


async def _wait(store: Store, *changes: Append) -> None:
    law.equal(set(await append(store, *changes)), {None}, "a call may be created for others to run")


async def _claimed(store: Store, limit: int, *queues: str) -> list[str]:
    return [call.id for call in await store.claim_waiting(frozenset(queues) or ANY_TOOL, limit)]


@laws.opened(ALIVE)
async def a_caller_with_many_waiting_calls_delays_no_other(one: Store) -> None:
    await _wait(one, *(waiting_call(f"a{n}", caller="ann") for n in range(_MANY)))
    await _wait(one, waiting_call("b", caller="bob"), waiting_call("c", caller="cleo", priority=-5))
    law.equal(await _claimed(one, 4), ["a0", "b", "c", "a1"], "one call of each caller comes before the second of any")
    law.equal(await _claimed(one, 2), ["a2", "a3"], "a caller that waits alone takes all turns")
    law.equal(len(await _claimed(one, 40)), 40, "as many as are asked for")


@laws.opened(ALIVE)
async def callers_take_turns_over_all_queues(one: Store) -> None:
    await _wait(one, *(waiting_call(f"a{n}", caller="ann", tool="tool" if n % 2 else "other") for n in range(6)))
    await _wait(
        one, waiting_call("b", caller="bob", tool="other"), waiting_call("up", caller="ann", tool="other", priority=3)
    )
    law.equal(
        await _claimed(one, 4, "tool", "other"), ["up", "b", "a0", "a1"], "by priority, then by age, over all queues"
    )
    law.equal(await _claimed(one, 9, "tool"), ["a3", "a5"], "only of the queues that are named")


@laws.opened(ALIVE)
async def a_call_waits_in_the_queue_that_it_was_given(one: Store) -> None:
    await _wait(one, waiting_call("plain"), waiting_call("second", queue="tool@2"))
    law.equal(await _claimed(one, 9), ["plain"], "a queue of its own is not the queue of the tool's name")
    first = await created(one, "moved")
    law.equal(await append(one, news(first, owned=False, queue="tool@2")), [None], "an owner gives a call into a queue")
    (second, moved) = await one.claim_waiting(frozenset({"tool@2"}), 9)
    law.equal((second.id, moved.id), ("second", "moved"), "the calls of the queue, the oldest first")
    await one.hand_back([second.key, moved.key])
    law.equal(await _claimed(one, 9), [], "a call that is handed back")
    law.equal(await _claimed(one, 9, "tool@2"), ["second", "moved"], "stays in its queue")


@laws.opened(ALIVE)
async def a_claimed_call_is_given_into_another_queue(one: Store) -> None:
    """As a call does that waited for its time."""
    later = waiting_call("later", queue="tool#later")
    await _wait(one, later, waiting_call("other", queue="tool#later"))
    law.equal(await _claimed(one, 9), [], "calls that wait for their time are in no queue of workers")
    (stored,) = await one.load("later")
    claimed = await one.claim(stored.key)
    law(claimed is not None and claimed.id == "later", "a call without an owner is claimed by its key")
    assert claimed is not None
    change = news(later, fence=claimed.fence, key=claimed.key, owned=False, queue="tool")
    law.equal(await append(one, change), [None], "its owner gives it into another queue")
    law.equal(await _claimed(one, 9), ["later"], "where it is claimed")
    law.equal(await _claimed(one, 9, "tool#later"), ["other"], "and no more in the one before")


@laws.opened(ALIVE)
async def an_owner_moves_a_call_and_keeps_it(one: Store) -> None:
    await _wait(one, waiting_call("later", queue="tool#later"))
    (claimed,) = await one.claim_waiting(frozenset({"tool#later"}), 1)
    change = news(waiting_call("later"), fence=claimed.fence, key=claimed.key, queue="tool")
    law.equal(await append(one, change), [None], "its owner names another queue")
    law.equal(await _claimed(one, 9, "tool", "tool#later"), [], "and still owns it")
    await one.hand_back([claimed.key])
    law.equal(await _claimed(one, 9, "tool#later"), [], "a call that is handed back")
    law.equal(await _claimed(one, 9, "tool"), ["later"], "waits in the queue that was named last")


@laws.opened(ALIVE)
async def a_call_keeps_the_queue_and_the_priority_that_it_was_made_with(one: Store) -> None:
    """Also if it had an owner from the beginning, and is handed back."""
    low, high = creation("low"), creation("high", priority=5)
    low.queue = high.queue = "tool@2"
    await _wait(one, low, high)
    await one.hand_back([low.key, high.key])
    law.equal(await _claimed(one, 9), [], "the queue of the tool's name is another one")
    law.equal(await _claimed(one, 9, "tool@2"), ["high", "low"], "by priority")


@laws.opened(ALIVE)
async def a_waiting_call_moves_to_another_queue(one: Store) -> None:
    """An append that has the fence of a call without an owner."""
    change = waiting_call("a", queue="tool@2")
    await _wait(one, change)
    moved = news(change, owned=False, queue="tool")
    law.equal(await append(one, moved), [None], "it is given into another queue")
    law.equal([(each.queue, each.count) for each in await one.backlog()], [("tool", 1)], "it waits there")
    end = news(moved, state=State.CANCELLED, ended_at=200.0)
    law.equal(await append(one, end), [None], "it ends without having been claimed")
    law.equal(await one.backlog(), [], "nothing waits any more")
    law.equal(await _claimed(one, 9, "tool", "tool@2"), [], "nothing is claimed")


@laws.opened(ALIVE)
async def fewer_slots_are_always_granted(one: Store) -> None:
    law(await one.hold("tool:a", 2, 2), "free slots are granted")
    law(await one.hold("tool:a", 2, 1), "saying it twice is saying it once, also when the capacity has shrunk")
    law(not await one.hold("tool:a", 3, 2), "more than the capacity are refused")
    law(await one.hold("tool:a", 1, 0), "fewer are granted")
    law(not await one.hold("tool:a", 2, 1), "and what was given back is not held any more")


@laws.opened(ALIVE)
async def the_backlog_counts_waiting_calls_by_queue(one: Store) -> None:
    law.equal(await one.backlog(), [], "nothing waits")
    await created(one, "mine")
    changes = [waiting_call(f"c{n}", caller=f"k{n % 2}", priority=n, at=50.0 - n) for n in range(3)]
    await _wait(one, *changes, waiting_call("new", queue="tool@2"))
    found = [(each.queue, each.count, each.oldest_at) for each in await one.backlog()]
    law.equal(
        found,
        [("tool", 3, 50.0), ("tool@2", 1, 100.0)],
        "calls without an owner, and when the one that was stored first was made",
    )
    await one.claim_waiting(ANY_TOOL, 1)  # the one of the highest priority of the first caller
    law.equal(
        [(each.queue, each.count) for each in await one.backlog()],
        [("tool", 2), ("tool@2", 1)],
        "a claimed call does not wait",
    )
    await one.claim_waiting(frozenset({"tool", "tool@2"}), 9)
    law.equal(await one.backlog(), [], "nothing waits any more")


@laws.opened(ALIVE)
async def a_rate_holds(one: Store) -> None:
    law.equal(await one.take("r", 1e-3, 3, 0), TakenTokens(0, 3, 0.0), "looking takes none; a new bucket is full")
    first = await one.take("r", 1e-3, 3, 2)
    law.equal((first.count, first.left, first.wait), (2, 1, 0.0), "tokens are granted")
    second = await one.take("r", 1e-3, 3, 5)
    law.equal((second.count, second.left), (1, 0), "no more than the bucket has")
    law(900 < second.wait <= 1000, "it says when the next one comes")
    third = await one.take("r", 1e-3, 3, 1)
    law((third.count, third.left) == (0, 0) and 900 < third.wait <= second.wait, "an empty bucket grants none")
    law.equal((await one.take("other", 1e-3, 1, 1)).count, 1, "names do not touch each other")
    await one.take("r", 1e6, 3, 1)
    await asyncio.sleep(0.001)
    law.equal((await one.take("r", 1e6, 3, 2)).count, 2, "a higher rate fills it sooner")


@laws.opened(ALIVE)
async def tokens_come_back_at_the_rate(one: Store) -> None:
    started = time.monotonic()
    count = (await one.take("r", 100.0, 2, 2)).count
    while count < 10:
        taken = await one.take("r", 100.0, 2, 3)
        count += taken.count
        if not taken.count:
            await asyncio.sleep(taken.wait)
    law(time.monotonic() - started >= (count - 2) / 100.0 - 0.001, "no more than the burst and what came since")


@shared_laws.opened(ALIVE, ALIVE)
async def a_rate_is_shared_by_all_owners(one: Store, two: Store) -> None:
    answers = await asyncio.gather(*(store.take("r", 1e-3, 5, 2) for store in (one, two) for _ in range(3)))
    law.equal(sum(taken.count for taken in answers), 5, "all owners together get no more than the bucket has")


@shared_laws.opened(DEAD, ALIVE)
async def orphans_are_claimed_by_queue(dead: Store, one: Store) -> None:
    await _wait(one, waiting_call("a", queue="tool@2"), waiting_call("b"))
    law.equal(len(await dead.claim_waiting(frozenset({"tool", "tool@2"}), 9)), 2, "an owner claims them, and dies")
    law.equal([c.id for c in await one.claim_orphans(ANY_TOOL, 9)], ["b"], "only calls of the queues that are named")
    law.equal(
        [c.id for c in await one.claim_orphans(frozenset({"tool@2"}), 9)],
        ["a"],
        "the others wait for their queue's workers",
    )


@shared_laws.opened(ALIVE, ALIVE, ALIVE)
async def each_waiting_call_is_claimed_once_by_many(one: Store, two: Store, three: Store) -> None:
    await _wait(one, *(waiting_call(f"{who}{n}", caller=who) for who in ("ann", "bob") for n in range(60)))
    claims = await asyncio.gather(*(_claimed(store, 12) for _ in range(4) for store in (one, two, three)))
    ids = [id for claim in claims for id in claim]
    law.equal(len(ids), len(set(ids)), "no call is claimed twice")
    while more := await _claimed(one, 50):
        ids += more
    law.equal(len(set(ids)), 120, "none is left out")
