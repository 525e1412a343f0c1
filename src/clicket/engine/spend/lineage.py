"""Which run spends. The thread of a sub-agent is named after the thread and the call that called it, so a name alone has all runs above.

`t1/react.2.1.1` is the thread of the agent that call `react.2.1.1` called: the first call in step 1 of turn 2 of `react`, in `t1`.
"""

from __future__ import annotations

import re

from clicket.model.ids import alias_of
from clicket.model.spend import Run, Spender

__all__ = ["spender_of_call", "spender_of_turn"]

_ALIAS = re.compile(
    r"(?P<agent>[A-Za-z0-9_-]{1,64})\.(?P<turn>\d{1,9})(?:\.\d{1,9}-\d{1,9}){0,64}\.(?P<step>\d{1,9})\.\d{1,9}(?:\.u\d{1,9})?"
)
"""Of a call, or of a use of a tool in the program that a call runs."""
_MAX_DEPTH = 64


def _runs_above(thread: str) -> list[Run]:
    """The runs that called the agent of this thread, the outermost first."""
    found: list[Run] = []
    while len(found) < _MAX_DEPTH:
        thread, _, alias = thread.rpartition("/")
        made = _ALIAS.fullmatch(alias) if thread else None
        if made is None:
            break
        found.append(Run(thread, made["agent"], int(made["turn"])))
    return found[::-1]


def spender_of_turn(caller: str, thread: str, agent: str, turn: int) -> Spender:
    return Spender(caller, (*_runs_above(thread), Run(thread, agent, turn)))


def spender_of_call(caller: str, thread: str, call_id: str) -> tuple[Spender, int]:
    """The run that made a call, and the step in which it did; 0 for a call that no agent made, which is a run by itself."""
    made = _ALIAS.fullmatch(alias_of(call_id))
    if made is None:
        return Spender(caller, (*_runs_above(thread), Run(thread, "", 0, call_id))), 0
    return spender_of_turn(caller, thread, made["agent"], int(made["turn"])), int(made["step"])
