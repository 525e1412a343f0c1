"""What do 10,000 calls cost that are submitted at once and wait, with 100 allowed to run?"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import show
from benchmarks.question import Answer, Column, Contender, Question, Required

__all__ = ["QUESTION"]

_MODULE = "benchmarks.ours.many"
_OURS = ("memory", "process")


def _worst(figure: str) -> Callable[[Answer], float | None]:
    def measure(answer: Answer) -> float | None:
        known = [value for name in _OURS if (value := answer.high(name, figure)) is not None]
        return max(known) if len(known) == len(_OURS) else None

    return measure


def _none(text: str, figure: str) -> Required:
    return Required(
        text=f"10,000 calls at once, limit 100: {text}",
        measure=_worst(figure),
        limit=0,
        at_most=True,
        show=show.count,
    )


QUESTION = Question(
    name="many",
    title="10,000 calls waiting",
    about=(
        "10,000 calls submitted at once to a runtime that runs 100 of them at a time; the tool waits until all of them are "
        "accepted. Memory is the growth of the resident set from before the first submit, measured while 100 run and "
        "9,900 wait, and again at the end. Beside us: 10,000 bare asyncio tasks behind a semaphore of 100."
    ),
    contenders=(
        Contender(name="tasks", title="bare asyncio tasks", environment="clicket", module=_MODULE, variant="tasks"),
        Contender(name="memory", title="clicket, memory", environment="clicket", module=_MODULE, variant="memory"),
        Contender(
            name="process",
            title="clicket, SQLite, process mode",
            environment="clicket",
            module=_MODULE,
            variant="process",
        ),
    ),
    columns=(
        Column(figure="bytes_per_call", title="per waiting call", show=show.size),
        Column(figure="waiting_bytes", title="all waiting", show=show.size),
        Column(figure="peak_bytes", title="peak growth", show=show.size),
        Column(figure="most_running", title="most at once", show=show.count),
        Column(figure="submit_s", title="all accepted after", show=lambda value: f"{value:.2f} s"),
        Column(figure="finish_s", title="all ended after another", show=lambda value: f"{value:.2f} s"),
        Column(figure="not_completed", title="not completed", show=show.count),
        Column(figure="tasks_left", title="tasks left", show=show.count),
        Column(figure="threads_left", title="threads left", show=show.count),
    ),
    required=(
        _none("calls that did not complete", "not_completed"),
        _none("tasks left behind", "tasks_left"),
        _none("threads left behind", "threads_left"),
        Required(
            text="10,000 calls at once, limit 100: most that ran at once",
            measure=_worst("most_running"),
            limit=100,
            at_most=True,
            show=show.count,
        ),
    ),
    max_rounds=3,
)
