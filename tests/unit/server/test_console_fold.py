"""The console's fold of events (`web/src/model/fold.ts`) gives the rows and records that the server's own fold gives."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.kit.call_histories import history_by
from tests.mcp.npm_tools import NODE

from clicket.model import fold
from clicket.server.schemas import record_json, summary_of

HISTORIES = 2_000
ROOT = Path(__file__).resolve().parents[3]


class Node:
    def __init__(self) -> None:
        script, fold = Path(__file__).with_name("console_fold.mjs"), ROOT / "web" / "src" / "model" / "fold.ts"
        self.process = subprocess.Popen(
            [NODE / "node", "--disable-warning=ExperimentalWarning", script, fold.as_uri()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def fold(self, **given: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(given)}\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    node = Node()
    yield node
    node.close()


def difference(node: Node, seed: int) -> str:
    """What the console has otherwise than the server; empty: nothing."""
    chance = Random(seed)
    history = history_by(chance)
    cut = chance.randint(1, len(history))
    known, whole = fold(history[:cut]), fold(history)
    place = {"thread": "t", "caller": "", "tool": "pay"}
    events = [{**msgspec.to_builtins(event), **place} for event in history]
    record, row = json.loads(record_json(known)), msgspec.to_builtins(summary_of(known))
    loaded, seen = (
        node.fold(record=record, row=row, events=events[cut:]),
        node.fold(record=record, row=None, events=events),
    )
    found = loaded["record"] | {"events": len(loaded["record"]["events"])}
    wanted = json.loads(record_json(whole)) | {"events": len(history)}
    wanted_row = msgspec.to_builtins(summary_of(whole))
    wrong = differing(found, wanted) + differing(loaded["row"], wanted_row) + differing(seen["row"], wanted_row)
    return "\n".join([f"seed {seed}, the first {cut} loaded:", *map(str, events), *wrong]) if wrong else ""


def differing(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Without what only the server has: the model's text, and the hash of a question. The console loads both."""
    for each in (found, wanted):
        each.pop("content", None)
        if each["approval"]:
            each["approval"]["hash"] = ""
    assert found.keys() == wanted.keys()
    return [f"{name}: {found[name]!r}, not {wanted[name]!r}" for name in wanted if found[name] != wanted[name]]


def test_the_console_knows_what_the_server_knows(node: Node) -> None:
    """Whether a call was loaded after some of its events, or made while the list was open."""
    wrong = [text for seed in range(HISTORIES) if (text := difference(node, seed))]
    assert not wrong, f"{len(wrong)} of {HISTORIES}, such as:\n{min(wrong, key=len)}"
