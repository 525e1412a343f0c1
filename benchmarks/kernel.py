"""What does a change of state cost? The call table, an edge that it has and one that it refuses."""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required

__all__ = ["QUESTION"]

QUESTION = Question(
    name="kernel",
    title="A change of state",
    about=(
        "The same nine states and the same edges on each side: running → retrying and back, and pending → running, "
        "which the table does not have and refuses by an exception."
    ),
    contenders=(
        Contender(name="clicket", title="clicket kernel", environment="clicket", module="benchmarks.ours.kernel"),
        Contender(
            name="transitions", title="transitions", environment="transitions", module="benchmarks.peers.transitions"
        ),
        Contender(
            name="statemachine",
            title="python-statemachine",
            environment="statemachine",
            module="benchmarks.peers.statemachine",
        ),
    ),
    columns=(
        Column(figure="allowed_us", title="allowed edge", show=show.micro),
        Column(figure="refused_us", title="refused edge", show=show.micro),
    ),
    required=(
        Required(
            text="a transition against `transitions`",
            measure=lambda answer: answer.ratio("transitions", "clicket", "allowed_us"),
            limit=1,
        ),
        Required(
            text="a transition against `python-statemachine`",
            measure=lambda answer: answer.ratio("statemachine", "clicket", "allowed_us"),
            limit=1,
        ),
    ),
)
