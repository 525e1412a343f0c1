"""Names of the threads in which agents work on tasks that other agents gave them. The name holds the calls above it."""

from __future__ import annotations

import re
from hashlib import sha256

from clicket.model.ids import alias_of

__all__ = ["agents_above", "is_inside", "thread_of_task"]

_MAX_NAME = 512
_ASKING = re.compile(r"/([A-Za-z0-9_-]{1,64})\.\d+(?:\.\d+-\d+)*\.\d+\.\d+(?:\.u\d+)?(?=/|\Z)")
"""Finds the calling agents in the name of such a thread, which holds the ids of their calls."""


def thread_of_task(thread: str, call_id: str) -> str:
    """The thread in which an agent works on the task of a call. `thread` is the calling agent's."""
    name = f"{thread}/{alias_of(call_id)}"  # short, because threads are nested
    if len(name) <= _MAX_NAME:
        return name
    # The shortened name still lists the calling agents, so that a recursion is detected.
    return f"~{sha256(name.encode()).hexdigest()}{''.join(f'/{asking}.0.0.0' for asking in agents_above(name))}"


def agents_above(thread: str) -> list[str]:
    """The names of the agents whose calls lead to this thread, the outermost first."""
    return _ASKING.findall(thread)


def is_inside(thread: str, task: str) -> bool:
    """Is it the thread `task` of a call, that of a use of a tool by the call's program, or one below?"""
    return thread.startswith(task) and thread[len(task) : len(task) + 1] in ("", "/", ".")
