"""Calls as steps of DBOS workflows. The process is killed and restarted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.engine_tools import runs
from tests.engines.programs import kill, program, start_program
from tests.kit.waiting import eventually_sync
from tests.postgres_server import postgres_server

pytestmark = [pytest.mark.engines, pytest.mark.timeout(180)]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('dbos')}/dbos.sqlite"
        return
    with postgres_server() as server:
        yield server.url()


@pytest.mark.parametrize(("tool", "expected"), [("pay", {"code": "outcome_unknown"}), ("look_up", {"output": 2})])
def test_a_step_whose_process_is_killed(database: str, tmp_path: Path, tool: str, expected: object) -> None:
    path = tmp_path / "runs"
    given = (database, f"sqlite:///{tmp_path}/calls.db", f"order-{tool}", tool, str(path))
    first = start_program("dbos_worker.py", *given)
    eventually_sync(lambda: runs(path))
    kill(first)
    with program("dbos_worker.py", *given) as second:
        assert second.stdout is not None
        assert json.loads(second.stdout.readline()) == expected
    assert len(runs(path)) == (1 if tool == "pay" else 2)
