"""Runs a turn again: reads the calls of the old turn, with their outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from clicket.agents.again import Again
from clicket.agents.entries import Reply, Results, entry_of
from clicket.agents.memory import Memory
from clicket.agents.recorded_calls import RecordedCalls
from clicket.agents.threads import Threads
from clicket.agents.turn import Turn
from clicket.agents.turn_on_record import turn_on_record
from clicket.errors import NotFound
from clicket.model import Record
from clicket.model.ports import AgentHost

__all__ = ["bring_recorded", "calls_of"]

_DECIDED_ANEW = ("permission_denied", "not_recorded")
"""Refusals by policy, checks and limits, and those of a turn that was itself run again."""
_NEVER_ENDED = ("cancelled", "timeout", "not_found")
"""Codes of results that a turn gives to calls which may not have been made."""


async def calls_of(threads: Threads, thread: str, number: int) -> list[Record]:
    """The calls of a turn that have an outcome, in the order in which the model asked for them. `NotFound`: retention has removed the turn,
    or one of its calls."""
    found = await turn_on_record(threads, thread, number)
    if found is None:
        raise _gone(thread, number)
    ended: set[str] = set()
    replies: list[Reply] = []
    for raw in found.entries:
        match entry_of(raw):
            case Reply(mark=mark, refused=None) as reply if mark:
                replies.append(reply)
            case Results(items=items):
                ended.update(item.call for item in items if item.code not in _NEVER_ENDED)
    places = [place async for place in _places(threads, thread, number)]
    calls: list[Record] = []
    for id in (id for reply in replies for id in reply.call_ids()):
        record = await _record(threads.host, places, id)
        if record is None and id in ended:
            raise _gone(thread, number)
        if record is not None and _counts(record):
            calls.append(record)
    return calls


async def _places(threads: Threads, thread: str, number: int) -> AsyncIterator[str]:
    """The threads that may have calls of the turn: those of a turn that was taken along are in the origin."""
    seen: set[str] = set()
    while thread not in seen:
        seen.add(thread)
        yield thread
        origin = (await threads.memory.head(threads.host, thread))[0].origin
        if origin is None or number > origin.after + (origin.step is not None):
            return
        thread = origin.thread


async def _record(host: AgentHost, places: Sequence[str], id: str) -> Record | None:
    for place in places:
        record = await host.record(id, place)
        if record is not None:
            return record
    return None


def _counts(record: Record) -> bool:
    """Has it an outcome? A refusal by a rule does not count: that is decided anew."""
    is_refused = record.error is not None and record.error.code in _DECIDED_ANEW
    return record.state.is_terminal and not is_refused and record.refused is None


def _gone(thread: str, number: int) -> NotFound:
    return NotFound(
        f"turn {number} of thread {thread!r}, or a call of it, is not kept any more, so it cannot be run again. memory_retention says how "
        "long threads are kept with their calls."
    )


async def bring_recorded(turn: Turn, again: Again | None) -> None:
    """Give a turn that is another one, run again, the outcomes of that one's calls."""
    if again is None or turn.recorded is not None:
        return
    host, owner = turn.host, turn.mark.partition(".")[0]
    calls = await calls_of(Threads(host, Memory(owner), f"agent:{owner}", turn.limits), again.thread, again.turn)
    made = (id for reply in turn.record.replies if reply.mark for id in reply.call_ids())
    turn.recorded = RecordedCalls(again, calls, await _used_in(host, turn.thread, made))


async def _used_in(host: AgentHost, thread: str, ids: Iterable[str]) -> set[str]:
    """The old calls whose outcomes these calls have."""
    used: set[str] = set()
    for id in ids:
        record = await host.record(id, thread)
        note = None if record is None else record.metadata.get("recorded")
        if isinstance(note, dict):
            used.add(str(note.get("call")))
    return used
