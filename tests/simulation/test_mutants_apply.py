"""The planted mistakes stay in step with the source: each still applies, compiles, and leaves a simple call as it is."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from tests.kit.children import ROOT, environment
from tests.simulation.mutants import AREAS, MUTANTS, Change, Mutant
from tests.simulation.planted import DoesNotApply, by_file, changed, module_of, mutant_named, product_folder

PLAIN = "memory completed 3\nsubmitted 4\nagent finished 5\nsqlite completed 7\n"
LEAST = {"calls": 10, "leases": 6, "people": 4, "external": 2, "cache": 2, "slots": 2, "schedules": 2, "spend": 3, "agents": 5,
    "webhooks": 1, "store": 2, "server": 2, "credentials": 2, "retention": 3, "messages": 5,
    "middleware": 5, "models": 3, "handoffs": 2, "memory": 2}  # fmt: skip
"""Mutants of each area."""


def planted(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation.planted", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=600, check=False
    )


def test_every_mutant_applies_and_compiles() -> None:
    """One test for all: it says at once which mutants a change of the source has left behind."""
    folder, refused = product_folder(), list[str]()
    for mutant in MUTANTS:
        for file, changes in by_file(mutant).items():
            source = (folder / file).read_text(encoding="utf-8")
            try:
                after = changed(source, changes)
                compile(after, file, "exec")
            except (DoesNotApply, SyntaxError) as error:
                refused.append(f"{mutant.name}: {error}")
            else:
                assert after != source
        assert mutant.breaks.endswith("."), mutant.name
    assert refused == []


def test_names_are_unique_and_every_area_has_its_share() -> None:
    counts = Counter(mutant.area for mutant in MUTANTS)
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 36
    assert len({mutant.changes for mutant in MUTANTS}) == len(MUTANTS)
    assert {area: count for area, count in counts.items() if count < LEAST[area]} == {}
    assert set(counts) == set(AREAS)


@pytest.mark.parametrize(("old", "count"), [("no such text", 0), ("import", 2)])
def test_text_that_is_not_there_once_is_refused(old: str, count: int) -> None:
    with pytest.raises(DoesNotApply, match=f"is there {count} times, not once"):
        changed("import a\nimport b\n", [Change("errors.py", old, "x")])


def test_names_of_modules_and_unknown_mutants() -> None:
    assert module_of("engine/slots/gate.py") == "clicket.engine.slots.gate"
    assert module_of("engine/__init__.py") == "clicket.engine"
    with pytest.raises(KeyError, match="SQLite does not compare the fence"):
        mutant_named("SQLite does not compare fences")


def test_a_fresh_interpreter_gets_the_mutant_and_no_file_is_written() -> None:
    program = (
        "import sys\n"
        "from tests.simulation.planted import plant\n"
        "from tests.simulation.mutants import Change, Mutant\n"
        "change = Change('errors.py', '__all__ = [\\n', 'PLANTED = True\\n__all__ = [\\n')\n"
        "probe = Mutant('a probe', 'calls', (change,), '')\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'clicket']\n"
        "plant(probe)\n"
        "import clicket.errors\n"
        "print(clicket.errors.PLANTED, 'PLANTED' in open(clicket.errors.__file__).read())\n"
        "try:\n"
        "    plant(probe)\n"
        "except RuntimeError as refused:\n"
        "    print(refused)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "True False",
        "clicket.errors is imported already: plant 'a probe' before the first import of clicket.",
    ], done.stderr
    import clicket.errors

    assert not hasattr(clicket.errors, "PLANTED")


def test_the_command_says_what_is_wrong() -> None:
    done = planted("SQLite does not compare fences", "tests.simulation.plain_call")
    assert done.returncode == 2
    assert "SQLite does not compare the fence" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_simple_call_completes_with_it(mutant: Mutant) -> None:
    """In memory; also one in SQLite, and an agent's turn. The mistakes show only under some order of events."""
    done = planted(mutant.name, "tests.simulation.plain_call")
    assert (done.returncode, done.stdout, done.stderr) == (0, PLAIN, "")
