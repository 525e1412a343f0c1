"""What does each durability mode cost at 100 concurrent calls, and how near is group commit to the disk's limit?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Answer, Column, Contender, Question, Required, median, ratio

__all__ = ["QUESTION"]

_TOO_FAST = (
    "This disk answers an fsync in a fraction of a millisecond, so that the processor is the limit; see the rows of the "
    "slower disks, and the memory store's figure."
)
_DISKS = (("", "this disk"), ("+5", "each fsync 5 ms slower"), ("+10", "each fsync 10 ms slower"))


def _ours(name: str, title: str) -> Contender:
    return Contender(name=name, title=title, environment="clicket", module="benchmarks.ours.durability", variant=name)


def _share_of_possible(answer: Answer) -> float | None:
    """Relative to the disk's limit, or to the rate of the same calls without a disk, if that is less."""
    reached, bound = answer.median("power", "per_second"), answer.median("power", "bound_per_second")
    without_disk = answer.median("memory", "per_second")
    return reached / min(bound, without_disk) if reached and bound and without_disk else None


QUESTION = Question(
    name="durability",
    title="Durability at 100 concurrent calls",
    about=(
        "SQLite, an async tool that returns a small dict. “One fsync per commit” is a writer without clicket: apsw with "
        "`synchronous=FULL` inserts the rows that real calls left, in the two commits that a call has to wait for (its "
        "intent, its outcome), one after the other. A disk's fsyncs per second are 4 KiB appends with `fdatasync`, one at "
        "a time, measured by each row for itself. The bound of power mode is 100 calls × fsyncs per second ÷ 2. Where a "
        "disk syncs so fast that this is more than the memory store reaches, the processor is the limit and the bound is "
        "out of reach; therefore the same is measured on a slower disk too, which is simulated: a library, preloaded into "
        "the measuring process, lets every fsync and fdatasync sleep 5 or 10 ms before it syncs."
    ),
    contenders=(
        _ours("memory", "clicket, memory (no disk)"),
        _ours("process", "clicket, process mode"),
        *(
            _ours(f"{variant}{disk}", f"{title}, {words}")
            for disk, words in _DISKS
            for variant, title in (("one-by-one", "one fsync per commit"), ("power", "clicket, power mode"))
        ),
    ),
    columns=(
        Column(figure="syncs_per_second", title="fsyncs", show=show.per_second),
        Column(figure="p50_us", title="one call, p50", show=show.micro),
        Column(figure="per_second", title="at 100 callers", show=show.per_second),
        Column(figure="bound_per_second", title="bound", show=show.per_second),
        Column(figure="syncs_waited_for", title="fsyncs that a lone call lasts", show=show.count),
    ),
    required=(
        *(
            Required(
                text=f"power mode against one fsync per commit, {words}",
                measure=ratio(f"power{disk}", f"one-by-one{disk}", "per_second"),
                limit=5,
                if_missed=_TOO_FAST if not disk else "",
            )
            for disk, words in _DISKS
        ),
        *(
            Required(
                text=f"power mode against its bound, {words}",
                measure=ratio(f"power{disk}", f"power{disk}", "per_second", "bound_per_second"),
                limit=0.6,
                show=show.percent,
                if_missed=_TOO_FAST if not disk else "",
            )
            for disk, words in _DISKS
        ),
        Required(
            text="power mode against its bound or the memory store, whichever is lower, this disk",
            measure=_share_of_possible,
            limit=0.6,
            show=show.percent,
            beyond=True,
        ),
        Required(
            text="fsyncs that a lone call in power mode lasts, each fsync 10 ms slower",
            measure=median("power+10", "syncs_waited_for"),
            limit=2,
            show=lambda value: f"{value:.2f}",
            beyond=True,
        ),
    ),
)
