"""What does it cost to append one event with the durability of each mode?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question

__all__ = ["QUESTION"]

_MODULE = "benchmarks.ours.events"

QUESTION = Question(
    name="journal",
    title="An event appended",
    about=(
        "One event checked, numbered, encoded, appended and published by the journal, awaited until it is durable: by one "
        "writer, and by 100 writers at once, whose events share commits. The bound is apsw alone inserting the rows that "
        "the journal has just left, ready-made: one row a commit, and 100 rows a commit."
    ),
    contenders=(
        Contender(name="memory", title="journal, memory", environment="clicket", module=_MODULE, variant="memory"),
        Contender(
            name="process",
            title="journal, SQLite, process mode",
            environment="clicket",
            module=_MODULE,
            variant="process",
        ),
        Contender(
            name="power", title="journal, SQLite, power mode", environment="clicket", module=_MODULE, variant="power"
        ),
        Contender(
            name="raw-process",
            title="raw apsw, WAL/NORMAL",
            environment="clicket",
            module=_MODULE,
            variant="raw-process",
        ),
        Contender(
            name="raw-power", title="raw apsw, WAL/FULL", environment="clicket", module=_MODULE, variant="raw-power"
        ),
    ),
    columns=(
        Column(figure="event_us", title="one at a time", show=show.micro),
        Column(figure="shared_us", title="100 writers, per event", show=show.micro),
    ),
)
