"""Edge cases of the limits: bytes that no counter sees, memory that belongs to no process, timers that wake stopped
processes, processes left behind. As root, and as an ordinary user without cgroups."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.security.as_user import ROOT, as_user
from tests.security.edge_run import DISK, EDGES

from clicket.interpreter.sandbox.libc import machine

SCRIPT = str(ROOT / "tests" / "security" / "edge_run.py")


@pytest.mark.skipif(machine() != "x86_64", reason="the programs make system calls by this machine's numbers")
@pytest.mark.parametrize("user", ["root", "user"])
def test_edges(user: str) -> None:
    if user == "user":
        done = as_user([sys.executable, SCRIPT], timeout=200)
    else:
        done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    found: dict[str, Any] = json.loads(done.stdout)
    by_name = {result["name"]: result for result in found["results"]}
    wrong = []
    for edge in EDGES:
        result = by_name[edge.name]
        if tuple(result["outcome"]) != edge.outcome or edge.says not in result["stdout"] or not result["usable"]:
            wrong.append(result)
    assert not wrong, "\n".join(map(str, wrong))
    assert {result["level"] for result in found["results"]} == {"full"}
    assert tuple(found["left_behind"]) == DISK
