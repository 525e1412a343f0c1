"""How much do more worker processes over one store run, and how soon does one start what another process submitted?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required, high

__all__ = ["QUESTION"]

_STORES = (
    ("process", "SQLite, process mode", ()),
    ("redis", "Redis, AOF everysec", ("redis-everysec",)),
    ("postgres", "PostgreSQL", ("postgres",)),
)
_WORKERS = ((0, "no worker: runs in the submitting process"), (1, "1 worker"), (2, "2 workers"), (4, "4 workers"))


_NAMES = tuple(f"{name}-{count}" for name, _, _ in _STORES for count, _ in _WORKERS)


QUESTION = Question(
    name="fleet",
    title="Many processes over one store",
    about=(
        "One process submits and waits for the results; worker processes, each with 10 slots, run the calls. First one "
        "call at a time: from before the submit to the body's start in the other process, and to the result in the first. "
        "Then a queue: 3,000 calls of a tool that does nothing and 2,000 of one that takes 10 ms (10 slots can run at most "
        "1,000 of these per second), submitted at once; calls per second from the first submit to the last result. The "
        "submitting process, the workers and the server share the cores of the machine named above: what does nothing "
        "cannot become faster by more processes than cores."
    ),
    contenders=tuple(
        Contender(
            name=f"{name}-{count}",
            title=f"{title}, {words}",
            environment="clicket",
            module="benchmarks.ours.fleet",
            variant=f"{name}-{count}",
            servers=servers,
        )
        for name, title, servers in _STORES
        for count, words in _WORKERS
    ),
    columns=(
        Column(figure="start_ms", title="submit to start, p50", show=show.milli),
        Column(figure="start_p95_ms", title="p95", show=show.milli),
        Column(figure="result_ms", title="submit to result, p50", show=show.milli),
        Column(figure="noop_per_second", title="queue of no-ops", show=show.per_second),
        Column(figure="short_per_second", title="queue of 10 ms tools", show=show.per_second),
        Column(figure="not_completed", title="not completed", show=show.count),
        Column(figure="miscounted", title="bodies run too often or not at all", show=show.count),
    ),
    required=(
        Required(
            text="many processes, all stores: calls that did not complete",
            measure=high(_NAMES, "not_completed"),
            limit=0,
            at_most=True,
            show=show.count,
        ),
        Required(
            text="many processes, all stores: bodies run more or less often than calls were made",
            measure=high(_NAMES, "miscounted"),
            limit=0,
            at_most=True,
            show=show.count,
        ),
    ),
    max_rounds=3,
)
