"""`clicket cancel`: cancels a call in any process. The request is written into the store, where the call's owner reads it."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer

from clicket.cli.completion import complete_active
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import as_state, parse_duration
from clicket.cli.options import CallerOption, ThreadOption
from clicket.cli.session import Session, find_call
from clicket.cli.terminal import clean
from clicket.kernel import State

__all__ = ["cancel"]

_POLL_EVERY = 0.05


async def cancel(
    session: Session,
    id: Annotated[str, typer.Argument(metavar="ID", help="The id or its beginning.", autocompletion=complete_active)],
    thread: ThreadOption = None,
    caller: CallerOption = None,
    reason: Annotated[str, typer.Option(help="Stored with the request.")] = "",
    wait: Annotated[str, typer.Option(metavar="TIME", help="How long to wait for the outcome.")] = "5s",
) -> None:
    """Cancel a call, also one that another process runs."""
    terminal = session.terminal
    timeout = parse_duration(wait)
    async with session.watcher() as runtime:
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
