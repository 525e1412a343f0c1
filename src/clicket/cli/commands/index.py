"""`clicket index`: folders of files become searchable, and stay so: run again, it reads what changed and nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn
from rich.table import Table

from clicket.cli.errors import CallFailed
from clicket.cli.session import Session
from clicket.cli.terminal import Terminal, clean
from clicket.cli.words import ago, short, size
from clicket.errors import NotFound, UsageError
from clicket.private_files import make_folder

if TYPE_CHECKING:
    from clicket.search.index.file_tables import Folder
    from clicket.search.index.folder_sync import FolderProgress, FolderReport
    from clicket.search.index.index import Index

__all__ = ["index"]

_SAY_EVERY = 5.0
_MOST_REASONS, _MOST_PATHS = 12, 3


def index(
    session: Session,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER", help="Folders, or single files; left out: those that are in the index."),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the index is kept; .clicket/search.db if left out.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only such files: '*.md', 'docs/**'. Repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="No such files or folders, as in .gitignore. Repeatable."),
    ] = None,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Make it searchable by meaning, too (MiniLM, offline).")
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Show what is in the index, and change nothing.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the folders out of the index.")] = False,
) -> None:
    """Make folders of files searchable: text, Markdown, HTML, PDF, Office, notebooks, JSON Lines, source code.

    Run it again to bring the index up to date: only what changed is read, and what is gone is removed.

    Hidden files and folders, node_modules, __pycache__ and site-packages are left out; links are not followed.
    """
    path = index or Path(session.settings.search.get("index") or _default())
    if status and remove:
        raise UsageError("--status changes nothing; leave it out to use --remove.")
    if status or remove:
        if not path.exists():
            raise NotFound(f"there is no index {path}. Make one with: clicket index FOLDER.")
        with _opened(path) as opened:
            if status:
                _show(session.terminal, path, opened)
            else:
                _remove(session.terminal, path, opened, folders or [])
        return
    wanted = embeddings or session.settings.search.get("embedder") == "minilm"
    _update(session.terminal, path, folders or [], only, exclude, embeddings=wanted)


def _default() -> str:
    from clicket.search.tool.options import INDEX

    return INDEX


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
    embeddings: bool,
) -> None:
    if not folders and not path.exists():
        raise UsageError(f"there is no index {path} yet, so say what to put into it: clicket index FOLDER.")
    lost = [str(one) for one in folders if not one.expanduser().exists()]
    if lost:
        raise UsageError(f"there is no folder {lost[0]}.")
    try:
        make_folder(path.parent)
    except OSError as error:
        raise UsageError(
            f"{path.parent}: no folder can be made there ({error.strerror}). Choose with --index."
        ) from None
    with _Bar(terminal) as bar:
        options: dict[str, Any] = {}
        if embeddings:
            from clicket.search.embedding.minilm import MiniLM

            options = {"embedder": MiniLM(), "on_progress": bar.vectors}
        with _opened(path, **options) as opened:
            known = {one.path: one for one in opened.folders()}
            chosen = [str(one.expanduser().resolve()) for one in folders] or list(known)
            if not chosen:
                raise UsageError(f"the index {path} has no folders yet, so say which: clicket index FOLDER.")
            reports = {}
            for one in chosen:
                how = _how(known.get(one), only, exclude)
                reports[one] = opened.add_folder(one, on_progress=bar.show, **how)
            found = opened.contents()
    if terminal.json:
        told = [{"path": one, **_plain(report)} for one, report in reports.items()]
        terminal.print_json({"index": str(path), "folders": told, **msgspec.to_builtins(found)})
    else:
        for one, report in reports.items():
            _tell(terminal, one, report)
        terminal.write(f"{path}: {_amount(found)}\n")
        if found.documents:
            where = "" if str(path) == _default() else f" --index {path}"
            terminal.say(f'Next: clicket search{where} "your question"', style="bright_black")
    if not found.documents:
        if not terminal.json:
            terminal.say("There is nothing to search in: no file that can be read was found.", style="yellow")
        raise CallFailed


def _how(known: Folder | None, only: list[str] | None, exclude: list[str] | None) -> dict[str, Any]:
    """What was said, or else what was said before."""
    before: dict[str, Any] = known.options if known is not None else {}
    return {
        "patterns": only or before.get("patterns"),
        "exclude": exclude or before.get("exclude") or (),
    }


def _remove(terminal: Terminal, path: Path, opened: Index, folders: Sequence[Path]) -> None:
    if not folders:
        there = "".join(f"\n  {one.path}" for one in opened.folders())
        raise UsageError(f"say which folder to take out of the index.{there and ' There are:'}{there}")
    removed = {str(one): opened.remove_folder(one) for one in folders}
    if terminal.json:
        told = [{"path": one, "documents": count} for one, count in removed.items()]
        terminal.print_json({"index": str(path), "removed": told, **msgspec.to_builtins(opened.contents())})
        return
    for one, count in removed.items():
        terminal.write_text(f"{clean(one)}: {count:,} documents taken out\n")
    terminal.write(f"{path}: {_amount(opened.contents())}\n")


def _show(terminal: Terminal, path: Path, opened: Index) -> None:
    found, folders = opened.contents(), opened.folders()
    if terminal.json:
        told = {"index": str(path), **msgspec.to_builtins(found), "folders": msgspec.to_builtins(folders)}
        terminal.print_json(told)
        return
    terminal.write(f"{path}: {_amount(found)}\n")
    if not folders:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bright_black")
    for name in ("folder", "files", "skipped", "documents", "indexed"):
        table.add_column(name, justify="right" if name in ("files", "skipped", "documents") else "left")
    for one in folders:
        when = ago(one.indexed_at) if one.indexed_at else "not finished"
        table.add_row(clean(one.path), f"{one.files:,}", f"{one.skipped:,}", f"{one.documents:,}", when)
    terminal.out.print(table)


def _amount(found: Any) -> str:
    vectors = f", {found.vectors:,} vectors ({found.space})" if found.vectors else ""
    return f"{found.documents:,} documents, {found.passages:,} passages{vectors}, {size(found.size)}"


def _plain(report: FolderReport) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(report)
    for name in ("skipped", "notes"):
        told[name] = [{"path": path, "reason": reason} for path, reason in told[name]]
    return told


def _tell(terminal: Terminal, folder: str, report: FolderReport) -> None:
    counts = [f"{getattr(report, name):,} {name}" for name in ("added", "changed", "unchanged", "removed")]
    terminal.write_text(f"{clean(folder)}: {', '.join(counts)}, {len(report.skipped):,} skipped\n")
    for path, note in report.notes[:_MOST_REASONS]:
        terminal.say(f"  {clean(path)}: {clean(note)}", style="yellow")
    by_reason: dict[str, list[str]] = {}
    for path, reason in report.skipped:
        by_reason.setdefault(reason, []).append(path)
    ordered = sorted(by_reason.items(), key=lambda one: (-len(one[1]), one[0]))
    for reason, paths in ordered[:_MOST_REASONS]:
        named = ", ".join(short(one, 60) for one in paths[:_MOST_PATHS]) + (", …" if len(paths) > _MOST_PATHS else "")
        count = "" if len(paths) == 1 else f"{len(paths):,} × "
        terminal.say(f"  skipped {count}{clean(reason)}: {named}", style="bright_black")
    if len(ordered) > _MOST_REASONS:
        terminal.say(f"  and {len(ordered) - _MOST_REASONS} more reasons; --json lists all.", style="bright_black")


class _Bar:
    """How far it is, where somebody sees it; elsewhere a line now and then."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._said_at = time.monotonic()
        self._bar = Progress(
            SpinnerColumn(), BarColumn(bar_width=28), TaskProgressColumn(), TextColumn("{task.description}"),
            console=terminal.err, transient=True, disable=not terminal.interactive,
        )  # fmt: skip
        self._task = self._bar.add_task("looking", total=None)

    def show(self, progress: FolderProgress) -> None:
        if progress.stage == "vectors":
            self.vectors(progress.done, progress.total)
        else:
            self._draw(progress.done, progress.total, progress.path, f"{size(progress.done)} of {size(progress.total)}")

    def vectors(self, done: int, total: int) -> None:
        self._draw(done, total, "making vectors", f"{done:,} of {total:,} vectors")

    def _draw(self, done: int, total: int, text: str, told: str) -> None:
        self._bar.update(self._task, description=escape(short(text, 50)), completed=done, total=max(total, 1))
        quiet = self._terminal.json or self._terminal.interactive
        if not quiet and time.monotonic() - self._said_at >= _SAY_EVERY:
            self._said_at = time.monotonic()
            self._terminal.say(f"{told}  {short(text, 80)}")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
