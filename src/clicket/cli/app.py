"""The commands and their shared options. `--json`, `--store`, `--tools` and `--debug` work before and after a command.

A command is imported when it is used, so `clicket --help` imports none of them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from clicket.cli.commands import ALONE, COMMANDS, GROUPS, Entry
from clicket.cli.exit_codes import DONE, INTERRUPTED

if TYPE_CHECKING:
    from clicket.cli.terminal import Terminal

__all__ = ["app", "run"]

_PANEL = "Shared options"
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL|FILE",
        help="The store of the calls: a SQLite file, sqlite:///path, redis://…, postgresql://… or memory://.",
        rich_help_panel=_PANEL,
    ),
]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        metavar="MODULE[:NAME]",
        help="Tools to load: a tool, a list of tools, or all tools of a module or of a file, /path/file.py. Repeatable.",
        rich_help_panel=_PANEL,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.", rich_help_panel=_PANEL)]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show tracebacks.", rich_help_panel=_PANEL)]
VersionOption = Annotated[bool, typer.Option("--version", "-V", help="Print the version and exit.")]
_SHARED: dict[str, Any] = {"store": StoreOption, "tools": ToolsOption, "json": JsonOption, "debug": DebugOption}


class _Switches:
    """Shows no type for flags in the help: they take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # the method of typer's class
        for each in params:
            if getattr(each, "is_flag", False) and each.metavar is None:
                each.metavar = ""
        return params


class _Command(_Switches, TyperCommand):
    pass


class _Group(_Switches, TyperGroup):
    pass


_DEFAULTS: dict[str, Any] = {"store": None, "tools": None, "json": False, "debug": False}


class _LazyCommands(_Group):
    """Lists commands from the table, and imports only the command that is run."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        about = {
            **{name: entry.about for name, entry in COMMANDS.items()},
            **{name: GROUPS[name][0] for name in GROUPS},
        }
        self.commands.update({name: TyperCommand(name, help=text) for name, text in about.items()})
        self._loaded: set[str] = set()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Replace the placeholder by the command. An unknown name is ignored: typer reports it."""
        if name in self._loaded or name not in self.commands:
            return
        made = _group(*GROUPS[name], alone=name in ALONE) if name in GROUPS else _alone(name, COMMANDS[name])
        self.commands[name] = get_command(made)
        self.commands[name].name = name
        self._loaded.add(name)

    def load_all(self) -> None:
        """For the generated reference."""
        for name in list(self.commands):
            self.load(name)


app = typer.Typer(
    name="clicket",
    cls=_LazyCommands,
    help="Runs AI agents' tool calls as durable, observable state machines.",
    epilog="Start with `clicket demo`. Settings come from options, CLICKET_* and clicket.toml; `clicket config` shows them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _shared_options(
    ctx: typer.Context,
    store: StoreOption = None,
    tools: ToolsOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
    version: VersionOption = False,
) -> None:
    ctx.obj = {"store": store, "tools": tools, "json": json, "debug": debug}
    if version:
        from clicket import __version__

        print(f"clicket {__version__}")
        raise typer.Exit(DONE)


def _command(function: Callable[..., Any]) -> Callable[..., None]:
    """The function for typer: it has the command's own options and the shared ones, from which it makes a `Context`."""

    def invoke(ctx: typer.Context, **given: Any) -> None:
        from clicket.cli.context import Context
        from clicket.cli.terminal import Terminal

        above: dict[str, Any] = ctx.obj or _DEFAULTS
        shared = {name: given.pop(name) or above[name] for name in _SHARED}
        terminal = Terminal(json=shared["json"], debug=shared["debug"])
        context = Context(terminal, store=shared["store"], tools=shared["tools"])
        raise typer.Exit(_run_command(partial(function, context, **given), terminal))

    hints = get_type_hints(function, include_extras=True)
    own = [
        parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "context"
    ]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=annotation)
        for name, annotation in _SHARED.items()
    ]
    first = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [first, *own, *shared]
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    invoke.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    invoke.__doc__ = function.__doc__
    return invoke


def _run_command(work: Callable[[], Any], terminal: Terminal) -> int:
    """Run a command and return its exit code."""
    import asyncio

    from clicket.cli.errors import report, silence_stdout

    try:
        if inspect.iscoroutinefunction(getattr(work, "func", work)):
            asyncio.run(_interruptible(work()))
        else:
            work()
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        return DONE
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        return report(error, terminal)
    return DONE


async def _interruptible(work: Coroutine[Any, Any, None]) -> None:
    """Treats TERM like Ctrl-C, so that the command's calls are cancelled instead of orphaned."""
    import asyncio
    import signal

    task = asyncio.current_task()
    assert task is not None
    terminated = False

    def stop() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    try:
        await work
    except asyncio.CancelledError:
        if terminated:
            raise KeyboardInterrupt from None
        raise


def _alone(name: str, entry: Entry) -> typer.Typer:
    made = typer.Typer(add_completion=False, rich_markup_mode="rich")
    made.command(name, cls=_Command)(_command(entry.load()))
    return made


def _group(about: str, commands: dict[str, Entry], *, alone: bool) -> typer.Typer:
    """A command with subcommands. The shared options may also stand between them. `alone`: without a subcommand it means `list`."""
    group = typer.Typer(
        cls=_Group, help=about, no_args_is_help=not alone, add_completion=False, rich_markup_mode="rich"
    )

    @group.callback(invoke_without_command=alone)
    def between(
        ctx: typer.Context,
        store: StoreOption = None,
        tools: ToolsOption = None,
        json: JsonOption = False,
        debug: DebugOption = False,
    ) -> None:
        given = {"store": store, "tools": tools, "json": json, "debug": debug}
        above: dict[str, Any] = ctx.obj or _DEFAULTS
        ctx.obj = {name: given[name] or above[name] for name in _SHARED}
        if alone and ctx.invoked_subcommand is None:
            _command(commands["list"].load())(ctx, **given)

    for name, entry in commands.items():
        group.command(name, cls=_Command)(_command(entry.load()))
    return group


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        app(args=list(arguments), prog_name="clicket")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else DONE if end.code is None else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE
