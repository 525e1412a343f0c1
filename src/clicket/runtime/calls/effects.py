"""`Runtime.effects`: what `again` would do a second time."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from clicket.engine import Engine
from clicket.model import Record, read
from clicket.model.ids import is_use_of
from clicket.model.names import AGENT_TAG
from clicket.model.ports import Query
from clicket.tools import Registry

__all__ = ["Effect", "effects"]

_PAGE = 200
_MAX_CALLS = 10_000


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose tool ran and may have changed something. `idempotent`: with the same key it has its effect once; a new call has
    another key."""

    id: str
    thread: str
    tool: str
    arguments: Any = None
    idempotent: bool = False


class _Runtime(Protocol):
    _registry: Registry

    @property
    def _opened(self) -> Engine: ...
    async def get(self, id: str, *, thread: str | None = None) -> Record: ...


async def effects(runtime: _Runtime, id: str, *, thread: str | None = None) -> list[Effect]:
    """The effects that `again` of this call would repeat, in the order in which they were asked for: those of the call itself, of its
    program's uses of tools, and of agents that it called. Read-only tools have none, and a call that never started had none.

    They are those on record: the new call may do something else. A call of which no tool is registered here counts as an effect.
    """
    found: list[Effect] = []
    await _collect(runtime, await runtime.get(id, thread=thread), found)
    return found


async def _collect(runtime: _Runtime, record: Record, found: list[Effect]) -> None:
    tool = runtime._registry.get(record.tool)
    inner = await _inner(runtime, record, is_agent=tool is not None and AGENT_TAG in tool.options.tags)
    is_harmless = tool is not None and (tool.options.read_only or AGENT_TAG in tool.options.tags)
    if record.attempts and not is_harmless:
        idempotent = tool is not None and tool.options.idempotent
        found.append(
            Effect(
                id=record.id, thread=record.thread, tool=record.tool, arguments=record.arguments, idempotent=idempotent
            )
        )
    for each in inner:
        if len(found) < _MAX_CALLS:
            await _collect(runtime, each, found)


async def _inner(runtime: _Runtime, record: Record, *, is_agent: bool) -> list[Record]:
    """The calls that a call made itself, the oldest first."""
    if is_agent:
        from clicket.agents.task_threads import thread_of_task  # a runtime without agents does not load them

        place = thread_of_task(record.thread, record.id)
        return [each for each in await _calls_in(runtime, place, record) if not _is_use(each)]
    return [each for each in await _calls_in(runtime, record.thread, record) if is_use_of(each.id, record.id)]


def _is_use(record: Record) -> bool:
    """Did a program make it? Then it is found with its program."""
    alias = record.id.rpartition(":")[2].partition("~")[0].rpartition(".")[2]
    return alias.startswith("u") and alias[1:].isdigit()


async def _calls_in(runtime: _Runtime, thread: str, of: Record) -> list[Record]:
    store = runtime._opened.store
    found: list[Record] = []
    before = None
    while len(found) < _MAX_CALLS:
        page = await store.history(Query(thread=thread, caller=of.caller, before=before, limit=_PAGE))
        found += [read(each.id, each.events) for each in page if each.damaged is None]
        if len(page) < _PAGE or page[-1].events[0].at < of.created_at:
            break
        before = page[-1].key
    return found[::-1]
