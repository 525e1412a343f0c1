"""One hostile program, and its expected outcome.

A program that reaches something of the host prints ESCAPED. `{NAMES}` are canaries that the test places on the host: a secret
file, a folder that every user may write to, listening sockets, a process to be signalled. A program that a weaker tier lets
through limits itself, so that the test can show it.
"""

from __future__ import annotations

from typing import NamedTuple

FULL, PARTIAL, PROCESS = "full", "partial", "process"
EVERYWHERE = frozenset({FULL, PARTIAL, PROCESS})
FENCED = frozenset({FULL, PARTIAL})
WALLED = frozenset({FULL})

OK = frozenset({"ok"})
ERROR = frozenset({"error"})
ENDED = frozenset({"killed", "crashed"})
STOPPED = frozenset({"interrupted"})


class Hostile(NamedTuple):
    name: str
    code: str
    status: frozenset[str] = OK
    reason: frozenset[str] = frozenset()
    """The status is one of these, unless empty."""
    says: str = ""
    """Must be in stdout."""
    error: str = ""
    """The type of the error, unless empty."""
    held_by: frozenset[str] = EVERYWHERE
    """The tiers that stop it."""
    kept: bool | None = None
    """Whether the session's variables must exist afterwards (True), must not (False), or may."""
    timeout: float = 20.0
    """Seconds; short for programs that would not end by themselves, long for those that need the time."""
    dangerous: bool = False
    """Never to be run in a tier that does not stop it."""


def attempt(body: str) -> str:
    """`body` as an attempt on the host: reaching its end is an escape."""
    inner = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"import os, socket, sys\ntry:\n{inner}\n    print('ESCAPED')\nexcept BaseException as e:\n    print('held', type(e).__name__, e)"
