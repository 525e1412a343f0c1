"""The call table of the kernel."""

from __future__ import annotations

from benchmarks import timing
from clicket import InvalidTransition, State
from clicket.kernel import CALL


def walk() -> None:
    state = CALL.advance(State.RUNNING, State.RETRYING)
    CALL.advance(state, State.RUNNING)


def refuse() -> None:
    try:
        CALL.advance(State.PENDING, State.RUNNING)
    except InvalidTransition:
        return
    raise AssertionError("the table took an edge that it does not have")


seconds = timing.budget().seconds
timing.report(
    {
        "allowed_us": timing.p50_sync(walk, seconds=seconds, batch=100) / 2,
        "refused_us": timing.p50_sync(refuse, seconds=seconds, batch=20),
    },
    timing.versions("clicket"),
)
