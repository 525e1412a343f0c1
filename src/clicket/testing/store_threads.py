"""Laws of the list of threads: which callers and threads have calls, the newest first, and counts of their calls by state."""

from __future__ import annotations

from clicket.model.ports import Store, ThreadCounts, places_in, thread_counts_in
from clicket.testing.store_kit import ALIVE, Laws, created, ended, law

__all__ = ["laws"]

laws = Laws()
_NO_LIMIT = 1_000


async def _counts(store: Store, caller: str, thread: str, limit: int) -> ThreadCounts:
    _, found = await thread_counts_in(store, [("nobody", "nothing"), (caller, thread)], limit)
    return found


@laws.opened(ALIVE)
async def places_come_the_newest_first(store: Store) -> None:
    law.equal(await places_in(store, None, 10), [], "an empty store has none")
    made = [
        await created(store, "a"),
        await created(store, "b", thread="u", caller="c"),
        await created(store, "c"),
    ]
    found = await places_in(store, None, 10)
    law.equal([place.key for place in found], [each.key for each in reversed(made)], "the newest first")
    law.equal([(place.caller, place.thread) for place in found], [("", "t"), ("c", "u"), ("", "t")], "of each call")
    below = await places_in(store, made[1].key, 10)
    law.equal([place.key for place in below], [made[0].key], "those below a key")
    law.equal(
        [place.key for place in await places_in(store, None, 2)], [made[2].key, made[1].key], "no more than wanted"
    )


@laws.opened(ALIVE)
async def calls_of_a_thread_are_counted_by_state(store: Store) -> None:
    law.equal((await _counts(store, "", "t", _NO_LIMIT)).newest, 0, "an unknown thread has none")
    await created(store, "a")
    await ended(store, "b", at=300.0)
    newest = await ended(store, "c", at=250.0)
    await created(store, "d", caller="other")
    await created(store, "e", thread="u")
    counts = await _counts(store, "", "t", _NO_LIMIT)
    law.equal(sum(counts.states.values()), 3, "those of this caller and thread alone")
    law.equal(counts.states.get("completed"), 2, "those that completed")
    law.equal(counts.newest, newest.key, "the newest call")
    law.equal(counts.last_at, 300.0, "the last time at which a call was made or ended")
    law.equal((await _counts(store, "other", "t", _NO_LIMIT)).states, {"pending": 1}, "of another caller")
    law.equal(sum((await _counts(store, "", "t", 2)).states.values()), 2, "the newest ones alone")
    law.equal((await _counts(store, "", "\x00", _NO_LIMIT)).newest, 0, "a name that cannot be")
