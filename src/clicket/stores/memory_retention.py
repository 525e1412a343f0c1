"""Which ended calls in memory break a bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from clicket.ports import Keep
from clicket.stores.memory_call import MemoryCall

__all__ = ["over"]


def over(calls: Iterable[MemoryCall], keep: Keep) -> Iterator[MemoryCall]:
    """The ended calls that break a bound, the oldest end first."""
    ended = sorted((call for call in calls if not call.kept), key=lambda call: call.ended_at or 0.0)
    count, weight = len(ended), sum(call.weight for call in ended)
    threads = Counter(call.thread for call in ended)
    weights: Counter[str] = Counter()
    for call in ended:
        weights[call.thread] += call.weight
    for call in ended:
        if (
            (keep.since is not None and call.ended_at is not None and call.ended_at < keep.since)
            or (keep.calls is not None and count > keep.calls)
            or (keep.bytes is not None and weight > keep.bytes)
            or (keep.thread_calls is not None and threads[call.thread] > keep.thread_calls)
            or (keep.thread_bytes is not None and weights[call.thread] > keep.thread_bytes)
        ):
            count, weight = count - 1, weight - call.weight
            threads[call.thread] -= 1
            weights[call.thread] -= call.weight
            yield call
