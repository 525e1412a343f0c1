"""`clicket credentials`: credentials of callers for services outside. A secret is read from the terminal or from stdin, never from argv."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from clicket.cli.columns import Column, fitted
from clicket.cli.commands.approve import user_name
from clicket.cli.context import Context
from clicket.cli.formatting import ago, duration, parse_duration, short
from clicket.cli.terminal import Terminal, clean
from clicket.errors import UsageError
from clicket.model.credential import Credential
from clicket.runtime.runtime import Runtime

__all__ = ["link", "list_credentials", "put", "revoke"]

_COLOURS = {"ready": "green", "expired": "yellow"}
_Provider = Annotated[str, typer.Argument(metavar="PROVIDER", help="The name of the service, like github.")]
_Caller = Annotated[
    str,
    typer.Option(
        "--caller", metavar="NAME", help="Whose credential: the id of an API key; default: the program's own."
    ),
]


@asynccontextmanager
async def _open(context: Context) -> AsyncIterator[Runtime]:
    """A runtime over the store, which is made if it does not exist: credentials may be put before the first call."""
    if context.settings.store.startswith("memory:"):
        raise UsageError("a store in memory is lost when this command ends. Pass --store with one to share.")
    async with Runtime((), settings=context.settings) as runtime:
        yield runtime


async def list_credentials(
    context: Context,
    caller: Annotated[str | None, typer.Option("--caller", metavar="NAME", help="Only those of this caller.")] = None,
) -> None:
    """List credentials of callers, without their secrets."""
    found: Sequence[Credential] = ()
    if context.store_exists:
        async with context.watcher() as runtime:
            found = await runtime.credentials.list(caller=caller)
    if context.terminal.json:
        context.terminal.print_json({"items": msgspec.to_builtins(found)})
    elif found:
        _print(context.terminal, found)
    else:
        context.terminal.say(
            "there are no credentials. `clicket credentials put PROVIDER` adds one.", style="bright_black"
        )


async def put(
    context: Context,
    provider: _Provider,
    caller: _Caller = "",
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="When it ends, if that is known: 90d, 12h.")
    ] = None,
) -> None:
    """Keep a token for a service, encrypted. It is asked for on the terminal, or read from stdin.

    Calls that wait for it go on.
    """
    secret = _read_secret(provider)
    ends = None if expires is None else time.time() + parse_duration(expires)
    async with _open(context) as runtime:
        kept = await runtime.credentials.put(provider, secret, caller=caller, expires_at=ends, by=user_name(None))
    if context.terminal.json:
        context.terminal.print_json(msgspec.to_builtins(kept))
    else:
        context.terminal.say(f"the credential for {clean(provider)} of {_shown(caller)} is kept.")


async def revoke(
    context: Context,
    provider: _Provider,
    caller: _Caller = "",
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who revokes it; default: your user name.")] = None,
) -> None:
    """Delete a credential's secret. Calls that run keep what they have; the next call waits."""
    async with context.watcher() as runtime:
        gone = await runtime.credentials.revoke(provider, caller=caller, by=user_name(by))
    if context.terminal.json:
        context.terminal.print_json(msgspec.to_builtins(gone))
    else:
        context.terminal.say(f"the credential for {clean(provider)} of {_shown(caller)} is deleted.")


async def link(context: Context, provider: _Provider, caller: _Caller = "") -> None:
    """Print a link to the server's page on which a person connects an account. It works once.

    Needs public_url and secret_key in the settings, and a running server.
    """
    async with _open(context) as runtime:
        made = await runtime.credentials.link(provider, caller=caller)
    if context.terminal.json:
        context.terminal.print_json(msgspec.to_builtins(made))
    else:
        context.terminal.say(f"works once, for {duration(made.expires_at - time.time())}:", style="bright_black")
        context.terminal.out.print(made.url, soft_wrap=True, highlight=False, markup=False)


def _read_secret(provider: str) -> str:
    if sys.stdin.isatty():
        given: str = typer.prompt(f"Token for {provider}", hide_input=True, err=True)
        return given
    return sys.stdin.read(128 * 1024)


def _shown(caller: str) -> str:
    return clean(caller) if caller else "the program itself"


def _print(terminal: Terminal, found: Sequence[Credential]) -> None:
    now = time.time()
    columns = [
        Column("PROVIDER", [Text(clean(each.provider), style="bold") for each in found], keep=True),
        Column("CALLER", [short(each.caller, 30) for each in found], rank=8),
        Column("STATUS", [Text(each.status, style=_COLOURS[each.status]) for each in found], keep=True),
        Column("KIND", [each.kind for each in found], rank=6),
        Column("ENDS", [_ends(each, now) for each in found], rank=7),
        Column("SCOPES", [short(" ".join(each.scopes), 40) for each in found], rank=3),
        Column("UPDATED", [ago(min(each.updated_at, now)) for each in found], rank=4, style="bright_black"),
        Column("REASON", [short(each.reason, 60) for each in found], rank=2),
    ]
    terminal.out.print(fitted(columns, terminal.out.width))


def _ends(credential: Credential, now: float) -> str:
    if credential.expires_at is None:
        return ""
    return "refreshed" if credential.refreshable else duration(max(credential.expires_at - now, 0.0))
