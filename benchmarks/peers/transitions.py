"""transitions: one trigger per target state, as in its manual."""

from __future__ import annotations

from transitions import Machine, MachineError

from benchmarks import timing
from benchmarks.edges import EDGES, STATES


class Call:
    state: str


edges = [
    {"trigger": f"to_be_{target}", "source": source, "dest": target}
    for source, targets in EDGES.items()
    for target in targets
]
call, fresh = Call(), Call()
machine = Machine([call, fresh], states=STATES, transitions=edges, initial="pending", auto_transitions=False)


def walk() -> None:
    call.to_be_retrying()
    call.to_be_running()


def refuse() -> None:
    try:
        fresh.to_be_running()
    except MachineError:
        return
    raise AssertionError


call.to_be_initializing()
call.to_be_running()
walk()
assert call.state == "running"
seconds = timing.budget().seconds
timing.report(
    {
        "allowed_us": timing.p50_sync(walk, seconds=seconds, batch=20) / 2,
        "refused_us": timing.p50_sync(refuse, seconds=seconds, batch=20),
    },
    timing.versions("transitions"),
)
