"""What does each step of one call cost? See docs/design/0013-the-hot-path.md."""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question

__all__ = ["QUESTION"]

_OURS = "benchmarks.ours.steps"

QUESTION = Question(
    name="steps",
    title="One call, step by step",
    about=(
        "An async tool that returns a small dict, one call at a time. Admission is find, authorize and validate; intent is the slot "
        "and the first commit; the body's step includes process; the outcome is persist, the second commit and the result; the "
        "rest is what the runtime does around them. Means, the clock's own cost taken off; the whole is the p50 without clocks."
    ),
    contenders=(
        Contender(name="memory", title="memory", environment="clicket", module=_OURS, variant="memory"),
        Contender(name="process", title="SQLite, process mode", environment="clicket", module=_OURS, variant="process"),
    ),
    columns=(
        Column(figure="admit_us", title="admission", show=show.micro),
        Column(figure="intent_us", title="intent", show=show.micro),
        Column(figure="body_us", title="body, process", show=show.micro),
        Column(figure="outcome_us", title="outcome", show=show.micro),
        Column(figure="rest_us", title="rest", show=show.micro),
        Column(figure="whole_us", title="whole", show=show.micro),
    ),
    required=(),
)
