"""An agent's step on SQLite takes two transactions: the model's reply with the start of its tool call, and the call's outcome."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.tools import add
from tests.scenarios.kit import make

from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel

STEPS = 6


async def test_an_answer_and_its_tool_call_are_one_commit(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.stores.sqlite.writer._SLOW", 1e9)  # on a busy machine writes would move to the thread
    commits: list[list[str]] = []
    async with make([add], sqlite) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("add", {"a": n, "b": n})] for n in range(STEPS)] + ["done"]))
        connection = rt.store._writer.connection  # type: ignore[attr-defined]  # SQLite's
        inside = False

        def trace(_: Any, sql: str, __: Any) -> bool:
            nonlocal inside
            if sql.startswith("BEGIN"):
                inside = True
                commits.append([])
            elif sql.startswith("COMMIT"):
                inside = False
            elif not sql.lstrip().startswith(("PRAGMA", "SELECT")):
                if not inside:
                    commits.append([])
                commits[-1].append(sql.split("(", maxsplit=1)[0].strip())
            return True

        connection.exec_trace = trace
        result = await agent.run("go", thread="t")
        connection.exec_trace = None
    assert result.text == "done"
    together = [each for each in commits if "INSERT INTO calls" in each and "INSERT INTO events" in each]
    assert len(together) >= STEPS, "the reply is committed with the start of its tool call"
    assert len(commits) <= 2 * STEPS + 8, "two for a step, and a few for the turn's own start, end and memory"
