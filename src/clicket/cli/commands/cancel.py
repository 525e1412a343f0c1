"""`clicket cancel`: cancels a call, or all that a filter finds, in any process. The request is written into the store, where the call's
owner reads it."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import msgspec
import typer

from clicket.cli.completion import complete_active
from clicket.cli.context import Context, find_call
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import as_state, pairs_of, parse_duration
from clicket.cli.options import CallerOption, ThreadOption
from clicket.cli.terminal import clean
from clicket.errors import UsageError
from clicket.kernel import State
from clicket.runtime.calls.bulk import BulkFailure

__all__ = ["cancel"]

_POLL_EVERY = 0.05


async def cancel(
    context: Context,
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The id or its beginning.", autocompletion=complete_active)
    ] = None,
    filter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Cancel all active calls that fit instead: tool, thread, state, caller, since, until, request_id, … Repeatable.",
        ),
    ] = None,
    dry: Annotated[bool, typer.Option("--dry", help="With --filter: only count the calls.")] = False,
    thread: ThreadOption = None,
    caller: CallerOption = None,
    reason: Annotated[str, typer.Option(help="Stored with the request.")] = "",
    wait: Annotated[str, typer.Option(metavar="TIME", help="How long to wait for the outcome.")] = "5s",
) -> None:
    """Cancel a call, also one that another process runs, or all that a filter finds."""
    terminal = context.terminal
    timeout = parse_duration(wait)
    if (id is None) == (not filter):
        raise UsageError("name one call by its id, or several with --filter KEY=VALUE: one of the two.")
    if id is None:
        await _cancel_all(context, filter or [], reason, dry=dry, caller=caller, thread=thread)
        return
    async with context.watcher() as runtime:
        view, record = await find_call(runtime, id, thread, caller)
        asked = await view.cancel(record.id, thread=record.thread, reason=reason)
        state = await view.state(record.id, thread=record.thread)
        give_up_at = time.monotonic() + timeout
        while asked and not state.is_terminal and time.monotonic() < give_up_at:
            await asyncio.sleep(_POLL_EVERY)
            state = await view.state(record.id, thread=record.thread)
    cancelled = state is State.CANCELLED
    if terminal.json:
        terminal.print_json(
            {
                "id": record.id,
                "thread": record.thread,
                "requested": asked,
                "cancelled": cancelled and asked,
                "state": str(state),
            }
        )
    elif not asked:
        terminal.say(as_state(state).append(f"  {clean(record.id)} had ended already"))
    elif cancelled:
        terminal.say(as_state(state).append(f"  {clean(record.id)}"))
    elif state.is_terminal:
        terminal.say(as_state(state).append(f"  {clean(record.id)} ended before the request reached it"))
    else:
        terminal.say(
            as_state(state).append(
                f"  {clean(record.id)}: the request is stored, the call has not ended yet. If its process is dead, the next "
                "runtime that has its tool takes it over."
            )
        )
    if not asked or (state.is_terminal and not cancelled):
        raise CallFailed


async def _cancel_all(context: Context, given: list[str], reason: str, *, dry: bool, **named: str | None) -> None:
    which = {**_filter_of(given), **{name: value for name, value in named.items() if value is not None}}
    done = matched = 0
    failures: list[BulkFailure] = []
    cursor = None
    async with context.watcher() as runtime:
        while True:
            step = await runtime.bulk("cancel", filter=which, reason=reason, dry=dry, cursor=cursor)
            done, matched, failures, cursor = (
                done + step.done,
                matched + step.matched,
                failures + step.failures,
                step.cursor,
            )
            if cursor is None:
                break
    terminal = context.terminal
    if terminal.json:
        terminal.print_json(
            {"matched": matched, "cancelled": done, "dry": dry, "failures": msgspec.to_builtins(failures)}
        )
    else:
        terminal.say(
            f"{matched} calls match" if dry else f"{done} of {matched} calls are cancelled, or will be by their owners"
        )
        for failure in failures[:20]:
            terminal.complain(failure.code, f"{clean(failure.id)}: {failure.message}")
    if failures:
        raise CallFailed


def _filter_of(given: list[str]) -> dict[str, Any]:
    which: dict[str, Any] = {}
    for name, value in pairs_of(given).items():
        if name.startswith("metadata."):
            which.setdefault("metadata", {})[name.removeprefix("metadata.")] = value
        elif name in ("since", "until"):
            try:
                which[name] = float(value)
            except ValueError:
                raise UsageError(f"{name} must be seconds since 1970, not {value!r}.") from None
        else:
            which[name] = value
    return which
