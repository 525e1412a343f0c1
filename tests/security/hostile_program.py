"""One hostile program, and what must come of it.

A program that reaches something of the host prints ESCAPED. `{NAMES}` are canaries that the test sets out on the host: a secret
file, a folder that every user may write to, listening sockets, a process to be signalled. A program that a weaker tier does not
hold is bounded in itself, so that the test can show it.
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
    """One of these, where any is named."""
    says: str = ""
    """Must be in stdout."""
    error: str = ""
    """The type of the error, where one is named."""
    held_by: frozenset[str] = EVERYWHERE
    """The tiers in which it does not get through."""
    kept: bool | None = None
    """Whether the session's variables must be there afterwards (True), must not (False), or may be."""
    timeout: float = 20.0
    """Seconds; short for what would not end by itself, long for what must have the time to."""
    dangerous: bool = False
    """Never to be run in a tier that does not hold it."""


def attempt(body: str) -> str:
    """`body` as an attempt on the host: reaching its end is an escape."""
    inner = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"import os, socket, sys\ntry:\n{inner}\n    print('ESCAPED')\nexcept BaseException as e:\n    print('held', type(e).__name__, e)"
