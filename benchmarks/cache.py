"""What does a cache hit cost against the cheapest execution, and how often do 100 equal calls at once run their tool?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required, high, ratio

__all__ = ["QUESTION"]

_STORES = (
    ("memory", "memory", ()),
    ("process", "SQLite, process mode", ()),
    ("power", "SQLite, power mode", ()),
    ("redis", "Redis, AOF everysec", ("redis-everysec",)),
    ("postgres", "PostgreSQL", ("postgres",)),
)
_WHOLE = "A hit is a call, and is recorded as durably as any other: it saves the tool's work and one of two commits."


def _fraction(text: str, name: str, figure: str, if_missed: str = "") -> Required:
    return Required(
        text=text,
        measure=ratio(name, name, "run_us", figure),
        limit=5,
        show=lambda value: f"1/{value:.0f}" if value >= 10 else f"1/{value:.1f}".removesuffix(".0"),
        as_fraction=True,
        if_missed=if_missed,
    )


QUESTION = Question(
    name="cache",
    title="A cache hit",
    about=(
        "An async tool that returns a small dict, one call at a time, with and without `cache=300`. The look-up is what "
        "the cache does for a call: make the key, read the item, decode it. A whole hit is more than that: it is a call like "
        "any other, found, authorized, validated, and recorded durably with its outcome, in one commit instead of two. Both "
        "are judged against a whole execution of a tool that does nothing, which is the least that an execution can cost. "
        "The last column is how many bodies ran when 100 equal calls were made at once."
    ),
    contenders=tuple(
        Contender(
            name=name,
            title=title,
            environment="clicket",
            module="benchmarks.ours.cache",
            variant=name,
            servers=servers,
        )
        for name, title, servers in _STORES
    ),
    columns=(
        Column(figure="look_up_us", title="look-up, p50", show=show.micro),
        Column(figure="hit_us", title="whole hit, p50", show=show.micro),
        Column(figure="run_us", title="whole execution, p50", show=show.micro),
        Column(figure="hit_per_second", title="hits, 100 callers", show=show.per_second),
        Column(figure="run_per_second", title="executions, 100 callers", show=show.per_second),
        Column(figure="bodies", title="bodies of 100 equal calls", show=show.count),
    ),
    required=(
        *(
            _fraction(
                f"a look-up in the cache against the cheapest execution, {title}, p50",
                name,
                "look_up_us",
                "A look-up is one round trip to the server, an execution two." if servers else "",
            )
            for name, title, servers in _STORES
        ),
        *(
            _fraction(f"a whole hit against the cheapest execution, {title}, p50", name, "hit_us", _WHOLE)
            for name, title, _ in _STORES
        ),
        Required(
            text="100 equal calls at once: bodies run, all stores",
            measure=high((name for name, _, _ in _STORES), "bodies"),
            limit=1,
            at_most=True,
            show=show.count,
        ),
    ),
)
