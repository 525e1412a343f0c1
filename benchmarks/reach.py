"""How soon does a fleet see what happens in another process: an event, a cancel, a new worker, a row that is free again?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required, high

__all__ = ["QUESTION"]

_STORES = (
    ("process", "SQLite, process mode", ()),
    ("redis", "Redis, AOF everysec", ("redis-everysec",)),
    ("postgres", "PostgreSQL", ("postgres",)),
    ("redis+nats", "Redis, AOF everysec, messages over NATS", ("redis-everysec", "nats")),
    ("postgres+nats", "PostgreSQL, messages over NATS", ("postgres", "nats")),
)
_SERVED = tuple(name for name, _, servers in _STORES if servers)

QUESTION = Question(
    name="reach",
    title="How soon another process sees it",
    about=(
        "A worker process runs the calls of another process; a third service looks on, over the same store. Events: from the "
        "time that an event carries to its arrival at the third service, while a tool emits every 5 ms. Cancel: from the third "
        "service's request until the process of a tool with isolation is gone. A new worker: while 2,000 calls of 10 ms wait and "
        "another worker is full, from the request to open its runtime to the start of its first body. A locked row: from the release of a "
        "lock that made the worker's claims pass over waiting calls to the first start. SQLite has no messages: other processes look at "
        "the file."
    ),
    contenders=tuple(
        Contender(
            name=name,
            title=title,
            environment="clicket",
            module="benchmarks.ours.reach",
            variant=name,
            servers=servers,
        )
        for name, title, servers in _STORES
    ),
    columns=(
        Column(figure="event_ms", title="event, p50", show=show.milli),
        Column(figure="event_p99_ms", title="p99", show=show.milli),
        Column(figure="cancel_ms", title="cancel, longest", show=show.milli),
        Column(figure="join_ms", title="new worker's first start", show=show.milli),
        Column(figure="locked_ms", title="start after a lock, longest", show=show.milli),
    ),
    required=(
        Required(
            text="Redis and PostgreSQL: events reach another service, p99",
            measure=high(_SERVED, "event_p99_ms"),
            limit=50,
            at_most=True,
            show=show.milli,
        ),
        Required(
            text="Redis and PostgreSQL: a cancel from another service ends a tool's process",
            measure=high(_SERVED, "cancel_ms"),
            limit=1_000,
            at_most=True,
            show=show.milli,
        ),
        Required(
            text="Redis and PostgreSQL: a worker that is added under load starts its first call",
            measure=high(_SERVED, "join_ms"),
            limit=1_000,
            at_most=True,
            show=show.milli,
        ),
        Required(
            text="PostgreSQL: a call whose row was locked during a claim starts after the lock's release",
            measure=high(("postgres", "postgres+nats"), "locked_ms"),
            limit=50,
            at_most=True,
            show=show.milli,
        ),
    ),
    max_rounds=3,
)
