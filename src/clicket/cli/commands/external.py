"""`clicket complete` and `clicket fail`: end a call that waits for a result from outside, with its token."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from clicket.cli.commands.approve import read_option
from clicket.cli.context import Context
from clicket.cli.terminal import clean
from clicket.errors import UsageError
from clicket.model.codec import decode

__all__ = ["complete", "fail"]

_MAX_TOKEN = 4_000
_STDIN = "-"
TokenArgument = Annotated[
    str,
    typer.Argument(metavar="TOKEN", help="The token; `-` reads it from stdin, so that no list of processes shows it."),
]


async def complete(
    context: Context,
    token: TokenArgument,
    output: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE", help="The output; default: what was streamed into the call.")
    ] = None,
) -> None:
    """Complete a call that waits for a result from outside, with its token.

    A token completes or fails its call once.
    """
    given = None if output is None else _json(read_option(output))
    async with context.watcher() as runtime:
        id = await runtime.complete(_read(token), given)
    _report(context, id, "completed")


async def fail(
    context: Context,
    token: TokenArgument,
    error: Annotated[str, typer.Option(metavar="TEXT", help="Why it failed, for the caller and the model.")],
    type: Annotated[str, typer.Option(metavar="NAME", help="The type of the error.")] = "ExternalError",
) -> None:
    """Fail a call that waits for a result from outside, with its token.

    It counts as a failure of the tool.
    """
    async with context.watcher() as runtime:
        id = await runtime.fail(_read(token), error, type=type)
    _report(context, id, "failed")


def _read(token: str) -> str:
    return sys.stdin.read(_MAX_TOKEN).strip() if token == _STDIN else token


def _json(text: str) -> object:
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f'--output must be JSON, such as {{"id": 7}} or "done" in quotes: {error}.') from None


def _report(context: Context, id: str, what: str) -> None:
    if context.terminal.json:
        context.terminal.print_json({"id": id, "result": what})
    else:
        context.terminal.say(f"{clean(id)}: {what} from outside; the result is on record.")
