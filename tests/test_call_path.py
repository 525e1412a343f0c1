"""What one plain call does, counted: functions, files, SQL statements, transactions, encodes. A change that adds to it
must be deliberate: raise a number here only with the reason in docs/design/0032-the-hot-path.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.call_path import crowd_of, path_of, step_of

MOST = {
    "memory": {
        "functions": 38, "files": 21, "foreign functions": 1, "encodes": 1, "decodes": 1,
        "statements": 0, "transactions": 0,
    },
    "sqlite": {
        "functions": 50, "files": 26, "foreign functions": 1, "encodes": 3, "decodes": 1,
        "statements": 7, "transactions": 2,
    },
}  # fmt: skip

MOST_IN_A_CROWD = {
    "functions": 52, "foreign functions": 11, "callbacks of the loop": 1, "transactions": 0.07, "prepared statements": 0.03,
}  # fmt: skip
"""For one of many calls, on average, on SQLite. Before calls were woken together it made 2.6 callbacks of the loop."""

MOST_IN_A_STEP = {
    "memory": {"functions": 148, "encodes": 2.2, "decodes": 3.1, "statements": 0, "transactions": 0},
    "sqlite": {"functions": 180, "encodes": 5.3, "decodes": 3.1, "statements": 13, "transactions": 2.4},
}
"""For a step of an agent: a request to the model and one tool call, both on record, and its spend in the ledger."""


@pytest.mark.parametrize("store", MOST)
async def test_a_plain_call_does_no_more_than_it_must(store: str, tmp_path: Path) -> None:
    path = await path_of("memory://" if store == "memory" else f"sqlite:///{tmp_path}/calls.db")
    counts = path.counts()
    more = {what: (count, MOST[store][what]) for what, count in counts.items() if count > MOST[store][what]}
    assert not more, "\n".join(f"{file} {name}" for file, name in path.functions) + f"\nmore than allowed: {more}"
    assert counts["functions"] > 20, "the count itself works"


async def test_a_call_among_many_does_no_more_than_it_must(tmp_path: Path) -> None:
    counts = await crowd_of(f"sqlite:///{tmp_path}/calls.db")
    more = {what: (count, MOST_IN_A_CROWD[what]) for what, count in counts.items() if count > MOST_IN_A_CROWD[what]}
    assert not more, f"more than allowed: {more}"
    assert counts["functions"] > 20, "the count itself works"


@pytest.mark.parametrize("store", MOST_IN_A_STEP)
async def test_a_step_of_an_agent_does_no_more_than_it_must(store: str, tmp_path: Path) -> None:
    counts = await step_of("memory://" if store == "memory" else f"sqlite:///{tmp_path}/calls.db")
    most = MOST_IN_A_STEP[store]
    more = {what: (count, most[what]) for what, count in counts.items() if count > most[what]}
    assert not more, f"more than allowed: {more}"
    assert counts["functions"] > 100, "the count itself works"
