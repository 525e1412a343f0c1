"""`clicket search`: a question, live rounds, and an answer with numbered sources. It is a call like any other: kept, listed,
cancelled from elsewhere, and after a crash it goes on where it was."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from clicket.cli.call_progress import CallProgress
from clicket.cli.commands.call import interrupted
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import parse_duration
from clicket.cli.search_view import SearchView, print_answer
from clicket.cli.session import Session
from clicket.cli.terminal import Terminal
from clicket.cli.tool_loader import search_setup
from clicket.errors import UsageError
from clicket.model import ToolResult
from clicket.runtime import Runtime

if TYPE_CHECKING:
    from clicket.search.tool.options import Setup

__all__ = ["search"]

_KINDS = {".md": "to_markdown", ".markdown": "to_markdown", ".html": "to_page", ".htm": "to_page"}


async def search(
    session: Session,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="What you want to know, in whole words.")],
    index: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The index to search; `clicket index FOLDER` makes one.")
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="Search the web with it: brave, tavily, …; `index` adds the index. Repeatable."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="VENDOR:NAME", help="A language model that plans and writes: openai:…, anthropic:…."),
    ] = None,
    embeddings: Annotated[bool, typer.Option("--embeddings", help="Search by meaning, too (MiniLM, offline).")] = False,
    max_loop: Annotated[int | None, typer.Option(metavar="N", help="Rounds at most (3).")] = None,
    timeout: Annotated[str | None, typer.Option(metavar="TIME", help="For the whole search: 30, 2m.")] = None,
    report: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Save it with its sources: a name in .md or .html. Repeatable."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Search again, even if the answer is known.")] = False,
    thread: Annotated[str, typer.Option(help="The conversation that the search belongs to.")] = "default",
    stream: Annotated[bool, typer.Option("--stream", help="With --json: one line for each message.")] = False,
) -> None:
    """Answer a question from your documents, or from the web, with sources.

    Needs no key and no network unless you name an engine or a model. Every quoted sentence is checked against its document.
    """
    from clicket.search.deep import DeepSearch

    terminal = session.terminal
    terminal.lines = stream
    reports = [_checked(path) for path in report or ()]
    setup = search_setup(session.settings, **_given(index, engine, model, embeddings=embeddings))
    if reports or fresh:
        setup = msgspec.structs.replace(setup, cache=None, whole=bool(reports))
    _refuse_nothing(setup)
    asked = _asked(question, max_loop)
    seconds = None if timeout is None else parse_duration(timeout)
    async with Runtime([DeepSearch(setup)], settings=session.settings) as runtime:
        result = await _watched(runtime, terminal, setup.name, asked, thread=thread, timeout=seconds, stream=stream)
        saved = await _save(runtime, result, reports) if result.success else []
    _tell(terminal, result, saved, stream=stream)
    if not result.success:
        raise CallFailed


async def _watched(
    runtime: Runtime, terminal: Terminal, tool: str, asked: dict[str, Any], *, stream: bool, **how: Any
) -> ToolResult:
    handle = await runtime.submit(tool, asked, **how)
    view, line = SearchView(terminal), CallProgress(terminal, "search")
    try:
        with line:
            async for event in handle.events():
                if event.type != "output":
                    line.take(event)
                elif stream and terminal.json:
                    terminal.print_json_line(event.data["content"])
                elif not terminal.json:
                    view.take(event.data["content"])
            return await handle.result()
    except asyncio.CancelledError:
        await interrupted(runtime, terminal, handle, made_here=True)
        raise


def _given(index: Path | None, engine: list[str] | None, model: str | None, *, embeddings: bool) -> dict[str, Any]:
    """What the command line says, in place of what the settings say."""
    said: dict[str, Any] = {"index": index, "model": model, "embedder": "minilm" if embeddings else None}
    if engine:
        said["engines"] = engine
    return {name: value for name, value in said.items() if value is not None}


def _asked(words: list[str], max_loop: int | None) -> dict[str, Any]:
    from clicket.search.tool.options import MAX_LOOP

    question = " ".join(words).strip()
    if not question:
        raise UsageError("The question is empty. Say what is to be found.")
    if max_loop is None:
        return {"query": question}
    if not 1 <= max_loop <= MAX_LOOP:
        raise UsageError(f"--max-loop is a number of rounds from 1 to {MAX_LOOP}, not {max_loop}.")
    return {"query": question, "max_loop": max_loop}


def _refuse_nothing(setup: Setup) -> None:
    """Before there is a call: where nothing can be found, there is nothing to keep."""
    from clicket.search.tool.options import INDEX

    if setup.needs_index and not Path(setup.index).exists():
        where = "" if setup.index == INDEX else f" --index {setup.index}"
        raise UsageError(
            f"There is nothing to search in: there is no index {setup.index}. Make one with: clicket index FOLDER{where}. "
            "Or search the web: --engine brave, tavily, serper, …"
        )


def _checked(path: Path) -> Path:
    """Said before anything is searched."""
    if path.suffix.lower() not in _KINDS:
        raise UsageError(f"--report {path}: a report is Markdown or a page. Name a file in .md or .html.")
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--report {path}: {'that is a folder' if path.is_dir() else 'its folder is not there'}.")
    return path


async def _save(runtime: Runtime, result: ToolResult, reports: list[Path]) -> list[str]:
    if not reports:
        return []
    from clicket.search import report
    from clicket.search.dossier import SearchResult

    whole = await runtime.artifact(result.output["artifact"])
    found = SearchResult.from_json(msgspec.json.decode(whole))
    for path in reports:
        path.write_text(getattr(report, _KINDS[path.suffix.lower()])(found), encoding="utf-8", errors="replace")
    return [str(path) for path in reports]


def _tell(terminal: Terminal, result: ToolResult, saved: list[str], *, stream: bool) -> None:
    if terminal.json:
        whole = {**msgspec.to_builtins(result), "success": result.success, "saved": saved}
        (terminal.print_json_line if stream else terminal.print_json)(whole)
        return
    if result.success:
        print_answer(terminal, result, saved)
    elif result.error is not None:
        terminal.complain(result.error.code, result.error.message)
