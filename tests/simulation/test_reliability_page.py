"""docs/reliability.md is what the data says, and the data is true of the tests and the history."""

from __future__ import annotations

import subprocess
import tomllib

from scripts.reliability import DATA, PAGES, ROOT, page
from tests.simulation import callers, clients, cluster, disk_faults, judging, operators, scene, world

RECORD = tomllib.loads(DATA.read_text("utf-8"))


def test_the_pages_are_made_of_the_data() -> None:
    for language, path in PAGES.items():
        assert path.read_text("utf-8") == page(language), "run make docs"


def test_tests_and_predicates_exist() -> None:
    named = {predicate.__name__.replace("_", " ") for predicate in judging.PREDICATES}
    sources = [(ROOT / "tests" / "simulation" / f"{module.__name__.rpartition('.')[2]}.py").read_text("utf-8") for module in
        (callers, clients, cluster, disk_faults, judging, operators, scene, world)]  # fmt: skip
    for guarantee in RECORD["guarantee"]:
        for test in guarantee["tests"]:
            assert (ROOT / test).is_file(), test
        for predicate in guarantee["predicates"]:
            known = predicate in named or predicate in ("lost", "repeated", "wrong")
            assert known or any(f'"{predicate}"' in source for source in sources), predicate


def test_every_predicate_belongs_to_a_guarantee() -> None:
    claimed = {predicate for guarantee in RECORD["guarantee"] for predicate in guarantee["predicates"]}
    named = {predicate.__name__.replace("_", " ") for predicate in judging.PREDICATES}
    assert named <= claimed


def test_commits_that_mended_faults_are_in_the_history() -> None:
    log = subprocess.run(["git", "log", "--format=%s"], cwd=ROOT, capture_output=True, text=True, check=False)
    if log.returncode:  # a checkout without its history
        return
    subjects = set(log.stdout.splitlines())
    if len(subjects) > 1_000:
        assert [fault["mended"] for fault in RECORD["fault"] if fault["mended"] not in subjects] == []
