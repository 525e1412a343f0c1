"""Every crash test runs over every durable store; the number of kills and their findings are printed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.driver import WIDTH, OutcomeStats, table
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.crash.stores import STORES, Fresh, Row


def _params() -> Iterator[Any]:
    """Durability against a loss of power is not a subject of a kill: where a test does not name its stores, the slow form has it."""
    for name, row in STORES.items():
        yield pytest.param(name, marks=pytest.mark.slow if row.durability == "power" else ())


@pytest.fixture(scope="session", params=_params())
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Row, Fresh]]:
    """A store of each kind that can create empty databases."""
    row = STORES[request.param]
    with row.serve() as fresh:
        yield row, fresh


@pytest.fixture
def place(served: tuple[Row, Fresh], tmp_path: Path) -> Place:
    """An empty store, and the test's own folder."""
    row, fresh = served
    return Place(store=fresh(tmp_path), folder=str(tmp_path), durability=row.durability)


@pytest.fixture(scope="session")
def _nests() -> Iterator[list[Nest]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Nest()) for _ in range(2 * WIDTH)]


@pytest.fixture
def nests(_nests: list[Nest]) -> Iterator[list[Nest]]:
    """Enough for two runs at a time."""
    yield _nests
    for nest in _nests:
        nest.tidy()


@pytest.fixture
def nest(nests: list[Nest]) -> Nest:
    return nests[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for group in ("passed", "failed") for report in terminalreporter.getreports(group)]
    stats_list = [value for report in reports for name, value in report.user_properties if name == "crash"]
    if stats_list:
        terminalreporter.section("kills")
        terminalreporter.write_line(table(msgspec.convert(stats_list, list[OutcomeStats])))
