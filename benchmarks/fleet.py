"""What is the throughput of more worker processes over one store, and how soon does a worker start a submitted call?"""

from __future__ import annotations

import os

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required, high, median, ratio

__all__ = ["QUESTION"]

_STORES = (
    ("process", "SQLite, process mode", ()),
    ("redis", "Redis, AOF everysec", ("redis-everysec",)),
    ("postgres", "PostgreSQL", ("postgres",)),
    ("redis+nats", "Redis, AOF everysec, messages over NATS", ("redis-everysec", "nats")),
    ("postgres+nats", "PostgreSQL, messages over NATS", ("postgres", "nats")),
)
_PEERS = (
    ("celery", "Celery, Redis, one worker with a process for each core", "redis-everysec", ""),
    ("taskiq", "taskiq, Redis stream, a worker process for each core", "redis-everysec", ""),
    ("dramatiq", "dramatiq, Redis", "redis-everysec", ""),
    ("dbos", "DBOS workflow of one step, PostgreSQL", "postgres", "postgres"),
    ("temporal", "Temporal, development server", "temporal", ""),
)
_WORKERS = ((0, "no worker: runs in the submitting process"), (1, "1 worker"), (2, "2 workers"), (4, "4 workers"))


_CORES = min((count for count, _ in _WORKERS if count), key=lambda count: abs(count - (os.cpu_count() or 1)))
"""As many workers as taskiq's command starts: one for each core, or the nearest number that is measured."""
_BESIDE = {"celery": "redis-1", "taskiq": f"redis-{_CORES}", "dbos": "postgres-1"}
_NAMES = tuple(f"{name}-{count}" for name, _, _ in _STORES for count, _ in _WORKERS)


def _ours(store: str) -> list[Contender]:
    """The numbers of workers over a store."""
    return [
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
        if name == store
    ]


def _peers(on: str) -> list[Contender]:
    return [
        Contender(
            name=name,
            title=title,
            environment=name,
            module=f"benchmarks.peers.{name}",
            variant=variant,
            servers=(server,),
        )
        for name, title, server, variant in _PEERS
        if server == on
    ]


def _on(store: str, server: str) -> list[Contender]:
    """Ours and the peers on a server. A peer is measured right after the one it is compared with, when the machine is as fast."""
    mixed, peers = _ours(store), _peers(server)
    for peer in peers:
        names = [contender.name for contender in mixed]
        beside = _BESIDE.get(peer.name)
        mixed.insert(names.index(beside) + 1 if beside in names else len(mixed), peer)
    return mixed


QUESTION = Question(
    name="fleet",
    title="Many processes over one store",
    about=(
        "One process submits and waits for the results; worker processes, each with 10 slots, run the calls. First one "
        "call at a time: from before the submit to the body's start in the other process, and to the result in the first. "
        "Then a queue: 3,000 calls of a tool that does nothing and 2,000 of one that takes 10 ms (10 slots can run at most "
        "1,000 of these per second), submitted at once; calls per second from the first submit to the last result. The "
        "submitting process, the workers and the server share the cores of the machine named above: what does nothing "
        "cannot become faster by more processes than cores. Then 100 callers that wait for one call each: calls per second, and "
        "the CPU time of a call in all processes, the server's too. Peers run one no-op task at a time and 100 at once; each "
        "guarantees something else: Celery, taskiq and dramatiq as shipped lose or repeat a task whose worker dies, DBOS and "
        "Temporal repeat its step."
    ),
    contenders=(
        *_ours("process"),
        *_on("redis", "redis-everysec"),
        *_on("postgres", "postgres"),
        *_ours("redis+nats"),
        *_ours("postgres+nats"),
        *_peers("temporal"),
    ),
    columns=(
        Column(figure="start_ms", title="submit to start, p50", show=show.milli),
        Column(figure="start_p95_ms", title="p95", show=show.milli),
        Column(figure="result_ms", title="submit to result, p50", show=show.milli),
        Column(figure="result_p95_ms", title="p95", show=show.milli),
        Column(figure="p50_us", title="one caller, p50", show=show.micro),
        Column(figure="per_second", title="100 callers", show=show.per_second),
        Column(figure="cpu_ms", title="CPU of a call, all processes", show=show.milli),
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
        Required(
            text="PostgreSQL, 1 worker: submit to result, one caller, p50",
            measure=median("postgres-1", "result_ms"),
            limit=4,
            at_most=True,
            show=show.milli,
        ),
        Required(
            text="PostgreSQL, 1 worker: submit to result, one caller, p95",
            measure=median("postgres-1", "result_p95_ms"),
            limit=12,
            at_most=True,
            show=show.milli,
        ),
        Required(
            text="PostgreSQL, 1 worker, against DBOS: calls per second at 100 callers",
            measure=ratio("postgres-1", "dbos", "per_second"),
            limit=12,
        ),
        Required(
            text="Redis, 1 worker, against Celery: one caller, p50",
            measure=ratio("redis-1", "celery", "p50_us"),
            limit=2 / 3,
            at_most=True,
            show=show.percent,
        ),
        Required(
            text=f"Redis, {_CORES} workers, against taskiq with as many worker processes: calls per second at 100 callers",
            measure=ratio(f"redis-{_CORES}", "taskiq", "per_second"),
            limit=2.5,
        ),
        *(
            Required(
                text=f"{title}: CPU of a call with 4 workers against 1",
                measure=ratio(f"{name}-4", f"{name}-1", "cpu_ms"),
                limit=1.25,
                at_most=True,
                show=show.percent,
            )
            for name, title in (("redis", "Redis"), ("postgres", "PostgreSQL"))
        ),
    ),
    max_rounds=3,
)
