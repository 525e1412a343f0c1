"""Laws about what a store keeps beside calls: tool health and figures, which outcomes change."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import Any

from clicket.kernel import State
from clicket.model import rows_of
from clicket.model.figures import Figure
from clicket.model.ports import (
    Append,
    Duplicate,
    HealthEffect,
    Keep,
    OutcomeStats,
    Query,
    Stale,
    Store,
    ToolHealth,
    health_after,
)
from clicket.testing.store_kit import ALIVE, Laws, an_event, append, created, creation, law, news, seqs

__all__ = ["HOSTILE", "health", "laws", "recorded", "stats"]

laws = Laws()

HOSTILE = (
    "a'b\"; DROP TABLE tool_health; --",
    "a:b",
    "a",
    "b:c",
    "{x}",
    "%_*?[",
    "\\",
    " ",
    "é\n\u2028",
    "😀",
    "NULL",
    "0",
)
"""Text that must stay text: in SQL, in patterns, and between the parts of a key."""

_NOW = 1_763_196_725.1234567
"""A time with all the digits that a float has."""


def stats(effect: HealthEffect = "completed", *, at: float = _NOW, seconds: float = 0.5, **given: Any) -> OutcomeStats:
    failed = effect == "failed"
    values = {
        "tool": "tool",
        "outcome": "failed" if failed else "completed",
        "error": "tool_error" if failed else "",
        "bucket": 90 if effect in ("completed", "failed") else None,
        "cause": f"at {at}" if failed else "",
        **given,
    }
    return OutcomeStats(seconds=seconds, effect=effect, at=at, **values)


async def recorded(store: Store, id: str, outcome: OutcomeStats, *, thread: str = "t", caller: str = "") -> Append:
    """A call that ended with this outcome."""
    change = await created(store, id, thread=thread, caller=caller)
    end = news(change, state=State.COMPLETED, ended_at=outcome.at, stats=outcome)
    law.equal(await append(store, end), [None], "stats come with the outcome")
    return end


async def health(store: Store, tool: str = "tool", *, thread: str = "t", caller: str = "") -> ToolHealth:
    """The health of a tool; the default when nothing is on record."""
    found = {each.tool: each for each in await store.tool_health(caller, thread)}
    now = store.tool_health_now(caller, thread)
    if now is not None:
        law.equal({each.tool: each for each in now}, found, "a look at once sees what a patient one sees")
    return found.get(tool) or ToolHealth(tool=tool)


async def _counted(store: Store, caller: str | None = None) -> int:
    return sum(figure.count for figure in await store.figures(caller))


# Outcome stats.


@laws.opened(ALIVE)
async def outcomes_change_tool_health(store: Store) -> None:
    law.equal(await store.tool_health("", "t"), [], "no health is recorded yet")
    weights: Sequence[HealthEffect] = ("served", "failed", "failed", "served", "none", "completed", "failed")
    for n, weight in enumerate(weights):
        await recorded(store, f"c{n}", stats(weight, at=_NOW + n))
    wanted = ToolHealth(
        tool="tool",
        completions=3,
        failures=3,
        consecutive_failures=1,
        first_success_at=_NOW,
        last_success_at=_NOW + 5,
        last_failure_at=_NOW + 6,
        last_error=f"at {_NOW + 6}",
        updated_at=_NOW + 6,
        version=6,
    )
    law.equal(await health(store), wanted, "counters, times and version, every digit of them")
    await recorded(store, "two", stats("failed", tool="two", at=_NOW + 1))
    await recorded(store, "three", stats("failed", tool="two", at=_NOW + 2))
    await recorded(store, "four", stats("served", tool="two", at=_NOW + 3))
    two = await health(store, "two")
    law.equal((two.consecutive_failures, two.completions), (2, 1), "a served result says nothing about the tool")
    law.equal(two.last_error, f"at {_NOW + 2}", "the last error stays on record")
    law.equal(two.first_success_at, _NOW + 3, "the first success may come after failures")
    await recorded(store, "refused", stats("none", tool="three"))
    await recorded(store, "unknown", stats("failed", tool=""))
    names = sorted(each.tool for each in await store.tool_health("", "t"))
    law.equal(names, ["tool", "two"], "`none`, or no tool, leaves no health")
    law.equal(await _counted(store), 12, "every outcome is in the figures")


@laws.opened(ALIVE)
async def outcomes_count_with_their_append_or_not_at_all(store: Store) -> None:
    first = await created(store, "a")
    outcome = stats("failed")
    end = news(first, state=State.FAILED, ended_at=200.0, stats=outcome)
    rival = news(first, state=State.CANCELLED, ended_at=200.0, stats=outcome)
    answers = await append(store, end, rival)
    law.equal([type(a) for a in answers], [type(None), Stale], "one of two outcomes is accepted")
    law.equal((await _counted(store), (await health(store)).failures), (1, 1), "one outcome is counted")
    again = news(first, state=State.FAILED, ended_at=200.0, stats=outcome)
    law(isinstance((await append(store, again))[0], Stale), "an append that was taken is Stale when it comes again")
    taken = creation("a")
    taken.state = State.FAILED
    taken.ended_at = 200.0
    taken.stats = outcome
    law(isinstance((await append(store, taken))[0], Duplicate), "a taken identity is a Duplicate")
    fenced = news(await created(store, "b"), state=State.FAILED, ended_at=200.0, fence=7, stats=outcome)
    law(isinstance((await append(store, fenced))[0], Stale), "a wrong fence is Stale")
    ghost = news(creation("ghost"), state=State.FAILED, ended_at=200.0, stats=outcome)
    law(isinstance((await append(store, ghost))[0], Stale), "news of an unknown call are Stale")
    law.equal(
        (await _counted(store), await health(store)), (1, health_after(None, outcome)), "refused appends do not count"
    )
    late = news(end, state=State.FAILED, fence=-1, stats=outcome)
    law.equal(await append(store, late), [None], "an outsider's late result is kept")
    for fence in (1, -1):
        await append(store, news(late, state=State.FAILED, ended_at=201.0, fence=fence, stats=outcome))
    law.equal((await _counted(store), (await health(store)).version), (1, 1), "after its end a call adds nothing")
    await append(store, news(await created(store, "c"), stats=outcome))
    law.equal((await _counted(store), (await health(store)).version), (1, 1), "stats before the outcome count nothing")


@laws.opened(ALIVE)
async def an_ending_that_cannot_be_stored_counts_nothing(store: Store) -> None:
    changes = [creation(id) for id in ("before", "poison", "after")]
    for change in changes:
        change.state, change.ended_at, change.stats = State.FAILED, 200.0, stats("failed", cause="x")
    changes[1].unit = rows_of([an_event("poison", 1, "created", State.PENDING, {"tool": "tool", "text": "\ud800"})])
    changes[1].stats = stats("failed", cause="\ud800")
    before, bad, after = await append(store, *changes)
    law.equal((before, after), (None, None), "the others are stored")
    law.equal(await _counted(store), 2 if bad else 3, "refused whole, or kept whole")
    law.equal((await health(store)).failures, 2 if bad else 3, "refused or kept as a whole, in the health, too")
    change = creation("nul")
    change.state, change.ended_at, change.stats = State.FAILED, 200.0, stats("failed", cause="one\0two")
    law.equal(await append(store, change), [None], "whatever a tool's error says, its call ends")
    error = (await health(store)).last_error
    law(error.startswith("one") and error.endswith("two"), f"and the error is kept, as far as can be: {error!r}")


@laws.opened(ALIVE)
async def outcomes_of_a_group_are_each_counted_in_order(store: Store) -> None:
    weights: Sequence[HealthEffect] = ("failed", "completed", "served", "failed", "none", "failed", "failed")
    outcomes = [
        stats(weights[n * n % 7], tool=f"tool{n % 3}", at=_NOW + n, seconds=n / 7, bucket=n % 2) for n in range(400)
    ]
    changes = [creation(f"c{n}", thread=f"t{n % 2}") for n in range(400)]
    for change, each in zip(changes, outcomes, strict=True):
        change.state = State.COMPLETED
        change.ended_at = each.at
        change.stats = each
    law.equal(await append(store, *changes), [None] * 400, "calls that begin and end at once")
    for thread in range(2):
        wanted: dict[str, ToolHealth] = {}
        for each in (t for t in outcomes[thread::2] if t.effect != "none"):
            wanted[each.tool] = health_after(wanted.get(each.tool), each)
        found = {each.tool: each for each in await store.tool_health("", f"t{thread}")}
        law.equal(found, wanted, "a group counts as if its calls had ended one by one")
    figures = await store.figures()
    law.equal(sum(figure.count for figure in figures), 400, "each outcome is counted")
    law(
        isclose(sum(figure.seconds for figure in figures), sum(t.seconds for t in outcomes)), "the seconds are added up"
    )


@laws.opened(ALIVE)
async def figures_add_up(store: Store) -> None:
    law.equal(await store.figures(), [], "no figures yet")
    times = (0.1 + 0.2, 7.3e-05, 1234.5678901234567)
    for n, seconds in enumerate(times):
        await recorded(store, f"c{n}", stats(seconds=seconds), caller="one")
    (figure,) = await store.figures("one")
    names = (figure.caller, figure.tool, figure.outcome, figure.error, figure.bucket)
    law.equal(names, ("one", "tool", "completed", "", 90), "what they have in common")
    law.equal((figure.count, figure.least, figure.most), (3, min(times), max(times)), "count, least and most")
    law(isclose(figure.seconds, sum(times)), f"the sum: {figure.seconds}, not {sum(times)}")
    others: list[dict[str, Any]] = [{"bucket": bucket} for bucket in (91, None, -372, 0)]
    others += [{"outcome": "x"}, {"error": "e"}, {"tool": ""}]
    for n, other in enumerate(others):
        await recorded(store, f"d{n}", stats(**other), caller="one")
    await recorded(store, "other", stats(), caller="two")
    await recorded(store, "elsewhere", stats(), caller="two", thread="u")
    await recorded(store, "nobody", stats(), caller="")

    def key(figure: Figure) -> tuple[object, ...]:
        return (figure.tool, figure.outcome, figure.error, figure.bucket)

    wanted = {
        ("tool", "completed", "", 90): 3,
        **dict.fromkeys((("tool", "completed", "", bucket) for bucket in (91, None, -372, 0)), 1),
        ("tool", "x", "", 90): 1,
        ("tool", "completed", "e", 90): 1,
        ("", "completed", "", 90): 1,
    }
    law.equal({key(f): f.count for f in await store.figures("one")}, wanted, "what differs is counted apart")
    law.equal(
        [(key(f), f.count) for f in await store.figures("two")], [(("tool", "completed", "", 90), 2)], "by caller"
    )
    law.equal((await _counted(store, ""), await _counted(store, "nobody")), (1, 0), "no name is a caller, too")
    law.equal(await _counted(store), 13, "the figures of all callers")


# Tool health.


@laws.opened(ALIVE)
async def tool_health_is_written_with_the_current_version(store: Store) -> None:
    mine = ToolHealth(tool="tool", status="maintenance", reason="r", by="me", announced="maintenance", updated_at=5.5)
    law(not await store.put_tool_health("", "t", mine, 1), "nothing of version 1 is stored")
    law.equal(await store.tool_health("", "t"), [], "a refused write leaves nothing")
    law(await store.put_tool_health("", "t", mine, 0), "a write that expects version 0 creates the health")
    law(not await store.put_tool_health("", "t", ToolHealth(tool="tool"), 0), "health is created only once")
    (found,) = await store.tool_health("", "t")
    law.equal(
        (found.version, found.status, found.reason, found.by),
        (1, "maintenance", "r", "me"),
        "health is kept as written",
    )
    law.equal((found.announced, found.updated_at), ("maintenance", 5.5), "all fields are written")
    await recorded(store, "a", stats("failed", cause="boom"))
    (found,) = await store.tool_health("", "t")
    law.equal((found.version, found.failures, found.status), (2, 1, "maintenance"), "an outcome is a write, too")
    law.equal((found.reason, found.by, found.announced), ("r", "me", "maintenance"), "an outcome keeps the set status")
    law(not await store.put_tool_health("", "t", mine, 1), "a writer that missed an outcome is refused")
    whole = ToolHealth(
        tool="tool",
        completions=7,
        failures=8,
        consecutive_failures=9,
        first_success_at=_NOW,
        last_success_at=None,
        last_failure_at=_NOW + 1,
        last_error="e",
        updated_at=_NOW,
        version=77,
    )
    law(await store.put_tool_health("", "t", whole, 2), "a write that expects the current version is accepted")
    fields = [name for name in ToolHealth.__struct_fields__ if name != "version"]
    got = await health(store)
    law.equal([getattr(got, f) for f in fields], [getattr(whole, f) for f in fields], "the whole health is written")
    law.equal(got.version, 3, "the store sets the next version")
    law(await store.put_tool_health("", "t", ToolHealth(tool="other"), 0), "another tool has its own health")
    law.equal((await health(store)).version, 3, "health of another tool is not affected")


@laws.opened(ALIVE)
async def callers_and_threads_are_apart(store: Store) -> None:
    places = [("", "a:b"), ("a", "b"), ("a:b", "c"), ("a", "b:c"), ("b", "a"), ("", "ab"), ("ab", "a")]
    for n, (caller, thread) in enumerate(places):
        for turn in range(n + 1):
            await recorded(store, f"c{n}-{turn}", stats("failed"), caller=caller, thread=thread)
    for n, (caller, thread) in enumerate(places):
        found = await store.tool_health(caller, thread)
        law.equal([each.failures for each in found], [n + 1], f"only what {caller!r} did in {thread!r}")
    law.equal(await store.tool_health("a", "nowhere"), [], "a thread that nothing is known of")


@laws.opened(ALIVE)
async def hostile_names_are_only_text(store: Store) -> None:
    for n, text in enumerate(HOSTILE):
        outcome = stats("failed", tool=text, error=text, outcome=text, cause=text * 20)
        await recorded(store, f"c{n}", outcome, caller=text, thread=text)
        status = ToolHealth(tool=text + "!", status=text, reason=text, by=text, announced=text)
        law(await store.put_tool_health(text, text, status, 0), "a name is a name")
        law(await store.put_document(text, text, text.encode() * 100, 0), "any text may be the name of a document")
    for text in HOSTILE:
        failed = await health(store, text, caller=text, thread=text)
        law.equal((failed.failures, failed.last_error), (1, text * 20), f"{text!r} came back")
        put = await health(store, text + "!", caller=text, thread=text)
        law.equal((put.status, put.reason, put.by, put.announced), (text,) * 4, f"{text!r} came back")
        (figure,) = await store.figures(text)
        law.equal((figure.tool, figure.outcome, figure.error), (text,) * 3, f"{text!r} was counted")
        law.equal([(p.key, p.body) for p in await store.documents(text)], [(text, text.encode() * 100)], "it is kept")


@laws.opened(ALIVE)
async def idle_tool_health_goes_and_nothing_else(store: Store) -> None:
    for n in range(5):
        await recorded(store, f"c{n}", stats(tool=f"tool{n}", at=200.0 + n), thread=f"t{n % 2}")
    await store.put_tool_health("", "t0", ToolHealth(tool="old", updated_at=200.5), 0)
    await store.put_tool_health("", "t0", ToolHealth(tool="new", updated_at=900.0), 0)
    await store.put_tool_health("", "t1", ToolHealth(tool="by hand", status="maintenance", updated_at=1.0), 0)
    await store.put_document("kind", "key", b"1", 0)
    await store.audit([b"1"])
    figures = sorted(map(str, await store.figures()))
    keep = Keep(health_since=202.0)

    async def names() -> list[str]:
        found = [*await store.tool_health("", "t0"), *await store.tool_health("", "t1")]
        return sorted(each.tool for each in found)

    every = await names()
    would = await store.sweep(keep, 100, dry=True)
    law.equal((would.calls, would.bytes, await names()), (0, 0, every), "a dry step takes none, and counts none")
    await store.sweep(Keep(), 100)
    law.equal(await names(), every, "without a bound all health stays")
    step = await store.sweep(keep, 100)
    law.equal((step.calls, step.bytes, step.more), (0, 0, False), "removed health counts neither as calls nor as bytes")
    law.equal(await names(), ["by hand", "new", "tool2", "tool3", "tool4"], "idle health is removed")
    law.equal(await seqs(store, "c0"), [1, 2], "no call goes with them")
    law(await store.put_tool_health("", "t0", ToolHealth(tool="old"), 0), "what is gone may be created again")
    while (await store.sweep(Keep(calls=0, health_since=1e12), 3)).more:
        pass
    law.equal(
        (await names(), await store.history(Query())),
        (["by hand"], []),
        "all may go, in steps, but for what a person set",
    )
    law.equal(sorted(map(str, await store.figures())), figures, "figures stay")
    law.equal(
        (len(await store.documents("kind")), len(await store.audited())), (1, 1), "and so do documents and the log"
    )
