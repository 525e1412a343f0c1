"""What does a program's use of a tool cost, and how many requests to a model does a program save?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required, median

__all__ = ["QUESTION"]

_STORES = (("memory", "memory"), ("process", "SQLite, process mode"))

QUESTION = Question(
    name="uses",
    title="Tools in programs",
    about=(
        "A program of the code interpreter, in its sandbox at `full`, uses an async tool that returns a small dict. A use is a "
        "call with its own record: out of the sandbox, through all six stages, and back. Its time is measured in the program, one "
        "use after another, and 50 at once with `asyncio.gather` (10 of them run at a time). Beside it is the same call made by "
        "the host. The task is twenty look-ups, each of which depends on the one before, by an agent whose model answers at once: "
        "by tool calls it asks the model after each, by a program once, and once for the answer. With a real model, each request "
        "that is saved is a second or more."
    ),
    contenders=tuple(
        Contender(name=name, title=title, environment="clicket", module="benchmarks.ours.uses", variant=name)
        for name, title in _STORES
    ),
    columns=(
        Column(figure="call_us", title="a call of the host, p50", show=show.micro),
        Column(figure="use_us", title="a use, p50", show=show.micro),
        Column(figure="uses_per_second", title="uses, 50 at once", show=show.per_second),
        Column(figure="requests_by_calls", title="requests, by calls", show=show.count),
        Column(figure="requests_by_program", title="requests, by a program", show=show.count),
        Column(figure="turn_by_calls_ms", title="the turn, by calls", show=show.milli),
        Column(figure="turn_by_program_ms", title="the turn, by a program", show=show.milli),
    ),
    required=(
        Required(
            text="a use of a tool in a program, memory, p50",
            measure=median("memory", "use_us"),
            limit=1_000,
            at_most=True,
            show=show.micro,
        ),
        Required(
            text="requests to the model for twenty look-ups, by a program",
            measure=median("memory", "requests_by_program"),
            limit=2,
            at_most=True,
            show=show.count,
        ),
    ),
)
