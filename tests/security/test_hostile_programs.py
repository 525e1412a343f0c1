"""Every hostile program, in every tier, as root and as an ordinary user: its outcome, and that it leaves nothing on the
host."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.security.as_user import ROOT, as_user, uid
from tests.security.hostile_programs import FENCES, PROGRAMS, Hostile

PR_SET_CHILD_SUBREAPER = 36
SCRIPT = str(ROOT / "tests" / "security" / "hostile_run.py")
MARK = "canary-of-the-host-env"
OPEN = {
    "read a secret of the host",
    "write outside of the work folder",
    "connect by TCP",
    "send by UDP",
    "connect to a socket file of the host",
    "signal a process of the host",
    "see the host's processes",
}
"""What the weakest tier lets through; its reported gaps name it."""


def outcome(user: str, tier: str, programs: list[Hostile]) -> dict[str, Any]:
    """Programs in one tier, run by one child."""
    command = [sys.executable, SCRIPT, json.dumps({"tier": tier, "programs": [program.name for program in programs]})]
    env = {"CLICKET_CANARY": MARK}
    if user == "user":
        done = as_user(command, env=env, timeout=240)
    else:
        whole = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **env}
        done = subprocess.run(command, env=whole, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# One test for all programs of a tier: they run concurrently in one child.
@pytest.mark.parametrize("user", ["root", "user"])
@pytest.mark.parametrize("tier", ["full", "partial", "process"])
def test_hostile_programs_are_held(user: str, tier: str) -> None:
    """Those that the tier stops, and those that the weakest tier is known to let through."""
    assert_held(user, tier, [p for p in of_tier(tier) if tier in p.held_by or p.name in OPEN])


@pytest.mark.slow
@pytest.mark.parametrize("user", ["root", "user"])
def test_programs_that_the_weakest_tier_does_not_stop_leave_it_usable(user: str) -> None:
    assert_held(user, "process", of_tier("process"))


def of_tier(tier: str) -> list[Hostile]:
    return [p for p in (PROGRAMS if tier == "full" else FENCES) if tier in p.held_by or not p.dangerous]


def assert_held(user: str, tier: str, programs: list[Hostile]) -> None:
    with adopting() as left:
        found = outcome(user, tier, programs)
    by_name = {result["name"]: result for result in found["results"]}
    assert sorted(by_name) == sorted(p.name for p in programs)
    complaints = [f"{p.name}: {why}: {by_name[p.name]}" for p in programs for why in wrongs(p, tier, by_name[p.name])]
    assert not complaints, "\n".join(complaints)
    through = {name for name, result in by_name.items() if "ESCAPED" in result.get("stdout", "")}
    assert through >= OPEN if tier == "process" else not through
    assert found["neighbour"] == "unharmed"
    assert found["uid"] == (uid() if user == "user" and os.getuid() == 0 else os.getuid())
    assert left == []


def wrongs(program: Hostile, tier: str, found: dict[str, Any]) -> Iterator[str]:
    """What differs from the expected outcome."""
    if "broken" in found:
        yield "the host was harmed"
        return
    if found["level"] != tier:
        yield "another level"
    if not found["usable"]:
        yield "the session cannot be used afterwards"
    if found["size"] > 4 * 1024 * 1024:
        yield "too much output kept"
    if tier not in program.held_by:
        return
    if "ESCAPED" in found["stdout"]:
        yield "it got through"
    if found["status"] not in program.status:
        yield f"status not one of {sorted(program.status)}"
    if (
        program.reason
        and found["status"] in ("killed", "crashed", "interrupted")
        and found["reason"] not in program.reason
    ):
        yield f"reason not one of {sorted(program.reason)}"
    if program.error and found["status"] == "error" and found["error"] != program.error:
        yield f"error is not {program.error}"
    if program.says not in found["stdout"]:
        yield f"did not say {program.says!r}"
    if program.kept is not None and found["kept"] is not program.kept:
        yield "variables kept" if found["kept"] else "variables lost"


@contextmanager
def adopting() -> Iterator[list[str]]:
    """Inside, orphans of our children become our own children; the list holds those that still live at the end."""
    left: list[str] = []
    before = children()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield left
    finally:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        for pid in children() - before:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()  # empty for a dead process
            if command:
                left.append(command.decode(errors="replace"))
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def children() -> set[int]:
    pids = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(pid) for listed in pids for pid in listed.read_text().split()}
