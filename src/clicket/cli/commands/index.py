"""`clicket index`: makes folders of files searchable. Run again, it reads only the files that changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.table import Table

from clicket.cli.context import Context
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import ago, short, size
from clicket.cli.progress_bar import ProgressBar
from clicket.cli.terminal import Terminal, clean
from clicket.errors import NotFound, UsageError
from clicket.model.tool_tables import INDEX, SearchTable
from clicket.system.private_files import make_folder

if TYPE_CHECKING:
    from clicket.search.index.file_tables import Folder
    from clicket.search.index.folder_sync import FolderProgress, FolderReport
    from clicket.search.index.index import Index

__all__ = ["index"]

_LINE_EVERY = 5.0
_MAX_REASONS, _MAX_PATHS = 12, 3


def index(
    context: Context,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER", help="Folders or files; default: those that are in the index."),
    ] = None,
    index: Annotated[Path | None, typer.Option(metavar="FILE", help="The index; default: .clicket/search.db.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only files that match: '*.md', 'docs/**'. Repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="No files or folders that match, as in .gitignore. Repeatable."),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also search by meaning: fastembed:MODEL, openai:MODEL, onnx:FOLDER."),
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Show what the index contains, and change nothing.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the folders from the index.")] = False,
) -> None:
    """Make folders of files searchable: text, Markdown, HTML, PDF, Office, notebooks, JSON Lines, source code.

    Run it again to update the index: changed files are read again, and deleted ones are removed.

    Hidden files and folders, node_modules, __pycache__ and site-packages are left out; links are not followed.
    """
    declared = context.settings.search or SearchTable()
    path = index or Path(declared.index)
    if status and remove:
        raise UsageError("--status changes nothing; leave it out to use --remove.")
    if status or remove:
        if not path.exists():
            raise NotFound(f"there is no index {path}. Make one with: clicket index FOLDER.")
        with _opened(path) as opened:
            if status:
                _show(context.terminal, path, opened)
            else:
                _remove(context.terminal, path, opened, folders or [])
        return
    wanted = embedder or declared.embedder
    _update(context.terminal, path, folders or [], only, exclude, embedder=wanted)


def _opened(path: Path, **options: Any) -> Index:
    from clicket.search.index.index import Index

    return Index.open(path, **options)


def _update(
    terminal: Terminal,
    path: Path,
    folders: Sequence[Path],
    only: list[str] | None,
    exclude: list[str] | None,
    *,
    embedder: Any,
) -> None:
    if not folders and not path.exists():
        raise UsageError(f"there is no index {path} yet, so name a folder: clicket index FOLDER.")
    lost = [str(one) for one in folders if not one.expanduser().exists()]
    if lost:
        raise UsageError(f"there is no folder {lost[0]}.")
    try:
        make_folder(path.parent)
    except OSError as error:
        raise UsageError(
            f"{path.parent}: no folder can be made there ({error.strerror}). Choose with --index."
        ) from None
    with ProgressBar(terminal, "reading the folders", line_every=_LINE_EVERY) as bar:
        options: dict[str, Any] = {}
        if embedder:
            from clicket.models.embedding.kinds import embedder_of

            options = {"embedder": embedder_of(embedder), "on_progress": partial(_show_vectors, bar)}
        with _opened(path, **options) as opened:
            known = {one.path: one for one in opened.folders()}
            chosen = [str(one.expanduser().resolve()) for one in folders] or list(known)
            if not chosen:
                raise UsageError(f"the index {path} has no folders yet, so name one: clicket index FOLDER.")
            reports = {}
            for one in chosen:
                patterns = _patterns(known.get(one), only, exclude)
                reports[one] = opened.add_folder(one, on_progress=partial(_show_progress, bar), **patterns)
            found = opened.contents()
    if terminal.json:
        shown = [{"path": one, **_plain(report)} for one, report in reports.items()]
        terminal.print_json({"index": str(path), "folders": shown, **msgspec.to_builtins(found)})
    else:
        for one, report in reports.items():
            _print_report(terminal, one, report)
        terminal.write(f"{path}: {_summary(found)}\n")
        if found.documents:
            where = "" if str(path) == INDEX else f" --index {path}"
            terminal.say(f'Next: clicket search{where} "your question"', style="bright_black")
    if not found.documents:
        if not terminal.json:
            terminal.say("There is nothing to search: no readable file was found.", style="yellow")
        raise CallFailed


def _show_progress(bar: ProgressBar, progress: FolderProgress) -> None:
    done, total = progress.done, progress.total
    if progress.stage == "vectors":
        _show_vectors(bar, done, total)
    else:
        line = f"{size(done)} of {size(total)}  {short(progress.path, 80)}"
        text = f"{done / max(total, 1):>4.0%}  {short(progress.path, 50)}"
        bar.show(text, done=done, total=max(total, 1), line=line)


def _show_vectors(bar: ProgressBar, done: int, total: int) -> None:
    text = f"{done:,} of {total:,} vectors"
    bar.show(text, done=done, total=max(total, 1))


def _patterns(known: Folder | None, only: list[str] | None, exclude: list[str] | None) -> dict[str, Any]:
    """The patterns of this command line, else those that the folder was indexed with."""
    before: dict[str, Any] = known.options if known is not None else {}
    return {
        "patterns": only or before.get("patterns"),
        "exclude": exclude or before.get("exclude") or (),
    }


def _remove(terminal: Terminal, path: Path, opened: Index, folders: Sequence[Path]) -> None:
    if not folders:
        there = "".join(f"\n  {one.path}" for one in opened.folders())
        raise UsageError(f"name the folder to remove from the index.{there and ' There are:'}{there}")
    removed = {str(one): opened.remove_folder(one) for one in folders}
    if terminal.json:
        shown = [{"path": one, "documents": count} for one, count in removed.items()]
        terminal.print_json({"index": str(path), "removed": shown, **msgspec.to_builtins(opened.contents())})
        return
    for one, count in removed.items():
        terminal.write_text(f"{clean(one)}: {count:,} documents removed\n")
    terminal.write(f"{path}: {_summary(opened.contents())}\n")


def _show(terminal: Terminal, path: Path, opened: Index) -> None:
    found, folders = opened.contents(), opened.folders()
    if terminal.json:
        shown = {"index": str(path), **msgspec.to_builtins(found), "folders": msgspec.to_builtins(folders)}
        terminal.print_json(shown)
        return
    terminal.write(f"{path}: {_summary(found)}\n")
    if not folders:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bright_black")
    for name in ("folder", "files", "skipped", "documents", "indexed"):
        table.add_column(name, justify="right" if name in ("files", "skipped", "documents") else "left")
    for one in folders:
        when = ago(one.indexed_at) if one.indexed_at else "not finished"
        table.add_row(clean(one.path), f"{one.files:,}", f"{one.skipped:,}", f"{one.documents:,}", when)
    terminal.out.print(table)


def _summary(found: Any) -> str:
    vectors = f", {found.vectors:,} vectors ({found.space})" if found.vectors else ""
    return f"{found.documents:,} documents, {found.passages:,} passages{vectors}, {size(found.size)}"


def _plain(report: FolderReport) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(report)
    for name in ("skipped", "notes"):
        shown[name] = [{"path": path, "reason": reason} for path, reason in shown[name]]
    return shown


def _print_report(terminal: Terminal, folder: str, report: FolderReport) -> None:
    counts = [f"{getattr(report, name):,} {name}" for name in ("added", "changed", "unchanged", "removed")]
    terminal.write_text(f"{clean(folder)}: {', '.join(counts)}, {len(report.skipped):,} skipped\n")
    for path, note in report.notes[:_MAX_REASONS]:
        terminal.say(f"  {clean(path)}: {clean(note)}", style="yellow")
    by_reason: dict[str, list[str]] = {}
    for path, reason in report.skipped:
        by_reason.setdefault(reason, []).append(path)
    ordered = sorted(by_reason.items(), key=lambda one: (-len(one[1]), one[0]))
    for reason, paths in ordered[:_MAX_REASONS]:
        named = ", ".join(short(one, 60) for one in paths[:_MAX_PATHS]) + (", …" if len(paths) > _MAX_PATHS else "")
        count = "" if len(paths) == 1 else f"{len(paths):,} × "
        terminal.say(f"  skipped {count}{clean(reason)}: {named}", style="bright_black")
    if len(ordered) > _MAX_REASONS:
        terminal.say(f"  and {len(ordered) - _MAX_REASONS} more reasons; --json lists all.", style="bright_black")
