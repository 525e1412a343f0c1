"""What do 10,000 calls cost that are submitted at once and wait, with 100 allowed to run?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required, high

__all__ = ["QUESTION"]

_MODULE = "benchmarks.ours.many"
_OURS = ("memory", "process")


def _none(text: str, figure: str) -> Required:
    return Required(
        text=f"10,000 calls at once, limit 100: {text}",
        measure=high(_OURS, figure),
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
        Column(figure="submit_s", title="all accepted after", show=show.seconds),
        Column(figure="finish_s", title="all ended after another", show=show.seconds),
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
            measure=high(_OURS, "most_running"),
            limit=100,
            at_most=True,
            show=show.count,
        ),
    ),
    max_rounds=3,
)
