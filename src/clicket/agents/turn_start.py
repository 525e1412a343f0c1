"""Begins turns: for a caller, and for messages that wait in the queue of a thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from clicket.agents.frontend_tool import offers_on_record
from clicket.agents.run_options import NO_OPTIONS, NO_VALUES, RunOptions, RunValues, Taking, options_in
from clicket.agents.threads import Threads, Wanted, turn_id
from clicket.agents.turn_lifecycle import TurnLifecycle
from clicket.agents.turn_tool import TurnTool
from clicket.errors import AgentBusy, ClicketError, Conflict, NotFound, UsageError
from clicket.model.chat import ToolOffer
from clicket.model.ids import new_id
from clicket.model.ports import AgentHost, Taken

__all__ = ["begin", "bringing", "earlier", "turn_arguments", "work_off"]

logger = logging.getLogger("clicket.agents")


async def begin(
    tool: TurnTool,
    threads: Threads,
    lifecycle: TurnLifecycle,
    wanted: Wanted,
    thread: str,
    given: Taking,
    frontend: Sequence[ToolOffer] = (),
    only: int = 0,
) -> int:
    """The number of the turn that a message begins, or began before, once it is durable. See `Agent.begin`. `only`: it may begin the turn
    of this number, and no later one; else `AgentBusy`."""
    while True:
        number = await threads.next(thread)
        run = wanted.run or new_id()
        known = await earlier(tool, threads, wanted, thread, number)
        if known is not None:
            return known
        if only not in (0, number):
            raise AgentBusy(f"turn {only} of thread {thread!r} began with another message.")
        await refuse_lacking(lifecycle, threads, thread, number, given)
        is_first = run not in tool.starting  # else the same request came twice at once
        tool.expect(run, lifecycle, given.values)
        try:
            arguments = turn_arguments(wanted, thread, number, run, given.options)
            if frontend:
                arguments["frontend"] = offers_on_record(frontend)
            await threads.host.begin(tool.name, arguments, id=turn_id(number), thread=threads.inner(thread))
        except Taken:
            if is_first:
                tool.starting.pop(run, None)
            if (
                await threads.join(wanted, thread, number, bringing(tool, threads, thread, number, given.values))
                is None
            ):
                continue
        except Exception:  # not on cancellation: then the turn begins all the same, and needs its agent
            tool.starting.pop(run, None)
            raise
        return number


async def earlier(tool: TurnTool, threads: Threads, wanted: Wanted, thread: str, number: int) -> int | None:
    """See `Threads.earlier`. `Conflict` also if another message was sent with the id."""
    if wanted.id:
        await tool.mailbox.was_sent(threads.host, thread, wanted.id, wanted.message)
    return await threads.earlier(wanted, thread, number) if wanted.is_named else None


def lacking_dep(lifecycle: TurnLifecycle, host: AgentHost, given: Taking) -> str:
    """Why a tool that the run may use cannot run; empty if all can."""
    identity = lifecycle.identity.for_run(given.options)
    lacking = host.lacking_dep(identity.tools, given.options.deps)
    return lacking and f"the agent {identity.name!r} cannot run: {lacking} Or leave the tool out: tools=[…]."


async def refuse_lacking(lifecycle: TurnLifecycle, threads: Threads, thread: str, number: int, given: Taking) -> None:
    """`UsageError` if no caller gives a dep of a tool. A turn that has begun waits for it instead."""
    lacking = lacking_dep(lifecycle, threads.host, given)
    if lacking and await threads.record(thread, number) is None:
        raise UsageError(lacking)


def bringing(tool: TurnTool, threads: Threads, thread: str, number: int, values: RunValues) -> Callable[[], None]:
    """Brings what a caller has that joins a turn: the turn may wait for it."""

    def bring() -> None:
        if values != NO_VALUES:
            tool.brought.bring((threads.host.caller, thread, number), values)

    return bring


def turn_arguments(wanted: Wanted, thread: str, number: int, run: str, options: RunOptions) -> dict[str, Any]:
    """Of the call that is the turn."""
    arguments: dict[str, Any] = {"message": wanted.message, "thread": thread, "turn": number, "run": run}
    if wanted.files:
        arguments["files"] = msgspec.to_builtins(wanted.files)
    if wanted.id:
        arguments["id"] = wanted.id
    if options != NO_OPTIONS:
        arguments["options"] = msgspec.to_builtins(options)
    return arguments


async def work_off(tool: TurnTool, host: AgentHost, thread: str) -> dict[str, int]:
    """Begin the turn of the first message that waits for one, unless a turn runs or the queue is held. A turn that the message was sent
    to interrupt is ended first. Returns the turns of the messages that were taken, by their ids. A message whose turn is on record already
    is removed from the queue."""
    taken: dict[str, int] = {}
    interrupted = 0
    while True:
        messages = await tool.mailbox.list(host, thread)
        if not messages or await tool.mailbox.is_held(host, thread):
            return taken
        first = messages[0]
        own = host.acting_for(first.caller, frozenset(first.scopes), frozenset(first.requesters))
        threads = Threads(own, tool.memory, tool.name, tool.latest.limits)
        head, running = await threads.settled(thread)
        if running is not None:
            if first.stops != head.turns + 1 or interrupted == first.stops:
                return taken
            interrupted = first.stops
            await _interrupt(threads, thread, interrupted)
            continue
        wanted = Wanted(message=first.text, files=tuple(first.files), id=first.id)
        given = Taking(options_in(first.options), NO_VALUES)
        if lacking_dep(tool.latest, own, given):  # a process that has the dep begins it
            return taken
        # It waits still, so no turn that has ended has heard it; nor has a later one, if it begins the next.
        if not await tool.mailbox.take(host, first):
            continue
        try:
            taken[first.id] = await begin(tool, threads, tool.latest, wanted, thread, given, only=head.turns + 1)
        except AgentBusy:  # another process was quicker
            return taken
        except (
            Conflict
        ) as error:  # its id was given to another message meanwhile: it can never begin, and must not stop the others
            logger.warning("a message of thread %s is removed from its queue: %s", thread, error.message)
        await tool.mailbox.remove(own, thread, (first.id,))


async def _interrupt(threads: Threads, thread: str, number: int) -> None:
    with suppress(NotFound):
        if await threads.host.cancel(turn_id(number), threads.inner(thread), "another message interrupts the turn"):
            with suppress(ClicketError):
                await threads.host.outcome(turn_id(number), threads.inner(thread))
