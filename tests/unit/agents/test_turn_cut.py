"""Where a turn is cut: after a step whose calls all have results, in the turn itself and in its branches."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clicket.agents.entries import Begun, Reply, Result, Results, Use, entry_of
from clicket.agents.turn_cut import cut, unspent
from clicket.model.chat import Usage

SPENT = Usage(input_tokens=5, output_tokens=3)


def reply(step: int, *uses: str, branch: str = "") -> dict[str, Any]:
    entry = Reply(
        mark="a.1", tag="x", step=step, branch=branch, text="", uses=[Use(use, "pay", "{}") for use in uses], usage=SPENT,
        total=SPENT, took=1.0, spend={"model": "m"},
    )  # fmt: skip
    found: dict[str, Any] = msgspec.to_builtins(entry)
    return found


def results(step: int, *uses: str, branch: str = "") -> dict[str, Any]:
    items = [Result(id=use, tool="pay", call=f"c-{use}", text="", failed=False, usage=SPENT) for use in uses]
    found: dict[str, Any] = msgspec.to_builtins(Results(step=step, branch=branch, items=items, took=1.0))
    return found


BEGUN: dict[str, Any] = msgspec.to_builtins(Begun(turn=1, message="go", id="mine"))
TURN = [
    BEGUN,
    reply(1, "a", "b"),
    results(1, "a"),
    reply(1, "c", branch="1-1"),
    results(1, "b"),
    results(1, "c", branch="1-1"),
    reply(2),
    reply(3, "d"),
    results(3, "d"),
    reply(4),
]


@pytest.mark.parametrize(
    ("entries", "step", "left"),
    [
        (TURN, 1, [0, 1, 2, 4]),  # the call of the branch has no result by then
        (TURN, 2, [0, 1, 2, 3, 4, 5, 6]),
        (TURN, 3, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (TURN, 4, None),  # it ends the turn
        (TURN, 9, None),
        (TURN[:3], 1, None),  # a call runs
        ([], 1, None),
    ],
)
def test_a_cut_leaves_no_call_without_a_result(
    entries: list[dict[str, Any]], step: int, left: list[int] | None
) -> None:
    found = cut(entries, step)
    assert found == (None if left is None else [entries[place] for place in left])


def test_what_a_turn_has_spent_stays_behind() -> None:
    for raw in unspent(TURN):
        entry = entry_of(raw)
        if isinstance(entry, Reply):
            assert (entry.usage, entry.total, entry.spend) == (Usage(), Usage(), None)
        if isinstance(entry, Results):
            assert [item.usage for item in entry.items] == [None] * len(entry.items)
        if isinstance(entry, Begun):
            assert (entry.message, entry.id) == ("go", "")
