"""How long is the event loop blocked at most while sync tools and durable calls run?"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import show
from benchmarks.question import Answer, Column, Contender, Question, Required

__all__ = ["QUESTION"]

_MODULE = "benchmarks.ours.stall"


def _longest(name: str) -> Callable[[Answer], float | None]:
    return lambda answer: answer.high(name, "longest_ms")


QUESTION = Question(
    name="stall",
    title="The longest stall of the event loop",
    about=(
        "A task on the loop wakes every 2 ms and notes how late it is, while callers keep the runtime busy. The required "
        "figure is the worst of all rounds. The first two rows have no clicket in them: an empty loop, and four plain "
        "threads that compute in Python, which the interpreter itself makes the loop wait for (5 ms a turn). Durable calls "
        "are to be read against the same 100 callers in memory: what those show is a busy loop and the garbage collector."
    ),
    contenders=(
        Contender(name="idle", title="an empty loop", environment="clicket", module=_MODULE, variant="idle"),
        Contender(
            name="threads",
            title="asyncio.to_thread, computing",
            environment="clicket",
            module=_MODULE,
            variant="threads",
        ),
        Contender(
            name="sync-sleep",
            title="sync tools that block, memory",
            environment="clicket",
            module=_MODULE,
            variant="sync-sleep",
        ),
        Contender(
            name="sync-compute",
            title="sync tools that compute, memory",
            environment="clicket",
            module=_MODULE,
            variant="sync-compute",
        ),
        Contender(
            name="memory",
            title="async calls, memory (no store to wait for)",
            environment="clicket",
            module=_MODULE,
            variant="memory",
        ),
        Contender(
            name="process",
            title="durable calls, process mode",
            environment="clicket",
            module=_MODULE,
            variant="process",
        ),
        Contender(
            name="power", title="durable calls, power mode", environment="clicket", module=_MODULE, variant="power"
        ),
    ),
    columns=(
        Column(figure="longest_ms", title="longest", show=show.milli),
        Column(figure="p99_ms", title="p99", show=show.milli),
        Column(figure="calls", title="calls made", show=show.count),
    ),
    required=tuple(
        Required(text=text, measure=_longest(name), limit=50, at_most=True, show=show.milli)
        for name, text in (
            ("sync-sleep", "longest stall, sync tools that block"),
            ("sync-compute", "longest stall, sync tools that compute"),
            ("memory", "longest stall, calls in memory, 100 callers"),
            ("process", "longest stall, durable calls, process mode, 100 callers"),
            ("power", "longest stall, durable calls, power mode, 100 callers"),
        )
    ),
)
