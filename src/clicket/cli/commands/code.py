"""`clicket code`: a Markdown file as a live notebook in the terminal. The program runs in the sandbox, never in this process.

Ctrl-C interrupts the block that runs and ends the run after it; a second one kills the program.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clicket.cli.errors import INTERRUPTED, CallFailed
from clicket.cli.formatting import parse_duration, parse_size
from clicket.cli.session import Session
from clicket.cli.terminal import Terminal
from clicket.errors import UsageError

if TYPE_CHECKING:
    from clicket.interpreter import Interpreter
    from clicket.interpreter.result import Result

__all__ = ["code"]

_FENCE = re.compile(r"^[^\S\n]*+(`{3,}+)", re.MULTILINE)
_MISSED = re.compile(r"\[Errno 2\] .*: '(\w[\w. -]{0,80}+)'$")
"""A plain name: the program says it, so it must be fit to be shown and to be looked for."""


async def code(
    session: Session,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE | -]", help="A Markdown or Python file, or - for stdin.")
    ] = None,
    text: Annotated[str | None, typer.Option("--code", "-c", metavar="TEXT", help="Python, instead of a file.")] = None,
    require: Annotated[
        str, typer.Option(metavar="LEVEL", help="Refuse to run below this isolation: full, partial, process, none.")
    ] = "full",
    timeout: Annotated[str, typer.Option(metavar="TIME", help="For each block: 30, 500ms, 2m.")] = "30",
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="Between asking a block to stop and killing the program.")
    ] = "1s",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="For the whole program: 512MiB, 2GiB.")] = "1GiB",
    max_steps: Annotated[int, typer.Option(help="Most blocks in one run.")] = 10,
    given: Annotated[
        list[str] | None, typer.Option("--file", metavar="PATH", help="A file for the program, under its own name.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Save the files and figures that the program made here.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Let --out replace files that are there.")] = False,
    notebook: Annotated[Path | None, typer.Option(metavar="FILE.ipynb", help="Save the run as a notebook.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Save the run as a page.")] = None,
    python: Annotated[str | None, typer.Option(metavar="PATH", help="The Python to run it with.")] = None,
    package: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these packages may be imported.")
    ] = None,
    install: Annotated[
        list[str] | None, typer.Option(metavar="PACKAGE", help="Install this from the wheels first.")
    ] = None,
    wheels: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Wheel files for --install; no network.")
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="With --json: one line for each message.")] = False,
) -> None:
    """Run a Markdown file as a live notebook, in the sandbox.

    Ctrl-C interrupts the block that runs, a second one kills the program. Exits with 0 when all went well, with 1 when
    the program failed, with 2 when it could not be tried.
    """
    from clicket.cli.notebook_files import save_files, save_runs
    from clicket.cli.notebook_view import NotebookView
    from clicket.interpreter import Interpreter

    terminal = session.terminal
    terminal.lines = stream
    task = _read(file, text)
    files = {path.name: path for path in map(_readable, given or ())}
    for path in (notebook, html):
        _check_place(path)
    options: dict[str, Any] = {"packages": package or None, "install": install or (), "wheels": wheels}
    interpreter = Interpreter(
        require=require,
        timeout=parse_duration(timeout),
        grace=parse_duration(grace),
        memory=parse_size(memory),
        max_steps=max_steps,
        python=python,
        **options,
    )
    view = NotebookView(terminal, task)
    async with interpreter:
        async with (
            _interrupts(interpreter, terminal) as asked,
            aclosing(interpreter.stream(task, files=files)) as messages,
        ):
            async for message in messages:
                if not terminal.json:
                    view.take(message)
                elif stream:
                    terminal.print_json_line(message)
        result = interpreter.history[-1]
        if not terminal.json:
            view.end(result)
        saved = save_runs(interpreter.history, notebook, html, task_name=file)
        if out is not None:
            saved += await save_files(interpreter, result, out, terminal, overwrite=overwrite)
    _tell(terminal, result, saved, stream=stream)
    if asked:
        raise CallFailed(INTERRUPTED)
    if not result.ok:
        raise CallFailed


def _tell(terminal: Terminal, result: Result, saved: list[str], *, stream: bool) -> None:
    from clicket.cli.notebook_view import closing

    if terminal.json:
        if not stream:
            terminal.print_json({**result.to_json(), "success": result.ok, "saved": saved})
        return
    error = result.error
    if error is not None and (error.fatal or result.status == "interrupted"):  # others were shown where they happened
        terminal.complain(error.type if result.status == "error" else result.status, error.message)
    for name in _left_outside(result):
        terminal.say(f"{name} is here, and not in the sandbox: --file {name} takes it in", style="yellow")
    terminal.say(closing(terminal, result, saved))


def _left_outside(result: Result) -> list[str]:
    """Files that the program did not find and that are in the user's own folder."""
    missed = [_MISSED.match(error.message) for error in result.errors if error.type == "FileNotFoundError"]
    names = {match[1] for match in missed if match is not None and Path(match[1]).is_file()}
    return sorted(names)


@asynccontextmanager
async def _interrupts(interpreter: Interpreter, terminal: Terminal) -> AsyncIterator[list[int]]:
    """Ctrl-C is for the program: the first asks it to stop, the second does not ask. The third one is for us."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None
    asked: list[int] = []
    stopping: list[asyncio.Task[None]] = []

    def stop() -> None:
        asked.append(signal.SIGINT)
        if len(asked) == 1:
            if not terminal.json:
                terminal.say("interrupting; Ctrl-C again kills the program", style="yellow")
            stopping.append(loop.create_task(interpreter.interrupt()))
        elif len(asked) == 2:
            interpreter.kill()
        else:
            main.cancel()

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield asked
    finally:
        await asyncio.gather(*stopping)
        loop.remove_signal_handler(signal.SIGINT)


def _read(file: str | None, text: str | None) -> str:
    """The task. Python is put into a fence, so that backquotes in its strings mean nothing."""
    if (file is None) == (text is None):
        raise UsageError("say what to run: a Markdown or Python file, - for stdin, or --code TEXT.")
    if text is not None:
        return _fenced(text)
    assert file is not None
    if file == "-":
        return _decoded(sys.stdin.buffer.read(), "stdin")
    path = _readable(file)
    read = _decoded(path.read_bytes(), str(path))
    return _fenced(read) if path.suffix == ".py" else read


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}.") from None


def _fenced(text: str) -> str:
    longest = max((len(match[1]) for match in _FENCE.finditer(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{text.removesuffix(chr(10))}\n{fence}\n"


def _readable(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "not there"
        raise UsageError(f"{name!r} is {kind}; name a file.")
    return path


def _check_place(path: Path | None) -> None:
    """Said before anything runs: a long run whose record has no place would be a pity."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"{str(path)!r} cannot be written: {'it' if path.is_dir() else 'its parent'} is no fit place.")
