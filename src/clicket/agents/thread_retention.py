"""How long what agents do is kept: calls of a turn as long as their thread, and a thread until it was idle for too long.

A sweep of calls asks `kept_by_threads` about the calls that it is about to remove, and does not look again at those that stay. The calls
of an idle thread are released; when the next sweeps have removed its turns, the thread goes, too: until then a new turn must not get the
number of a stored one. A sweep of threads looks at a bounded number of threads, and continues where the last one ended.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import unquote

import msgspec

from clicket.agents.context_window import SUMMARY
from clicket.agents.fork_sweep import ForkSweep
from clicket.agents.memory import HEAD, REQUESTS, Head, delete_thread, inner_thread, key_of
from clicket.model.ids import agent_of, alias_of
from clicket.model.ports import Query, Store, Stored

__all__ = ["ThreadSweep", "kept_by_threads", "release_thread"]

_BATCH = 200

HasTurn = Callable[[str, str, str], Awaitable[bool]]
"""`has_turn(caller, agent, thread)`: does a turn of the thread run, or did its last one end not long ago?"""
Reveal = Callable[[str, str, bytes], bytes | None]
"""`reveal(caller, key, body)`: the head of a thread, unsealed; None: it cannot be opened here."""
_Place = tuple[str, str, str]
"""Caller, agent and thread."""


async def kept_by_threads(
    store: Store, before: float, reveal: Reveal, has_turn: HasTurn, calls: Sequence[Stored]
) -> frozenset[int]:
    """The keys of those calls that are turns, or tool calls of turns, of threads that are kept: not idle since `before`."""
    first_kept: dict[_Place, float] = {}
    kept = set[int]()
    for stored in calls:
        found = _turn_of(stored)
        if found is None:
            continue
        place, turn = found
        if place not in first_kept:
            first_kept[place] = await _first_kept_turn(store, before, reveal, has_turn, place)
        if turn >= first_kept[place]:
            kept.add(stored.key)
    return frozenset(kept)


async def release_thread(store: Store, caller: str, agent: str, thread: str) -> None:
    """Let sweeps remove the calls of a thread. Those that another agent's turns made in it are found to stay again."""
    await store.release(caller, inner_thread(agent, thread))
    await store.release(caller, thread)


def _turn_of(stored: Stored) -> tuple[_Place, int] | None:
    """The thread and the number of the turn that a call is, or is part of."""
    if stored.damaged is not None or not stored.events:
        return None
    data = stored.events[0].data
    tool = str(data.get("tool"))
    caller = str(data.get("caller", ""))
    arguments = data.get("arguments")
    if tool.startswith("agent:"):
        given = arguments if isinstance(arguments, dict) else {}
        thread, turn = given.get("thread"), given.get("turn")
        if isinstance(thread, str) and type(turn) is int:
            return (caller, tool.removeprefix("agent:"), thread), turn
        return None
    agent = agent_of(stored.id)
    number = alias_of(stored.id).split(".")[1] if agent else ""
    return ((caller, agent, str(data.get("thread"))), int(number)) if number.isdecimal() else None


async def _first_kept_turn(store: Store, before: float, reveal: Reveal, has_turn: HasTurn, place: _Place) -> float:
    """The number of the first turn that the thread still has; infinity: the thread is gone, or about to go."""
    caller, agent, thread = place
    key = key_of(caller, thread, agent)
    head = await store.document(HEAD, key)
    if head is None or head.updated_at < before:  # a turn may not have ended yet
        return 1 if await has_turn(caller, agent, thread) else math.inf
    body = reveal(caller, key, head.body)
    try:
        return 1 if body is None else msgspec.json.decode(body, type=Head).since
    except msgspec.MsgspecError:  # another program wrote it
        return 1


class ThreadSweep:
    """Remembers between sweeps where to continue."""

    def __init__(self) -> None:
        self._after = ""
        self._forks = ForkSweep()

    async def step(self, store: Store, before: float, has_turn: HasTurn) -> int:
        """Remove threads that were not written since `before`, and whose turns are gone; returns how many."""
        await self._forks.step(store, before)
        heads = await store.documents(HEAD, after=self._after, limit=_BATCH)
        self._after = heads[-1].key if len(heads) == _BATCH else ""
        forgotten = 0
        for head in heads:
            if head.updated_at >= before:
                continue
            caller, agent, thread = (unquote(part) for part in head.key.split("/", 2))
            if not await has_turn(caller, agent, thread):
                await release_thread(store, caller, agent, thread)
                if await store.history(Query(thread=inner_thread(agent, thread), caller=caller, limit=1)):
                    continue
                await delete_thread(store, head.key)
                await store.delete_document(SUMMARY, head.key)
                await store.delete_document(REQUESTS, head.key)
                await store.delete_document(HEAD, head.key)  # last, so that an interrupted sweep is repeated
                forgotten += 1
        return forgotten
