"""What does one durable call cost on each store, beside the bare round trips that it needs, and beside task queues?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required, ratio

__all__ = ["QUESTION"]

_OURS, _BARE = "benchmarks.ours.stores", "benchmarks.ours.bare"
_EVERYSEC, _ALWAYS, _POSTGRES = ("redis-everysec",), ("redis-always",), ("postgres",)


def _ours(name: str, title: str, variant: str = "", module: str = _OURS, servers: tuple[str, ...] = ()) -> Contender:
    return Contender(
        name=name, title=title, environment="clicket", module=module, variant=variant or name, servers=servers
    )


def _peer(name: str, title: str, environment: str, servers: tuple[str, ...], variant: str = "") -> Contender:
    module = f"benchmarks.peers.{environment}"
    return Contender(name=name, title=title, environment=environment, module=module, variant=variant, servers=servers)


QUESTION = Question(
    name="stores",
    title="A durable call on each store",
    about=(
        "An async tool that returns a small dict: p50 of calls made one at a time, and calls per second with 100 callers. "
        "The bare round trips are the two writes that a call waits for, made without clicket by the same client library, "
        "with as many bytes: for Redis two EVALSHA of a script with one XADD, for PostgreSQL two inserts, each committed. "
        "Servers are on loopback, on this machine's cores and disk, fresh for each row and round. “Run by a worker” is "
        "submitted in one process and run in another, as Celery and taskiq do. Celery acknowledges a task before it runs, "
        "as shipped: one whose worker dies is lost. taskiq's client asks for its result every 200 ms as shipped; here every "
        "millisecond when it is alone, every 50 ms when there are 100. Temporal is its development server, with a file, "
        "asked for an eager start."
    ),
    contenders=(
        _ours("memory", "clicket, memory"),
        _ours("process", "clicket, SQLite, process mode"),
        _ours("power", "clicket, SQLite, power mode"),
        _ours("bare-redis", "bare round trips, Redis, AOF everysec", "redis", _BARE, _EVERYSEC),
        _ours("redis", "clicket, Redis, AOF everysec", servers=_EVERYSEC),
        _ours("bare-redis-power", "bare round trips, Redis, AOF always", "redis", _BARE, _ALWAYS),
        _ours("redis-power", "clicket, Redis, AOF always", servers=_ALWAYS),
        _ours("bare-postgres", "bare round trips, PostgreSQL", "postgres", _BARE, _POSTGRES),
        _ours("postgres", "clicket, PostgreSQL", servers=_POSTGRES),
        _ours("redis-worker", "clicket, Redis, AOF everysec, run by a worker", servers=_EVERYSEC),
        _peer("celery", "Celery, Redis, AOF everysec, run by a worker", "celery", _EVERYSEC),
        _peer("taskiq", "taskiq, Redis stream, AOF everysec, run by a worker", "taskiq", _EVERYSEC),
        _ours("postgres-worker", "clicket, PostgreSQL, run by a worker", servers=_POSTGRES),
        _peer("dbos", "DBOS workflow of one step, PostgreSQL", "dbos", _POSTGRES, "postgres"),
        _peer("temporal", "Temporal workflow of one activity", "temporal", ("temporal",)),
    ),
    columns=(
        Column(figure="p50_us", title="one call, p50", show=show.micro),
        Column(figure="per_second", title="at 100 callers", show=show.per_second),
    ),
    required=tuple(
        Required(
            text=f"{words} against its bare round trips, p50",
            measure=ratio(name, f"bare-{name}", "p50_us"),
            limit=3,
            at_most=True,
        )
        for name, words in (
            ("redis", "Redis, AOF everysec,"),
            ("redis-power", "Redis, AOF always,"),
            ("postgres", "PostgreSQL"),
        )
    ),
)
