"""`Runtime.forget`: removes what the store has of one caller.

Calls go first and the heads of threads last: a thread that was half removed is found again, and no new turn gets the number of a call that
is still there. So a run after a kill ends what the first one began.
"""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import quote, unquote

import msgspec

from clicket.engine import Engine
from clicket.engine.executors import ARTIFACT_ACCESS, CallerDocuments
from clicket.errors import AgentBusy, Conflict, PermissionDenied, UsageError
from clicket.model import read
from clicket.model.forgotten import Forgotten
from clicket.model.ports import Query, Store, StoredDocument, ToolHealth
from clicket.runtime.views.threads import conversation_of

__all__ = ["forget"]

_PAGE = 200
_PASSES = 20
_NAMED = 3


class _Runtime(Protocol):
    _caller: str | None

    @property
    def _opened(self) -> Engine: ...
    @property
    def schedules(self) -> Any: ...


async def forget(runtime: _Runtime, *, caller: str | None = None, by: str = "") -> Forgotten:
    """Remove the threads of a caller, its calls and their outcomes, its artifacts, what agents remember about it, and its queued messages.

    `AgentBusy`, or `Conflict`: a turn or a call of it has not ended, and nothing was removed. May be run again at any time, also after a
    kill. The runtime of one caller (`acting_for`) forgets that caller. Credentials, grants, schedules and API keys stay, and so do the
    audit log and what was spent.
    """
    own = runtime._caller
    if own is not None and caller not in (None, own):
        raise PermissionDenied("this runtime acts for one caller, and forgets that caller alone.")
    whose = own if caller is None else caller
    if whose is None:
        raise UsageError("name the caller to forget: rt.forget(caller='…'); '' is the program itself.")
    return await _Forgetting(runtime._opened, whose).run(runtime, by)


class _Forgetting:
    def __init__(self, engine: Engine, caller: str) -> None:
        self._engine = engine
        self._store: Store = engine.store
        self._caller = caller
        self._prefix = f"{quote(caller, safe='')}/"
        self._threads: set[str] = set()
        self._calls = self._facts = self._artifacts = self._messages = 0

    async def run(self, runtime: _Runtime, by: str) -> Forgotten:
        await self._refuse_active()
        for _ in range(_PASSES):
            await self._remove_queues()
            await self._refuse_active()  # a message may have begun its turn meanwhile
            await self._remove_calls()
            await self._remove_artifacts()
            await self._remove_threads()
            if not await self._store.history(Query(caller=self._caller, limit=1)):
                break
        engine, caller = self._engine, self._caller
        await engine.sweeps.forget_outcomes(caller)
        left = {
            "credentials": len(await engine.credentials.listed(caller)),
            "grants": sum(grant.caller == caller for grant in await engine.grants.listed()),
            "schedules": sum(each.caller == caller for each in await runtime.schedules.list()),
        }
        report = Forgotten(
            caller=caller,
            threads=len(self._threads),
            calls=self._calls,
            facts=self._facts,
            artifacts=self._artifacts,
            messages=self._messages,
            remaining={what: count for what, count in left.items() if count},
        )
        counts = {name: value for name, value in msgspec.to_builtins(report).items() if name != "remaining"}
        await engine.audit.kept(by or caller, "caller.forgotten", **counts)
        return report

    async def _refuse_active(self) -> None:
        active = await self._store.history(Query(caller=self._caller, active=True, limit=_PAGE))
        found = [read(stored.id, stored.events) for stored in active if stored.damaged is None]
        if not found:
            return
        named = ", ".join(f"{each.tool} in thread {conversation_of(each.thread)[1]!r}" for each in found[:_NAMED])
        kind = AgentBusy if any(each.tool.startswith("agent:") for each in found) else Conflict
        raise kind(
            f"{len(found)} calls of the caller have not ended ({named}). End them first, with agent.stop(thread) or rt.cancel(id); then "
            "forget it again."
        )

    async def _remove_queues(self) -> None:
        from clicket.agents.mailbox import OF_QUEUES  # a runtime without agents does not load them
        from clicket.agents.memory import QUEUE

        self._messages += await self._delete(QUEUE)
        for kind in OF_QUEUES:
            await self._delete(kind)

    async def _remove_calls(self) -> None:
        before = None
        while True:
            calls = await self._store.history(Query(caller=self._caller, before=before, limit=_PAGE))
            places = {str(stored.events[0].data.get("thread")) for stored in calls if stored.events}
            for thread in sorted(places):
                self._threads.add(conversation_of(thread)[1])
                await self._clear_health(thread)
                await self._store.release(self._caller, thread)
            self._calls += await self._engine.sweeps.forget_calls(calls)
            if len(calls) < _PAGE:
                return
            before = calls[-1].key

    async def _clear_health(self, thread: str) -> None:
        """Errors of tools in the thread; a status that a person set stays."""
        for known in await self._store.tool_health(self._caller, thread):
            clear = ToolHealth(tool=known.tool, status=known.status, reason=known.reason, by=known.by)
            if known.completions or known.failures:
                await self._store.put_tool_health(self._caller, thread, clear, known.version)

    async def _remove_artifacts(self) -> None:
        """The right of this caller to read them; and the bytes, unless another caller may read them, too."""
        prefix = f"{self._caller}/"
        mine = (
            [key for key in await self._keys(ARTIFACT_ACCESS, prefix) if "/" not in key.removeprefix(prefix)]
            if self._caller
            else []
        )
        names = {key.removeprefix(prefix) for key in mine}
        if names:
            others = (key.rpartition("/") for key in await self._keys(ARTIFACT_ACCESS, ""))
            alone = names - {name for owner, _, name in others if owner != self._caller}
            await self._store.unpin(sorted(alone))
        for key in mine:
            self._artifacts += await self._store.delete_document(ARTIFACT_ACCESS, key)

    async def _remove_threads(self) -> None:
        from clicket.agents.context_window import SUMMARY
        from clicket.agents.facts import MEMORY, facts_in
        from clicket.agents.memory import ENTRIES, FORK, HEAD, ID, PIECES, REQUESTS, TURN

        documents = CallerDocuments(self._store, self._engine.vault, self._caller, self._engine.clock)
        for key in await self._keys(MEMORY, self._prefix):
            known = await self._store.document(MEMORY, key)
            count = 0 if known is None else len(facts_in(documents, known) or ())
            self._facts += count if await self._store.delete_document(MEMORY, key) else 0
        for kind in (ID, TURN, ENTRIES, FORK, SUMMARY, REQUESTS, PIECES):
            await self._delete(kind)
        for key in await self._keys(HEAD, self._prefix):
            self._threads.add(unquote(key.split("/", 2)[2]))
            await self._store.delete_document(HEAD, key)

    async def _delete(self, kind: str) -> int:
        """Delete the caller's documents of a kind; how many there were."""
        keys = await self._keys(kind, self._prefix)
        return sum([await self._store.delete_document(kind, key) for key in keys])

    async def _keys(self, kind: str, prefix: str) -> list[str]:
        found: list[str] = []
        after = prefix
        while True:
            page: list[StoredDocument] = await self._store.documents(kind, after=after, limit=_PAGE)
            mine = [document.key for document in page if document.key.startswith(prefix)]
            found += mine
            if len(mine) < _PAGE:
                return found
            after = mine[-1]
