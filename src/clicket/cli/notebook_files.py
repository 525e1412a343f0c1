"""Saves what a run made: the program's files and figures in a folder, the run itself as a notebook or an HTML page.

The program controls names and contents. So nothing is written outside of the folder, nothing is replaced without --overwrite,
and no file gets a name that would be imported or read as settings.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from clicket.cli.saved_names import name_objection
from clicket.cli.terminal import Terminal, clean
from clicket.interpreter.export.cells import Cell, Shown, cells
from clicket.interpreter.export.notebook import notebook_json
from clicket.interpreter.export.page import to_html
from clicket.interpreter.result import Result
from clicket.interpreter.run.result_builder import bytes_of

if TYPE_CHECKING:
    from clicket.interpreter import Interpreter

__all__ = ["Figures", "save_files", "save_runs"]

_SUFFIXES = {
    "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
}  # fmt: skip


class Figures:
    """The figures of a run, by the names under which they are saved."""

    def __init__(self) -> None:
        self.named: dict[str, tuple[str, str]] = {}
        self._count = 0

    def take(self, formats: dict[str, str]) -> list[str]:
        """Name the image formats of one display; the first name is the preferred one."""
        found = [mime for mime in _SUFFIXES if mime in formats]
        if found:
            self._count += 1
        names = [f"figure-{self._count}{_SUFFIXES[mime]}" for mime in found]
        self.named.update(zip(names, [(mime, formats[mime]) for mime in found], strict=True))
        return names


def save_runs(runs: list[Result], notebook: Path | None, html: Path | None, *, task_name: str | None) -> list[str]:
    saved: list[str] = []
    if notebook is not None:
        notebook.write_bytes(notebook_json(runs))
        saved.append(str(notebook))
    if html is not None:
        title = Path(task_name).stem if task_name not in (None, "-") else "Notebook"
        html.write_text(to_html(runs, title=title), encoding="utf-8")
        saved.append(str(html))
    return saved


async def save_files(
    interpreter: Interpreter,
    result: Result,
    out: Path,
    terminal: Terminal,
    *,
    overwrite: bool,
) -> list[str]:
    """Save files and figures in the folder `out`. Returns their paths."""
    contents: dict[str, bytes] = {name: bytes_of(*figure) for name, figure in _figures(result).items()}
    for file in result.files:
        if file.artifact is not None:
            contents[file.name] = await interpreter.artifact(file.artifact)
    saved: list[str] = []
    for name, data in contents.items():
        path = out / name
        try:
            if why := _objection(path, name, out, overwrite=overwrite):
                raise FileExistsError(why)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            terminal.say(f"not saved: {clean(str(path))} {error.strerror or error}", style="yellow")
        else:
            saved.append(str(path))
    return saved


def _objection(path: Path, name: str, out: Path, *, overwrite: bool) -> str:
    """Why a file of this name is not written; empty if it may be. Links in the folder might lead out of it."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or not path.resolve().is_relative_to(out.resolve()):
        return f"leads out of {out}"
    if path.is_symlink():
        return "is a link"
    if why := name_objection(name, out):
        return why
    return "exists already; --overwrite replaces it" if path.exists() and not overwrite else ""


def _figures(result: Result) -> dict[str, tuple[str, str]]:
    figures = Figures()
    for cell in cells(result):
        for output in cell.outputs if isinstance(cell, Cell) else ():
            if isinstance(output, Shown):
                figures.take(output.forms)
    return figures.named
