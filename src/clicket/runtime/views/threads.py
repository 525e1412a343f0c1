"""`Runtime.threads`: the threads that have calls or an agent's memory, those with the newest call first.

A turn of an agent is a call in a thread of its own (`agent:NAME/THREAD`); here it belongs to the conversation THREAD. Threads whose calls
were all removed by retention, and of which only an agent's memory is left, come last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import quote, unquote

import msgspec

from clicket.engine import Engine
from clicket.engine.executors import SEALED, CallerDocuments
from clicket.engine.live_call import Origin
from clicket.errors import UsageError
from clicket.kernel import AgentState, State
from clicket.model.ports import CallPlace, Store, StoredDocument, ThreadCounts, ThreadName, places_in, thread_counts_in

__all__ = ["ThreadAgent", "ThreadPage", "ThreadSummary", "list_threads", "threads"]

MAX_COUNTED = 1_000
_BATCH = 1_000
_AT_ONCE = 20
_MAX_LOOKED_AT = 10_000
"""Calls that one page looks at: a page may be short, and still have a cursor."""
_TURN = "agent:"
Reveal = Callable[[str, str, bytes], bytes | None]
"""`reveal(caller, key, body)`: the head of an agent's thread, unsealed; None: it cannot be opened here."""


class ThreadAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that has run turns in a thread. `state` None: its record cannot be opened here."""

    name: str
    state: AgentState | None
    turns: int
    updated_at: float


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation of one caller. Times are seconds since the epoch."""

    name: str
    caller: str
    last_activity_at: float
    """When the last call was made or ended, or the last turn of an agent ended."""
    counts: dict[State, int]
    """Tool calls by state, of the newest 1,000 that the store still has; turns of agents are not counted."""
    total: int
    """The sum of `counts`."""
    active: int
    """Those that have not ended."""
    agent_state: AgentState | None
    """Of the agent that was active last; None: no agent has run here."""
    agents: list[ThreadAgent]
    """The one that was active last comes first."""


class ThreadPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of threads. `cursor` fetches the next; None: this was the last. A page may be shorter than asked for, and not the last."""

    items: list[ThreadSummary]
    cursor: str | None = None


class _Runtime(Protocol):
    _caller: str | None
    _origin: Origin

    @property
    def _opened(self) -> Engine: ...


async def threads(runtime: _Runtime, *, limit: int = 100, cursor: str | None = None) -> ThreadPage:
    """Threads with their last activity, counts of calls by state, and the state of their agents; those with the newest call first.

    `limit` is up to 1,000; `cursor` of one page fetches the next.
    """
    engine = runtime._opened

    def reveal(caller: str, key: str, body: bytes) -> bytes | None:
        from clicket.agents.memory import HEAD

        return CallerDocuments(engine.store, engine.vault, caller, engine.clock).reveal(HEAD, key, body)

    return await list_threads(engine.store, runtime._caller, limit, cursor, reveal)


async def list_threads(
    store: Store, caller: str | None, limit: int, cursor: str | None, reveal: Reveal | None = None
) -> ThreadPage:
    """The threads of one caller; None: of all."""
    if type(limit) is not int or not 1 <= limit <= 1_000:
        raise UsageError(f"limit must be a number from 1 to 1,000, not {limit!r}.")
    below, after = _place_of(cursor)
    listing = _Listing(store, caller, reveal)
    items: list[ThreadSummary] = []
    if after is None:
        below = await listing.with_calls(items, limit, below)
        if below is not None:
            return ThreadPage(items=items, cursor=f"c{below}")
        after = ""
    after = await listing.without_calls(items, limit, after)
    return ThreadPage(items=items, cursor=None if after is None else "a" + quote(after, safe="/"))


def _place_of(cursor: str | None) -> tuple[int | None, str | None]:
    """The key below which calls go on; or, after all calls, the key of the agent's record after which records go on."""
    if cursor is None:
        return None, None
    if cursor[:1] == "c" and cursor[1:].isascii() and cursor[1:].isdecimal() and len(cursor) < 20:
        return int(cursor[1:]), None
    if cursor[:1] == "a" and cursor.isascii():
        return None, unquote(cursor[1:])
    raise UsageError(f"cursor must be the cursor of a page, not {cursor!r:.100}.")


class _Found(msgspec.Struct, frozen=True):
    summary: ThreadSummary
    newest: int
    """The key of its newest call; 0: it has none."""
    first_record: str
    """The key of its first agent's record."""


class _Listing:
    def __init__(self, store: Store, caller: str | None, reveal: Reveal | None) -> None:
        self._store = store
        self._caller = caller
        self._reveal = reveal
        self._agents: dict[str, list[str]] = {}

    async def with_calls(self, items: list[ThreadSummary], limit: int, below: int | None) -> int | None:
        """Add threads whose newest call is below a key. Returns the key to go on below; None: there are no more calls."""
        first = below
        looked = 0
        names: dict[ThreadName, int] = {}
        while looked < _MAX_LOOKED_AT:
            places = await places_in(self._store, below, _BATCH)
            if not places:
                await self._add(items, list(names), first)
                return None
            looked += len(places)
            await self._learn_agents(places)
            for place in places:
                below = place.key
                name = (place.caller, conversation_of(place.thread)[1])
                if place.thread and self._caller in (None, place.caller):
                    names.setdefault(name, below)
                if len(names) == limit:
                    await self._add(items, list(names), first)
                    return below
        await self._add(items, list(names), first)
        return below

    async def _add(self, items: list[ThreadSummary], names: list[ThreadName], first: int | None) -> None:
        """Add those threads that no earlier page has."""
        found = await self._summaries(names)
        items += [each.summary for each in found if each is not None and (first is None or each.newest < first)]

    async def without_calls(self, items: list[ThreadSummary], limit: int, after: str) -> str | None:
        """Add threads of which only an agent's memory is left. Returns the key to go on after; None: there are no more."""
        from clicket.agents.memory import HEAD

        prefix = "" if self._caller is None else f"{quote(self._caller, safe='')}/"
        after = max(after, prefix)
        looked = 0
        while len(items) < limit and looked < _MAX_LOOKED_AT:
            wanted = min(limit - len(items), _BATCH)
            heads = await self._store.documents(HEAD, after=after, limit=wanted)
            mine = [head for head in heads if head.key.startswith(prefix)]
            names = [(caller, thread) for caller, _, thread in (map(unquote, head.key.split("/", 2)) for head in mine)]
            for head, found in zip(mine, await self._summaries(names), strict=True):
                # With two agents: at the first one's record.
                if found is not None and found.newest == 0 and head.key == found.first_record:
                    items.append(found.summary)
            looked += len(heads)
            if len(mine) < wanted:
                return None
            after = mine[-1].key
        return after

    async def _summaries(self, names: list[ThreadName]) -> list[_Found | None]:
        """The threads of these callers and names, in a few questions for all of them together."""
        from clicket.agents.threads import inner_thread

        agents = [(name, agent) for name in names for agent in await self._agents_of(name[0])]
        turns = [(caller, inner_thread(agent, thread)) for (caller, thread), agent in agents]
        counts = await thread_counts_in(self._store, [*names, *turns], MAX_COUNTED)
        heads = await self._heads(agents)
        of: dict[ThreadName, list[tuple[ThreadAgent, int, str]]] = {name: [] for name in names}
        for (name, agent), own, (key, document) in zip(agents, counts[len(names) :], heads, strict=True):
            found = self._agent(agent, name[0], key, document, own)
            if found is not None:
                of[name].append((found, own.newest, key))
        return [self._summary(*name, own, of[name]) for name, own in zip(names, counts, strict=False)]

    def _summary(
        self, caller: str, name: str, counts: ThreadCounts, found: list[tuple[ThreadAgent, int, str]]
    ) -> _Found | None:
        agents = sorted((agent for agent, _, _ in found), key=lambda agent: -agent.updated_at)
        newest = max([counts.newest, *(key for _, key, _ in found)])
        if not newest and not agents:
            return None
        states = {State(state): count for state, count in sorted(counts.states.items()) if state in set(State)}
        summary = ThreadSummary(
            name=name,
            caller=caller,
            last_activity_at=max([counts.last_at, *(agent.updated_at for agent in agents)]),
            counts=states,
            total=sum(states.values()),
            active=sum(count for state, count in states.items() if not state.is_terminal),
            agent_state=agents[0].state if agents else None,
            agents=agents,
        )
        return _Found(summary, newest, found[0][2] if found else "")

    async def _heads(self, agents: list[tuple[ThreadName, str]]) -> list[tuple[str, StoredDocument | None]]:
        """The keys of these agents' records, and the records."""
        from clicket.agents.memory import HEAD, key_of

        keys = [key_of(caller, thread, agent) for (caller, thread), agent in agents]
        found: list[tuple[str, StoredDocument | None]] = []
        for at in range(0, len(keys), _AT_ONCE):
            some = keys[at : at + _AT_ONCE]
            found += zip(some, await asyncio.gather(*(self._head_document(HEAD, key) for key in some)), strict=True)
        return found

    async def _head_document(self, kind: str, key: str) -> StoredDocument | None:
        now = self._store.document_now(kind, key)
        return await self._store.document(kind, key) if now is None else now[0]

    def _agent(
        self, agent: str, caller: str, key: str, document: StoredDocument | None, turns: ThreadCounts
    ) -> ThreadAgent | None:
        """The agent in this thread."""
        running = any(not State(state).is_terminal for state in turns.states if state in set(State))
        if document is None and not turns.newest:
            return None
        head = None if document is None else self._head(caller, key, document.body)
        state = AgentState.RUNNING if running else None if head is None else head.state
        updated = max(turns.last_at, 0.0 if document is None else document.updated_at)
        return ThreadAgent(name=agent, state=state, turns=0 if head is None else head.turns, updated_at=updated)

    def _head(self, caller: str, key: str, body: bytes) -> Any:
        from clicket.agents.memory import Head

        shown: bytes | None = body
        if body.startswith(SEALED):
            shown = None if self._reveal is None else self._reveal(caller, key, body)
        try:
            return None if shown is None else msgspec.json.decode(shown, type=Head)
        except msgspec.MsgspecError:  # another program wrote it
            return None

    async def _learn_agents(self, places: list[CallPlace]) -> None:
        """An agent whose first turn is under way has no record yet; its turn has a place."""
        turns = {(place.caller, conversation_of(place.thread)[0]) for place in places if place.thread.startswith(_TURN)}
        for caller, agent in sorted(turns):
            if agent and self._caller in (None, caller) and agent not in (known := await self._agents_of(caller)):
                known.append(agent)

    async def _agents_of(self, caller: str) -> list[str]:
        """The names of the agents that have a record of this caller: one read for each."""
        known = self._agents.get(caller)
        if known is None:
            from clicket.agents.memory import HEAD

            prefix = f"{quote(caller, safe='')}/"
            known = []
            after = prefix
            while True:
                heads = await self._store.documents(HEAD, after=after, limit=1)
                if not heads or not heads[0].key.startswith(prefix):
                    break
                known.append(heads[0].key.removeprefix(prefix).partition("/")[0])
                after = f"{prefix}{known[-1]}/\U0010ffff"
            self._agents[caller] = known
        return known


def conversation_of(thread: str) -> tuple[str, str]:
    """The agent and the conversation of a thread that holds turns; for others no agent, and the thread itself."""
    if not thread.startswith(_TURN) or "/" not in thread:
        return "", thread
    agent, _, name = thread.removeprefix(_TURN).partition("/")
    return agent, name
