"""`clicket search`: answers a question with numbered sources, and shows the rounds of the search. The search is a call: it is
stored, can be cancelled from elsewhere, and is resumed after a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from clicket.cli.call_progress import CallProgress
from clicket.cli.commands.call import interrupted
from clicket.cli.context import Context
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import parse_duration
from clicket.cli.search_view import SearchView, print_answer
from clicket.cli.terminal import Terminal
from clicket.cli.tool_loader import search_setup
from clicket.errors import UsageError
from clicket.model import ToolResult
from clicket.runtime.runtime import Runtime

if TYPE_CHECKING:
    from clicket.search.tool.options import Setup

__all__ = ["search"]

_KINDS = {".md": "to_markdown", ".markdown": "to_markdown", ".html": "to_html", ".htm": "to_html"}


async def search(
    context: Context,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="The question.")],
    index: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The index to search; `clicket index FOLDER` makes one.")
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="A web search engine: brave, tavily, …; `index` adds the index. Repeatable."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VENDOR:NAME",
            help="A language model that plans the search and writes the answer: openai:…, anthropic:…. Repeatable: the next one is asked "
            "if one fails.",
        ),
    ] = None,
    brief: Annotated[
        bool, typer.Option("--brief", help="The model only writes the answer, in one sentence: for small, slow models.")
    ] = False,
    embedder: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also search by meaning: fastembed:MODEL, openai:MODEL, onnx:FOLDER."),
    ] = None,
    max_loop: Annotated[int | None, typer.Option(metavar="N", help="Maximum number of rounds (3).")] = None,
    timeout: Annotated[str | None, typer.Option(metavar="TIME", help="Time limit of the search: 30, 2m.")] = None,
    report: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Save a report with sources, as .md or .html. Repeatable."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Search again, even if the answer is cached.")] = False,
    thread: Annotated[str, typer.Option(help="The conversation that the search belongs to.")] = "default",
    stream: Annotated[bool, typer.Option("--stream", help="With --json: one line for each message.")] = False,
) -> None:
    """Answer a question from your documents, or from the web, with sources.

    Needs no key and no network unless you name an engine or a model. Every quoted sentence is checked against its document.
    """
    from clicket.search.tool.tool import DeepSearch

    terminal = context.terminal
    terminal.lines = stream
    reports = [_checked(path) for path in report or ()]
    setup = search_setup(context.settings, **_given(index, engine, model, brief=brief, embedder=embedder))
    if reports or fresh:
        setup = msgspec.structs.replace(setup, cache=None, whole=bool(reports))
    _check_index(setup)
    arguments = _arguments(question, max_loop)
    seconds = None if timeout is None else parse_duration(timeout)
    async with Runtime([DeepSearch(setup)], settings=context.settings) as runtime:
        result = await _run(runtime, terminal, setup.name, arguments, thread=thread, timeout=seconds, stream=stream)
        saved = await _save(runtime, result, reports) if result.success else []
    _print_outcome(terminal, result, saved, stream=stream)
    if not result.success:
        raise CallFailed


async def _run(
    runtime: Runtime, terminal: Terminal, tool: str, arguments: dict[str, Any], *, stream: bool, **how: Any
) -> ToolResult:
    handle = await runtime.submit(tool, arguments, **how)
    view = SearchView(terminal)
    progress = CallProgress(terminal, "search")
    try:
        with progress:
            async for event in handle.events():
                if event.type != "output":
                    progress.take(event)
                elif stream and terminal.json:
                    terminal.print_json_line(event.data["content"])
                elif not terminal.json:
                    view.take(event.data["content"])
            return await handle.result()
    except asyncio.CancelledError:
        await interrupted(runtime, terminal, handle, made_here=True)
        raise


def _given(
    index: Path | None, engine: list[str] | None, model: list[str] | None, *, brief: bool, embedder: str | None
) -> dict[str, Any]:
    """The options of the command line, which replace those of the settings."""
    given: dict[str, Any] = {"index": index, "model": model or None, "embedder": embedder}
    given["brief"] = brief or None
    if engine:
        given["engines"] = engine
    return {name: value for name, value in given.items() if value is not None}


def _arguments(words: list[str], max_loop: int | None) -> dict[str, Any]:
    from clicket.search.tool.options import MAX_LOOP

    question = " ".join(words).strip()
    if not question:
        raise UsageError("The question is empty.")
    if max_loop is None:
        return {"query": question}
    if not 1 <= max_loop <= MAX_LOOP:
        raise UsageError(f"--max-loop is a number of rounds from 1 to {MAX_LOOP}, not {max_loop}.")
    return {"query": question, "max_loop": max_loop}


def _check_index(setup: Setup) -> None:
    """Refuse before a call is made."""
    from clicket.model.tool_tables import INDEX

    if setup.needs_index and not Path(setup.index).exists():
        where = "" if setup.index == INDEX else f" --index {setup.index}"
        raise UsageError(
            f"There is nothing to search: there is no index {setup.index}. Make one with: clicket index FOLDER{where}. "
            "Or search the web: --engine brave, tavily, serper, …"
        )


def _checked(path: Path) -> Path:
    """Refuse before the search, so that its answer is not lost."""
    if path.suffix.lower() not in _KINDS:
        raise UsageError(f"--report {path}: a report is Markdown or HTML. Name a .md or .html file.")
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--report {path}: {'that is a folder' if path.is_dir() else 'its folder does not exist'}.")
    return path


async def _save(runtime: Runtime, result: ToolResult, reports: list[Path]) -> list[str]:
    if not reports:
        return []
    from clicket.search import report
    from clicket.search.findings import SearchResult

    whole = await runtime.artifact(result.output["artifact"])
    found = SearchResult.from_json(msgspec.json.decode(whole))
    for path in reports:
        path.write_text(getattr(report, _KINDS[path.suffix.lower()])(found), encoding="utf-8", errors="replace")
    return [str(path) for path in reports]


def _print_outcome(terminal: Terminal, result: ToolResult, saved: list[str], *, stream: bool) -> None:
    if terminal.json:
        whole = {**msgspec.to_builtins(result), "success": result.success, "saved": saved}
        (terminal.print_json_line if stream else terminal.print_json)(whole)
        return
    if result.success:
        print_answer(terminal, result, saved)
    elif result.error is not None:
        terminal.complain(result.error.code, result.error.message)
