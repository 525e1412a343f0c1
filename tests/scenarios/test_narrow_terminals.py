"""Lists on a narrow terminal: ids and states are complete, other columns are omitted; `ps --watch` refreshes."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url

from clicket import Policy, Rule, tool
from clicket.cli.columns import Column, fitted
from clicket.cli.commands.ps import ps as ps_module
from clicket.kernel import State
from clicket.runtime import blocking as sync


@tool
async def a_tool_with_quite_a_long_name(text: str) -> str:
    return text


@tool(max_retries=0)
async def fails() -> None:
    raise ValueError("a long story about what went wrong, which nobody wants to miss but which does not fit")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, sqlite_url(tmp_path), "", USER="ann", LOGNAME="ann")


IDS = ("order-2026-11-16-0000000001", "mail-to-somebody-with-a-long-name")
THREAD = "a-conversation-with-a-rather-long-name"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_ids_and_states_are_never_cut(place: Place, width: int) -> None:
    with sync.Runtime([a_tool_with_quite_a_long_name, fails], store=place.store) as rt:
        for id in IDS:
            rt.acting_for("key-1").call("a_tool_with_quite_a_long_name", {"text": "x" * 100}, id=id, thread=THREAD)
        rt.call("fails", id="f", thread=THREAD)
        made = rt.call("fails", thread=THREAD)
    output = place.inside("ps", "--all", COLUMNS=str(width)).stdout
    lines = output.splitlines()
    assert all(len(line.rstrip()) <= width for line in lines), output
    if width >= 60:
        for id in IDS:
            (line,) = [line for line in lines if id in line]
            assert str(State.COMPLETED) in line
        assert any(made.call_id[:14] in line and "failed" in line for line in lines)
    else:
        assert all(id in output.replace("\n", "").replace(" ", "") or id[:20] in output for id in IDS)


def test_columns_that_matter_less_go_first(place: Place) -> None:
    with sync.Runtime([a_tool_with_quite_a_long_name], store=place.store) as rt:
        rt.call("a_tool_with_quite_a_long_name", {"text": "hello"}, id=IDS[0], thread=THREAD)
    heads = {width: place.inside("ps", "-a", COLUMNS=str(width)).stdout.split("\n")[0].split() for width in (80, 160)}
    assert {"ID", "STATE", "TOOL"} <= set(heads[80]) < set(heads[160])
    assert {"CREATED", "TOOK", "TRIES", "THREAD"} <= set(heads[160])
    assert "CREATED" not in heads[80]


def test_what_waits_for_approval_is_listed_whole(place: Place) -> None:
    policy = Policy(rules=[Rule(verdict="ask", tools=["*"], reason="a long reason " * 5)])
    with sync.Runtime([a_tool_with_quite_a_long_name], store=place.store, policy=policy) as rt:
        for id in IDS:
            rt.submit("a_tool_with_quite_a_long_name", {"text": "x" * 100}, id=id, thread=THREAD)
        output = place.inside("approve", COLUMNS="80").stdout
    assert all(any(id in line for line in output.splitlines()) for id in IDS), output
    assert all(len(line.rstrip()) <= 80 for line in output.splitlines()), output


def test_keys_are_listed_whole(place: Place) -> None:
    name = "the-agents-of-the-department-for-very-long-names"
    made = [place.ask("keys", "create", "--name", f"{name}-{n}", "--scopes", "read,call,approve")["id"] for n in (1, 2)]
    output = place.inside("keys", "list", COLUMNS="60").stdout
    for id in made:
        (line,) = [line for line in output.splitlines() if id in line]
        assert "valid" in line
    assert all(len(line.rstrip()) <= 60 for line in output.splitlines()), output


def test_a_kept_cell_that_is_wider_than_the_terminal_is_folded() -> None:
    table = fitted([Column("ID", ["x" * 50], keep=True), Column("TOOL", ["pay"], rank=1)], 30)
    console = Console(width=30)
    with console.capture() as captured:
        console.print(table)
    assert captured.get().replace("\n", "").replace(" ", "").count("x") == 50
    assert "pay" not in captured.get()


async def test_watch_prints_each_change(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from clicket import Runtime
    from clicket.cli.context import Context
    from clicket.cli.terminal import Terminal

    monkeypatch.setattr(sys.modules["clicket.cli.commands.ps"], "LOOK_EVERY", 0.01)
    lines: list[str] = []
    monkeypatch.setattr(Terminal, "write", lambda self, text: lines.append(text))
    async with Runtime([a_tool_with_quite_a_long_name], store=place.store) as rt:
        context = Context(Terminal(json=True), store=place.store)
        watching = asyncio.create_task(ps_module(context, all=True, watch=True))
        while not lines:
            await asyncio.sleep(0.01)
        for number in (1, 2):
            await rt.call("a_tool_with_quite_a_long_name", {"text": "x"}, id=f"n{number}")
            while f'"n{number}"' not in lines[-1]:
                await asyncio.sleep(0.01)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
    ids = [[item["id"] for item in json.loads(line)["items"]] for line in lines]
    assert ids[0] == []
    assert ids[-1] == ["n2", "n1"]
    assert all(before != after for before, after in pairwise(lines)), "only changes"
