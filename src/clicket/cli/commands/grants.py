"""`clicket grants`: lists the approvals that also let later calls run, and revokes them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from clicket.cli.columns import Column, fitted
from clicket.cli.commands.approve import user_name
from clicket.cli.context import Context
from clicket.cli.formatting import ago, duration, short
from clicket.cli.terminal import Terminal, clean
from clicket.errors import NotFound, UsageError
from clicket.model.grant import Grant, GrantState

__all__ = ["list_grants", "revoke"]

STATE_STYLES: dict[GrantState, str] = {
    "active": "green", "used_up": "bright_black", "expired": "bright_black", "revoked": "red",
}  # fmt: skip


async def list_grants(
    context: Context,
    tool: Annotated[str | None, typer.Option("--tool", metavar="NAME", help="Only grants for this tool.")] = None,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Also those that were used up, expired or revoked.")
    ] = False,
) -> None:
    """List the approvals that also let later calls run.

    `clicket approve ID --grant-uses 10` gives one.
    """
    found: Sequence[Grant] = ()
    if context.store_exists:
        async with context.watcher() as runtime:
            found = await runtime.grants.list(tool=tool, state=None if every else "active")
    if context.terminal.json:
        context.terminal.print_json({"items": msgspec.to_builtins(found)})
    elif found:
        _print(context.terminal, found)
    else:
        context.terminal.say("no grant is in force." if not every else "there are no grants.", style="bright_black")


async def revoke(
    context: Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The grant's id, or its beginning.")],
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who revokes it; default: your user name.")] = None,
) -> None:
    """Revoke a grant: at once, for every process over this store."""
    async with context.watcher() as runtime:
        known = [grant.id for grant in await runtime.grants.list()]
        grant = await runtime.grants.revoke(_resolved(id, known), by=user_name(by))
    if context.terminal.json:
        context.terminal.print_json(msgspec.to_builtins(grant))
    else:
        context.terminal.say(f"grant {grant.id} for {clean(grant.tool)} is revoked; it was used {grant.used} times.")


def _resolved(prefix: str, known: Sequence[str]) -> str:
    found = [id for id in known if id == prefix] or [id for id in known if id.startswith(prefix)]
    if not found:
        raise NotFound(f"there is no grant {prefix!r:.200}. `clicket grants list --all` lists them.")
    if len(found) > 1:
        raise UsageError(f"{len(found)} grants begin with {prefix!r} ({', '.join(found[:5])}); write more of the id.")
    return found[0]


def _print(terminal: Terminal, grants: Sequence[Grant]) -> None:
    now = time.time()
    columns = [
        Column("ID", [grant.id for grant in grants], keep=True),
        Column("TOOL", [Text(clean(grant.tool), style="bold") for grant in grants], rank=8),
        Column("STATE", [Text(grant.state, style=STATE_STYLES[grant.state]) for grant in grants], keep=True),
        Column("USED", [f"{grant.used}/{'…' if grant.uses is None else grant.uses}" for grant in grants], rank=7, right=True),
        Column("LEFT", [_left(grant, now) for grant in grants], rank=6),
        Column("CALLER", [short(grant.caller, 20) for grant in grants], rank=4),
        Column("THREAD", [short(grant.thread or "", 20) for grant in grants], rank=3),
        Column("BY", [short(grant.by, 20) for grant in grants], rank=5),
        Column("GIVEN", [ago(min(grant.given_at, now)) for grant in grants], rank=1, style="bright_black"),
        Column(
            "ARGUMENTS",
            [short("" if grant.arguments is None else msgspec.json.encode(grant.arguments).decode(), 80) for grant in grants],
            rank=2, least=12,
        ),
    ]  # fmt: skip
    terminal.out.print(fitted(columns, terminal.out.width))


def _left(grant: Grant, now: float) -> str:
    return "" if grant.expires_at is None else duration(max(grant.expires_at - now, 0.0))
