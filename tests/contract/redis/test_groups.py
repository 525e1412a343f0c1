"""Units that one script writes together leave the server as they would one by one."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from tests.contract.redis.kit import Make

from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import State
from clicket.ports import Append, OutcomeStats, Store
from clicket.testing.store_kit import ANY_TOOL, append, creation, news, opened

_MANY = 45
"""More than two runs of the script take."""


def _outcome(number: int) -> OutcomeStats:
    failed = number % 7 == 0
    return OutcomeStats(
        tool="tool",
        outcome="failed" if failed else "completed",
        error="oops" if failed else "",
        bucket=number % 3 or None,
        seconds=0.25 * number,
        effect="failed" if failed else "completed",
        at=200.0 + number,
        cause="why" if failed else "",
        shared=number % 2 == 0,
    )


async def _lives(store: Store, *, together: bool) -> list[str]:
    """Calls from their creation to their end, in groups or one by one; what the store answered to each append."""
    answers: list[str] = []

    async def write(changes: list[Append]) -> None:
        groups = [changes] if together else [[change] for change in changes]
        errors: list[ClicketError | None] = [error for group in groups for error in await append(store, *group)]
        answers.extend(type(error).__name__ for error in errors)

    def new(number: int) -> Append:
        places = {"thread": f"t{number % 4}", "caller": f"c{number % 3}" if number % 5 else ""}
        change = creation(f"call{number}", **places, priority=number % 2)
        change.owned = number % 3 == 0
        return change

    calls = [new(number) for number in range(_MANY)]
    await write([*calls, *map(new, range(8, _MANY, 9))])  # these are there already, one of them by the same run
    starts = [
        news(call, state=State.RUNNING) if call.owned else news(call, state=State.RUNNING, fence=2, claim=True)
        for call in calls
    ]
    claimed_before = [news(call, state=State.RUNNING, fence=2, claim=True) for call in calls[1::10]]
    await write([*starts, *claimed_before])
    ends: list[Append] = []
    for number, start in enumerate(starts):
        if number % 8 == 0:
            ends.append(news(start, state=State.RUNNING, owned=False, queue=f"queue{number % 16}"))
        elif number % 8 == 1:
            ends.append(news(start, state=State.RUNNING, waiting_for="approval"))
        else:
            ends.append(news(start, state=State.COMPLETED, ended_at=200.0 + number, stats=_outcome(number)))
    await write([*ends, *ends[::6]])
    return answers


def _content(raw: Any, prefix: str) -> dict[str, Any]:
    """Every list and row of a store. Values that scripts packed are unpacked: their fields have no order."""
    base = f"{{{prefix}}}:"
    content: dict[str, Any] = {}
    for name in sorted(key.decode() for key in raw.scan_iter(f"{base}*")):
        kind, short = raw.type(name), name.removeprefix(base)
        if short.startswith("document:"):
            continue  # the secret of each store
        if short == "meta":
            content[short] = raw.hget(name, "ended_bytes")
        elif kind == b"zset":
            content[short] = raw.zrange(name, 0, -1, withscores=True)
        elif kind == b"set":
            content[short] = raw.smembers(name)
        elif kind == b"stream":
            content[short] = raw.xrange(name)
        elif kind == b"hash":
            packed = short.startswith(("tool_health:", "figures:", "tombs"))
            unpack = msgspec.msgpack.decode if packed else bytes
            content[short] = {field: unpack(value) for field, value in raw.hgetall(name).items()}
    return content


async def test_a_group_leaves_what_its_units_leave_one_by_one(make: Make, raw: Any, prefix: str) -> None:
    found = []
    for together in (True, False):
        name = f"{prefix}-{together}"
        async with opened(partial(make, prefix=name)) as store:
            answers = await _lives(store, together=together)
            claimed = await store.claim_waiting(frozenset({"queue0", "queue8"}), 4)
            found.append((answers, [(stored.id, stored.fence) for stored in claimed], _content(raw, name)))
    (answers, claimed_then, content), (answers_alone, claimed_alone, content_alone) = found
    assert answers == answers_alone
    assert {"NoneType", "Duplicate", "Stale"} == set(answers)
    assert claimed_then == claimed_alone
    assert len(claimed_then) == 4
    assert content.keys() == content_alone.keys()
    for key, value in content.items():
        assert value == content_alone[key], key


async def test_a_spoiled_list_affects_no_other_list(make: Make, raw: Any, prefix: str) -> None:
    async with opened(make) as store:
        raw.set(f"{{{prefix}}}:thread:spoiled", "a text")
        changes = [creation(f"call{number}", thread="spoiled" if number == 3 else "t") for number in range(6)]
        for change in changes:
            change.owned = False
        errors = await append(store, *changes)
        assert isinstance(errors[3], StoreUnavailable)
        assert {stored.id for stored in await store.claim_waiting(ANY_TOOL, 10)} == {f"call{n}" for n in range(6)}
