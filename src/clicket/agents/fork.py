"""Forks: new threads with what is on record of another one up to a turn, or to a step of a turn. The old thread is not changed.

A fork is documents alone. First a mark in the list of the thread's forks, then the copies, and in one commit the heads, and the mark as
done: until then nobody finds any of it. Who makes the same fork again writes the same copies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any
from urllib.parse import quote

import msgspec

from clicket.agents.entries import Begun, Heard, News, Reply, Result, Results, entry_of
from clicket.agents.memory import FORK, Head, Memory, TurnDocument, key_of, past_key
from clicket.agents.origin import Fork, Origin, fork_name
from clicket.agents.past_entries import keep_entries
from clicket.agents.subagents import AgentTool
from clicket.agents.task_threads import thread_of_task
from clicket.agents.threads import Threads
from clicket.agents.turn_cut import cut, unspent
from clicket.agents.turn_limits import Limits
from clicket.agents.turn_on_record import FoundTurn, turn_on_record
from clicket.errors import Conflict, NotFound, StoreUnavailable, UsageError
from clicket.kernel import AgentState
from clicket.model.codec import encode
from clicket.model.ports import AgentHost, DocumentWrite, Records, ToolHealth
from clicket.model.request import check_name

__all__ = ["forks_of", "make_fork", "meet_dependencies"]

_PAGE = 200
_ATTEMPTS = 20
_MAX_DEPTH = 20


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A fork in the list of its thread. `done`: it can be seen. See `ForkSweep`."""

    thread: str
    origin: Origin
    at: float
    done: bool = False


_mark = msgspec.json.Decoder(_Mark)


async def make_fork(threads: Threads, thread: str, after: int | None, step: int | None, to: str | None) -> str:
    """The name of the fork; see `Agent.fork`."""
    _check(after, step)
    host, memory = threads.host, threads.memory
    head, _ = await threads.settled(thread)
    origin = Origin(thread=thread, after=head.turns if after is None else after, step=step)
    name = fork_name(thread) if to is None else to
    check_name("to", name)
    for _ in range(_ATTEMPTS):
        there, version = await memory.head(host, name)
        if origin.is_same(there.origin):
            await meet_dependencies(host, name, there.origin)
            return name
        if version or name == thread or await threads.record(name, 1) is not None:
            raise Conflict(
                f"there is a thread {name!r} already, and it is not this fork. Give the fork another name (to=…)."
            )
        if await _Making(threads, origin, name).make(head):
            made, _ = await memory.head(host, name)
            await meet_dependencies(host, name, made.origin)
            return name
    raise StoreUnavailable(f"too many processes make forks of thread {thread!r} with the name {name!r} at once.")


def _check(after: int | None, step: int | None) -> None:
    if after is not None and (type(after) is not int or after < 0):
        raise UsageError(f"after is the number of a turn, or 0 for none, not {after!r}.")
    if step is not None and (type(step) is not int or step < 1):
        raise UsageError(f"step is the number of a step, from 1, not {step!r}.")


class _Making:
    """Of one fork, and of the threads of the agents that its turns have called."""

    def __init__(self, threads: Threads, origin: Origin, to: str) -> None:
        self._threads = threads
        self._host = threads.host
        self._origin = origin
        self._to = to
        self._writes: list[DocumentWrite] = []
        """Of the last commit."""
        self._artifacts: set[str] = set()

    async def make(self, head: Head) -> bool:
        """False: another process has the name by now."""
        host, origin = self._host, self._origin
        key = f"{key_of(host.caller, origin.thread, self._threads.agent)}/{quote(self._to, safe='')}"
        mark = _Mark(thread=self._to, origin=origin, at=host.clock.now())
        found = await self._turn_after(head) if origin.step is not None else None
        await self._check_turns(head)
        version = await self._marked(key, mark)
        if not version:
            return False
        await self._copy(self._threads, head, origin, self._to, found)
        for artifact in sorted(self._artifacts):
            await host.allow(artifact)
        done = encode(msgspec.structs.replace(mark, done=True))
        self._writes.append(DocumentWrite(kind=FORK, key=key, body=done, expect=version))
        return await host.records.put_documents(self._writes)

    async def _marked(self, key: str, mark: _Mark) -> int:
        """The version of the mark in the list of forks; 0: another process has written it meanwhile."""
        records = self._host.records
        known = await records.document(FORK, key)
        before = None if known is None else _read(known.body)
        if known is not None and before is not None and not before.done and before.origin == mark.origin:
            return known.version  # of another process, or of one that was killed: the copies are the same
        version = 0 if known is None else known.version
        return version + 1 if await records.put_document(FORK, key, encode(mark), version) else 0

    async def _check_turns(self, head: Head) -> None:
        origin = self._origin
        if origin.after > head.turns:
            raise NotFound(
                f"thread {origin.thread!r} has {head.turns} turns that have ended, and no turn {origin.after}."
            )
        if origin.after < head.since - 1:
            raise NotFound(f"turns of thread {origin.thread!r} before turn {head.since} were forgotten.")

    async def _turn_after(self, head: Head) -> FoundTurn:
        """The next turn up to the step."""
        origin, number = self._origin, self._origin.after + 1
        found = await turn_on_record(self._threads, origin.thread, number)
        if found is None and number <= head.turns:
            raise _gone(origin.thread, number)
        left = None if found is None else cut(found.entries, origin.step or 0)
        if found is None or left is None:
            raise NotFound(
                f"step {origin.step} of turn {number} of thread {origin.thread!r} is not on record with its results, or ends the turn. "
                f"Take an earlier step, or whole turns (after={number})."
            )
        return FoundTurn(entries=unspent(left), arguments=found.arguments)

    async def _copy(
        self, threads: Threads, head: Head, origin: Origin, to: str, cut_turn: FoundTurn | None, depth: int = 0
    ) -> None:
        """Write the copies, and note the head of the last commit."""
        host, memory = self._host, threads.memory
        place = past_key(key_of(host.caller, to, threads.agent), origin)
        last: TurnDocument | None = None
        called: dict[str, str] = {}
        async for turn in _turns(memory, host, origin.thread, head.since - 1, origin.after):
            last = turn
            await memory.keep_past(host, place, turn)
            self._artifacts.update(file.artifact for message in turn.messages for file in message.files)
            found = await turn_on_record(threads, origin.thread, turn.turn)
            if found is not None:  # the retention of calls may be shorter than that of threads
                await self._keep(place, turn.turn, found, called)
        at = 0.0 if last is None else last.at
        if cut_turn is not None:
            await self._keep(place, origin.after + 1, cut_turn, called)
            at = max((entry_of(raw).at for raw in cut_turn.entries), default=at)
        new = Head(
            turns=origin.after, since=head.since, thread=to, updated_at=host.clock.now(), origin=msgspec.structs.replace(origin, at=at),
            **_ending_of(last),
        )  # fmt: skip
        self._writes.append(memory.head_write(host, to, new))
        if depth < _MAX_DEPTH:
            for call, agent in called.items():
                await self._copy_called(agent, thread_of_task(origin.thread, call), thread_of_task(to, call), depth + 1)

    async def _keep(self, place: str, number: int, found: FoundTurn, called: dict[str, str]) -> None:
        await keep_entries(self._host, place, number, found.entries, found.arguments)
        artifacts, results = _named_in(found.entries)
        self._artifacts |= artifacts
        for item in results:
            tool = self._host.installed(item.tool)
            if item.call and isinstance(tool, AgentTool):
                called[item.call] = tool.agent.name

    async def _copy_called(self, agent: str, thread: str, to: str, depth: int) -> None:
        """The thread in which an agent worked on a task."""
        threads = Threads(self._host, Memory(agent), f"agent:{agent}", Limits())
        head, version = await threads.memory.head(self._host, thread)
        there = (await threads.memory.head(self._host, to))[1]
        if version and head.turns and not there:
            await self._copy(threads, head, Origin(thread=thread, after=head.turns), to, None, depth)


def _ending_of(turn: TurnDocument | None) -> dict[str, Any]:
    """How the last turn ended, as fields of a head. What it spent stays with the origin."""
    if turn is None:
        return {"state": AgentState.IDLE}
    return {
        "state": turn.state, "stopped": turn.stopped, "text": turn.text, "steps": turn.steps, "error": turn.error, "agent": turn.agent,
    }  # fmt: skip


async def _turns(memory: Memory, host: AgentHost, thread: str, after: int, until: int) -> AsyncIterator[TurnDocument]:
    while after < until:
        page = await memory.page(host, thread, after=after, until=until, limit=_PAGE)
        for turn in page.turns:
            yield turn
        if page.after is None:
            return
        after = page.after


def _named_in(entries: Iterable[dict[str, Any]]) -> tuple[set[str], list[Result]]:
    """The artifacts that entries name, and the results in them."""
    artifacts: set[str] = set()
    results: list[Result] = []
    for raw in entries:
        match entry_of(raw):
            case Begun(files=files) | Heard(files=files):
                artifacts.update(file.artifact for file in files)
            case Results(items=items) | News(items=items):
                results += items
                artifacts.update(file.artifact for item in items for file in item.files)
                artifacts.update(item.artifact for item in items if item.artifact.startswith("sha256-"))
            case Reply():
                pass
    return artifacts, results


def _gone(thread: str, number: int) -> NotFound:
    return NotFound(
        f"the entries of turn {number} of thread {thread!r} are not kept any more: they live as long as its thread is in use "
        "(memory_retention, and retention for those that were forgotten). Take whole turns."
    )


async def meet_dependencies(host: AgentHost, thread: str, origin: Origin | None) -> None:
    """Let the tools count as completed in the fork that had completed in its origin by then. What has an entry of its own stays."""
    if origin is None or not origin.at:
        return
    there = {known.tool for known in await host.records.tool_health(host.caller, thread)}
    for known in await host.records.tool_health(host.caller, origin.thread):
        first = known.first_success_at
        if known.completions and first is not None and first <= origin.at and known.tool not in there:
            met = ToolHealth(
                tool=known.tool,
                completions=1,
                first_success_at=first,
                last_success_at=first,
                updated_at=host.clock.now(),
            )
            await host.records.put_tool_health(host.caller, thread, met, 0)


# The tree of forks.


async def forks_of(threads: Threads, thread: str, depth: int = 0) -> list[Fork]:
    """The forks of a thread, the oldest first, each with its own."""
    found: list[Fork] = []
    for mark in await _marks(threads.host.records, f"{key_of(threads.host.caller, thread, threads.agent)}/"):
        head, _ = await threads.memory.head(threads.host, mark.thread)
        if not mark.origin.is_same(head.origin):  # it was removed, or is not done
            continue
        deeper = await forks_of(threads, mark.thread, depth + 1) if depth < _MAX_DEPTH else []
        found.append(
            Fork(
                thread=mark.thread, agent=threads.agent, origin=head.origin or mark.origin, made_at=mark.at, turns=head.turns, forks=deeper
            )
        )  # fmt: skip
    return sorted(found, key=lambda fork: fork.made_at)


async def _marks(records: Records, prefix: str) -> list[_Mark]:
    found: list[_Mark] = []
    after = prefix
    while True:
        documents = await records.documents(FORK, after=after, limit=_PAGE)
        mine = [document for document in documents if document.key.startswith(prefix)]
        for document in mine:
            mark = _read(document.body)
            if mark is not None:
                found.append(mark)
        if len(mine) < _PAGE:
            return found
        after = mine[-1].key


def _read(body: bytes) -> _Mark | None:
    try:
        return _mark.decode(body)
    except msgspec.MsgspecError:  # another program wrote it
        return None
