"""What one plain call costs in I/O, counted: SQL statements, transactions, encodes, decodes, iterations of the loop. A change that adds to
it must be deliberate: raise a number here only with the reason in docs/design/0013-the-hot-path.md. How fast it is beside its peers is
for `make bench`."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.call_path import crowd_of, path_of, step_of

MOST = {
    "memory": {"encodes": 1, "decodes": 1, "statements": 0, "transactions": 0},
    "sqlite": {"encodes": 3, "decodes": 1, "statements": 9, "transactions": 2},
}

MOST_IN_A_CROWD = {"callbacks of the loop": 1, "transactions": 0.07, "prepared statements": 0.03}
"""For one of many calls, on average, on SQLite. Before calls were woken together it made 2.6 callbacks of the loop."""

MOST_IN_A_STEP = {
    "memory": {"encodes": 2.2, "decodes": 3.1, "statements": 0, "transactions": 0},
    "sqlite": {"encodes": 5.3, "decodes": 3.1, "statements": 14, "transactions": 2.4},
}
"""For a step of an agent: a request to the model and one tool call, both on record, and its spend in the ledger. One
statement looks whether the turn is as its owner knows it, before a call of it is created."""


def over(counts: dict[str, float], most: dict[str, float]) -> dict[str, tuple[float, float]]:
    return {what: (counts[what], most[what]) for what in most if counts[what] > most[what]}


@pytest.mark.parametrize("store", MOST)
async def test_a_plain_call_does_no_more_than_it_must(store: str, tmp_path: Path) -> None:
    path = await path_of("memory://" if store == "memory" else f"sqlite:///{tmp_path}/calls.db")
    counts = path.counts()
    assert not over(counts, MOST[store]), "\n".join(path.statements)
    assert counts["functions"] > 20, "the count itself works"


async def test_a_call_among_many_does_no_more_than_it_must(tmp_path: Path) -> None:
    counts = await crowd_of(f"sqlite:///{tmp_path}/calls.db")
    assert not over(counts, MOST_IN_A_CROWD)
    assert counts["functions"] > 20, "the count itself works"


@pytest.mark.parametrize("store", MOST_IN_A_STEP)
async def test_a_step_of_an_agent_does_no_more_than_it_must(store: str, tmp_path: Path) -> None:
    counts = await step_of("memory://" if store == "memory" else f"sqlite:///{tmp_path}/calls.db")
    assert not over(counts, MOST_IN_A_STEP[store])
    assert counts["functions"] > 100, "the count itself works"
