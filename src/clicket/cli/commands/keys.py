"""`clicket keys`: API keys of the server. They are in the store, so every server over it accepts them, and revoking is immediate."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from clicket.cli.columns import Column, fitted
from clicket.cli.context import Context
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import ago, parse_duration, short
from clicket.errors import UsageError
from clicket.runtime.runtime import Runtime
from clicket.server import keys
from clicket.server.keys import Key

__all__ = ["create", "list_keys", "revoke"]

_COLOURS = {"valid": "green", "revoked": "red", "expired": "yellow"}


@asynccontextmanager
async def _open(context: Context) -> AsyncIterator[Runtime]:
    """A runtime over the store, which is made if it does not exist: keys may be made before the first call."""
    if context.settings.store.startswith("memory:"):
        raise UsageError(
            "a store in memory is lost when this command ends. Pass --store, or set CLICKET_API_KEYS for the server."
        )
    async with Runtime((), settings=context.settings) as runtime:
        yield runtime


async def create(
    context: Context,
    name: Annotated[str, typer.Option("--name", "-n", help="The name of the key's owner.")],
    scopes: Annotated[
        str, typer.Option("--scopes", "-s", metavar="LIST", help="read, call, approve, admin; separated by commas.")
    ] = "read,call",
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="How long it is valid: 90d, 12h.")
    ] = None,
    holder: Annotated[
        str, typer.Option("--holder", metavar="PERSON", help="Whose key it is, if the name does not say it.")
    ] = "",
) -> None:
    """Make a key. It is shown only once; the store keeps a hash of it.

    Keys of the same name or holder belong to one person, who may not approve the calls that any of them made.
    """
    terminal = context.terminal
    now = time.time()
    until = None if expires is None else now + parse_duration(expires)
    async with _open(context) as runtime:
        made, text = await keys.create(
            runtime.store, name=name, scopes=scopes.split(","), now=now, expires_at=until, holder=holder
        )
        await runtime.audit.record("key.created", key=made.id, name=name, scopes=list(made.scopes))
    if terminal.json:
        terminal.print_json({**_shown(made, now), "key": text})
        return
    terminal.say(f"key {made.id} for {name}: {', '.join(made.scopes)}. It is not shown again.", style="yellow")
    terminal.write(text + "\n")


async def list_keys(context: Context) -> None:
    """List the keys, without their secrets."""
    terminal = context.terminal
    now = time.time()
    found: list[Key] = []
    if context.store_exists:
        async with _open(context) as runtime:
            found = await keys.listed(runtime.store)
    if terminal.json:
        terminal.print_json([_shown(key, now) for key in found])
        return
    if not found:
        terminal.say("there are no keys in this store. `clicket keys create --name NAME` makes one.")
        return
    columns = [
        Column("ID", [key.id for key in found], keep=True),
        Column("NAME", [short(key.name, 40) for key in found], rank=3, least=12),
        Column("SCOPES", [", ".join(key.scopes) for key in found], rank=2, least=8),
        Column("MADE", [ago(key.created_at) for key in found], rank=1),
        Column("STATE", [_state(key, now) for key in found], keep=True),
    ]
    terminal.out.print(fitted(columns, terminal.out.width))


def _state(key: Key, now: float) -> Text:
    state = key.state(now)
    until = ""
    if key.expires_at is not None and state == "valid":
        until = f" until {time.strftime('%Y-%m-%d %H:%M', time.localtime(key.expires_at))}"
    return Text(state, style=_COLOURS[state]).append(until, style="bright_black")


async def revoke(
    context: Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `clicket keys list` shows it.")],
) -> None:
    """Revoke a key: at once, for every server over this store."""
    terminal = context.terminal
    async with _open(context) as runtime:
        key, done = await keys.revoke(runtime.store, id, now=time.time())
        if done:
            await runtime.audit.record("key.revoked", key=key.id, name=key.name)
    if terminal.json:
        terminal.print_json({**_shown(key, time.time()), "revoked": done})
    else:
        terminal.say(f"key {key.id} ({key.name}) {'is revoked' if done else 'was revoked before'}.")
    if not done:
        raise CallFailed


def _shown(key: Key, now: float) -> dict[str, Any]:
    """A key without its hash."""
    shown: dict[str, Any] = msgspec.to_builtins(key)
    del shown["hash"]
    return {**shown, "state": key.state(now)}
