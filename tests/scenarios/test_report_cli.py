"""`clicket report` for people and programs: the same numbers, whatever the terminal can draw."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from math import ceil
from pathlib import Path

import pytest
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.unit.telemetry.test_report import failure, figure

from clicket.cli.chart import bars, lines
from clicket.cli.terminal import Terminal
from clicket.model.figures import PER_DOUBLING, Figure

TOOLS = """
from clicket import tool

@tool
def add(a: int, b: int) -> int:
    return a + b

@tool(failure_threshold=100)
def breaks() -> None:
    raise ValueError("no")
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "report_tools.py").write_text(TOOLS)
    place = Place(tmp_path, sqlite_url(tmp_path), "report_tools")
    yield place
    place.close()


@pytest.fixture(scope="module")
def calls_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store of eleven calls."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "report_tools.py").write_text(TOOLS)
    place = Place(folder, sqlite_url(folder), "report_tools")
    for _ in range(5):
        assert place.inside("call", "add", "a=1", "b=2").returncode == 0
        assert place.inside("call", "breaks").returncode == 1
    assert place.inside("call", "add", "a=x").returncode == 1
    place.close()
    return folder


@pytest.fixture
def used(place: Place, calls_made: Path) -> Place:
    shutil.copytree(calls_made, place.folder, dirs_exist_ok=True)
    return place


def test_nothing_yet_is_no_error(place: Place) -> None:
    done = place.inside("report")
    assert (done.returncode, done.stdout) == (0, "")
    assert "there is no store" in done.stderr
    report = place.ask("report")
    assert (report["tools"], report["totals"]["total"], report["anomalies"]) == ({}, 0, [])


def test_programs_get_every_number(used: Place) -> None:
    report = used.ask("report")
    add, breaks = report["tools"]["add"], report["tools"]["breaks"]
    assert (add["total"], add["success"], add["failed"], add["errors"]) == (6, 5, 1, {"invalid_input": 1})
    assert breaks["success_rate"] == 0.0
    assert 0 < add["min"] <= add["p50"] <= add["p99"] <= add["max"]
    assert report["totals"]["total"] == 11
    (ill,) = report["anomalies"]
    assert (ill["tool"], ill["kind"], ill["runs"]) == ("breaks", "success_rate", 5)


def test_the_journal_says_the_same(used: Place) -> None:
    sums, journal, recent = (
        used.ask("report"),
        used.ask("report", "--from-journal"),
        used.ask("report", "--since", "1h"),
    )
    assert (sums["source"], journal["source"], recent["source"]) == ("figures", "journal", "journal")
    assert journal["since"] is None
    assert recent["since"] > 0
    for name, tool in sums["tools"].items():
        for field, value in tool.items():
            for other in (journal, recent):
                found = other["tools"][name][field]
                assert found == (pytest.approx(value) if isinstance(value, float) else value), (name, field)
    assert used.ask("report", "--since", "0ms")["totals"]["total"] == 0


def test_people_get_a_table_a_picture_and_what_looks_ill(used: Place) -> None:
    done = used.inside("report")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    head, *rows = done.stdout.splitlines()
    assert head.split()[:3] == ["TOOL", "CALLS", "SUCCESS"]
    assert rows[0].split()[:7] == ["add", "6", "5", "1", "0", "0", "0"]
    assert rows[2].split()[:2] == ["(all)", "11"]
    assert "How long runs took" in done.stdout
    assert any(block in done.stdout for block in "▁▂▃▄▅▆▇█")
    assert "▲ breaks succeeded in 0% of 5 runs, under 80%" in done.stdout
    alone = used.inside("report", "--tool", "add").stdout
    assert "up to" in alone
    assert "100.0%" in alone
    assert "breaks" not in alone
    none = used.inside("report", "--tool", "none such")
    assert (none.returncode, none.stdout) == (0, "")
    assert "no call of none such has ended" in none.stderr


def test_a_while_longer_than_calls_are_kept_is_remarked(used: Place) -> None:
    assert "`retention`" in used.inside("report", "--since", "31d").stderr
    assert used.inside("report", "--since", "yesterday").returncode == 2


@pytest.mark.parametrize("columns", ["40", "80", "100", "200"])
def test_it_fits_the_terminal(used: Place, columns: str) -> None:
    done = used.inside("report", COLUMNS=columns)
    table = done.stdout.split("Anomalies")[0]
    assert done.returncode == 0
    assert max(len(line.rstrip()) for line in table.splitlines()) <= max(int(columns), 80)


def test_in_a_process_of_its_own_with_a_narrow_encoding(used: Place) -> None:
    done = used.run("report", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "! breaks succeeded" in done.stdout


# Charts.

WIDE = [figure(2.0**n * 1e-5, count=n + 1) for n in range(24)]


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("width", [10, 40, 80, 300])
@pytest.mark.parametrize("figures", [WIDE, [figure(1.0)], [figure(1.0, count=10**9), figure(1.1)]])
def test_whatever_happened_is_seen(figures: list[Figure], width: int, plain: bool) -> None:
    def text(table: object) -> str:
        terminal = Terminal()
        terminal.out.width = 400
        with terminal.out.capture() as said:
            terminal.out.print(table)
        return said.get()

    line = text(lines({"t": figures}, width, plain=plain)).splitlines()[1]
    marks = set(".:-=+*#@" if plain else "▁▂▃▄▅▆▇█")
    assert marks & set(line)
    rows = text(bars(figures, width, plain=plain)).splitlines()
    filled = [row for row in rows if row.split()[-2].strip() != "0"]
    assert len(filled) == len({ceil((f.bucket or 0) / PER_DOUBLING) for f in figures})
    assert all(set(row) & set("#" if plain else "█▉▊▋▌▍▎▏") for row in filled)
    assert rows[-1].split()[-1] == "100.0%"


def test_without_a_run_there_is_no_picture() -> None:
    assert lines({"t": [failure(None)]}, 80, plain=False) is None
    assert bars([failure(None)], 80, plain=False) is None
