"""`clicket tools`: lists the tools, with their arguments."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.json import JSON
from rich.table import Table
from rich.text import Text

from clicket.cli.completion import complete_tool
from clicket.cli.context import Context
from clicket.cli.formatting import duration, short
from clicket.errors import NotFound, did_you_mean
from clicket.runtime.runtime import Runtime, ToolInfo

__all__ = ["tools"]


async def tools(
    context: Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One tool, with its schema.", autocompletion=complete_tool),
    ] = None,
) -> None:
    """List the tools, or show one with its input schema."""
    terminal = context.terminal
    listed = await Runtime(context.tools, settings=context.settings).tools()
    if name is not None:
        one = next((each for each in listed if each.name == name), None)
        if one is None:
            names = [each.name for each in listed]
            raise NotFound(
                f"there is no tool {name!r}.{did_you_mean(name, names)} Found: {', '.join(names) or 'none'}."
            )
        if terminal.json:
            terminal.print_json(one)
        else:
            terminal.out.print(_page(one))
        return
    if terminal.json:
        terminal.print_json({"tools": listed})
        return
    terminal.out.print(_table(list(listed)))
    if not listed:
        terminal.say(
            'no tools were found. Name some with --tools module:name, or list them in clicket.toml: tools = ["module"].',
            style="bright_black",
        )


def _table(listed: list[ToolInfo]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bright_black", pad_edge=False, expand=True)
    table.add_column("TOOL", no_wrap=True, style="bold")
    table.add_column("ARGUMENTS")
    table.add_column("RUNS", no_wrap=True, style="bright_black")
    table.add_column("TIMEOUT", no_wrap=True, justify="right")
    table.add_column("", overflow="ellipsis", no_wrap=True, ratio=1)
    for each in listed:
        what = each.description.strip().split("\n", 1)[0]
        table.add_row(
            each.name,
            _arguments(each),
            _runs(each),
            duration(each.timeout),
            Text(short(what, 100), style="bright_black"),
        )
    return table


def _arguments(info: ToolInfo) -> Text:
    """`city [unit]`: required and optional arguments."""
    properties = info.input_schema.get("properties", {})
    required = info.input_schema.get("required", [])
    return Text(" ".join(name if name in required else f"[{name}]" for name in properties))


def _runs(info: ToolInfo) -> str:
    kind = info.isolation if info.isolation != "auto" else "loop" if info.is_async else "thread"
    marks = [word for word, on in (("read-only", info.read_only), ("idempotent", info.idempotent)) if on]
    return ", ".join([kind, *marks])


def _page(info: ToolInfo) -> Group:
    limit = duration(info.timeout) if info.timeout is not None else "no limit"
    facts = f"version {info.version} · {_runs(info)} · timeout {limit}"
    parts: list[RenderableType] = [Text(info.name, style="bold"), Text(facts, style="bright_black")]
    if info.description:
        parts += ["", Text(info.description)]
    return Group(
        *parts, "", Text("Input", style="bold"), JSON(msgspec.json.encode(info.input_schema).decode(), indent=2)
    )
