"""python-statemachine: the same table, one event per target state."""

from __future__ import annotations

from statemachine import State, StateMachine
from statemachine.exceptions import TransitionNotAllowed

from benchmarks import timing
from benchmarks.edges import EDGES, STATES


def declare() -> type[StateMachine]:
    states = {name: State(initial=name == "pending", final=name not in EDGES) for name in STATES}
    body: dict[str, object] = dict(states)
    for target in STATES:
        sources = [states[source] for source, targets in EDGES.items() if target in targets]
        if sources:
            event = sources[0].to(states[target])
            for source in sources[1:]:
                event = event | source.to(states[target])
            body[f"be_{target}"] = event
    return type("Call", (StateMachine,), body)


Call = declare()
call = Call()
fresh = Call()
call.be_initializing()
call.be_running()


def walk() -> None:
    call.be_retrying()
    call.be_running()


def refuse() -> None:
    try:
        fresh.be_running()
    except TransitionNotAllowed:
        return
    raise AssertionError


walk()
assert list(call.configuration_values) == ["running"]
seconds = timing.budget().seconds
timing.report(
    {
        "allowed_us": timing.p50_sync(walk, seconds=seconds, batch=5) / 2,
        "refused_us": timing.p50_sync(refuse, seconds=seconds, batch=5),
    },
    timing.versions("python-statemachine"),
)
