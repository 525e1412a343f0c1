"""Which ended calls in memory break a bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from clicket.model.ports import Keep
from clicket.stores.memory_call import MemoryCall

__all__ = ["over"]


def over(calls: Iterable[MemoryCall], keep: Keep) -> list[MemoryCall]:
    """The ended calls that break a bound, the oldest end first."""
    ended = sorted((call for call in calls if not call.kept), key=lambda call: call.ended_at or 0.0)
    going = {call.key for call in ended if keep.since is not None and (call.ended_at or 0.0) < keep.since}
    if keep.thread_calls is not None or keep.thread_bytes is not None:
        threads: dict[str, list[MemoryCall]] = {}
        for call in ended:
            threads.setdefault(call.thread, []).append(call)
        for of_thread in threads.values():
            going.update(_first_over(of_thread, keep.thread_calls, keep.thread_bytes))
    going.update(_first_over([call for call in ended if call.key not in going], keep.calls, keep.bytes))
    return [call for call in ended if call.key in going]


def _first_over(ended: Sequence[MemoryCall], calls: int | None, size: int | None) -> Iterator[int]:
    """Keys of the first ones, this many that the rest is within the bounds."""
    count = len(ended)
    weight = sum(call.weight for call in ended)
    for call in ended:
        if (calls is None or count <= calls) and (size is None or weight <= size):
            return
        count, weight = count - 1, weight - call.weight
        yield call.key
