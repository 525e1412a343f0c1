"""How long does recovery of a killed process's calls take, and does opening a store grow with its finished calls?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required, high, median, ratio

__all__ = ["QUESTION"]

_STORES = (
    ("process", "SQLite, process mode", ()),
    ("power", "SQLite, power mode", ()),
    ("redis", "Redis, AOF everysec", ("redis-everysec",)),
    ("postgres", "PostgreSQL", ("postgres",)),
)


QUESTION = Question(
    name="recovery",
    title="Recovery and opening",
    about=(
        "A process accepts 10,000 calls, of which 5,000 have started (their tool may not be repeated) and 5,000 wait for "
        "a slot; it is killed with SIGKILL. Then a runtime is opened over the store: measured is the time until "
        "`recover()` has returned, from before the opening, and until the last of the calls has ended. The started ones "
        "must end as `outcome_unknown`, the others must run. Opening is the median of 41 openings of a store without "
        "finished calls, with 10,000 and with 100,000 of them."
    ),
    contenders=(
        *(
            Contender(
                name=f"orphans-{name}",
                title=f"10,000 orphans, {title}",
                environment="clicket",
                module="benchmarks.ours.recovery",
                variant=name,
                servers=servers,
            )
            for name, title, servers in _STORES
        ),
        *(
            Contender(
                name=f"open-{name}",
                title=f"opening, {title}",
                environment="clicket",
                module="benchmarks.ours.reopening",
                variant=name,
                servers=servers,
            )
            for name, title, servers in _STORES
        ),
    ),
    columns=(
        Column(figure="orphans", title="orphans", show=show.count),
        Column(figure="recover_s", title="recovered after", show=show.seconds),
        Column(figure="ended_s", title="all ended after", show=show.seconds),
        Column(figure="unknown", title="outcome unknown", show=show.count),
        Column(figure="completed", title="completed", show=show.count),
        Column(figure="lost", title="lost", show=show.count),
        Column(figure="open_empty_ms", title="opening, no calls", show=show.milli),
        Column(figure="open_few_ms", title="10,000 finished", show=show.milli),
        Column(figure="open_many_ms", title="100,000 finished", show=show.milli),
    ),
    required=(
        *(
            Required(
                text=f"10,000 orphans recovered (“in seconds”), {title}",
                measure=median(f"orphans-{name}", "recover_s"),
                limit=10,
                at_most=True,
                show=show.seconds,
            )
            for name, title, _ in _STORES
        ),
        Required(
            text="10,000 orphans, all stores: calls lost, or settled otherwise than they must be",
            measure=high((f"orphans-{name}" for name, _, _ in _STORES), "wrong"),
            limit=0,
            at_most=True,
            show=show.count,
        ),
        *(
            Required(
                text=f"opening with 100,000 finished calls against none, {title}",
                measure=ratio(f"open-{name}", f"open-{name}", "open_many_ms", "open_empty_ms"),
                limit=1.5,
                at_most=True,
            )
            for name, title, _ in _STORES
        ),
    ),
    max_rounds=3,
)
