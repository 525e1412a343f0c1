"""`clicket code`: runs a Markdown file as a notebook in the terminal. The program runs in the sandbox, never in this process.

Ctrl-C interrupts the current block and ends the run; a second Ctrl-C kills the program.
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

from clicket.cli.context import Context
from clicket.cli.errors import INTERRUPTED, CallFailed
from clicket.cli.formatting import parse_duration, parse_size
from clicket.cli.terminal import Terminal
from clicket.errors import UsageError

if TYPE_CHECKING:
    from clicket.interpreter import Interpreter
    from clicket.interpreter.result import Result

__all__ = ["code"]

_FENCE = re.compile(r"^[^\S\n]*+(`{3,}+)", re.MULTILINE)
_MISSED = re.compile(r"\[Errno 2\] .*: '(\w[\w. -]{0,80}+)'$")
"""A plain file name. The program controls this text, so nothing else may be shown or looked up."""


async def code(
    context: Context,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE | -]", help="A Markdown or Python file, or - for stdin.")
    ] = None,
    text: Annotated[str | None, typer.Option("--code", "-c", metavar="TEXT", help="Python, instead of a file.")] = None,
    require: Annotated[
        str, typer.Option(metavar="LEVEL", help="The lowest isolation to run with: full, partial, process, none.")
    ] = "full",
    timeout: Annotated[str, typer.Option(metavar="TIME", help="Timeout of each block: 30, 500ms, 2m.")] = "30",
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="Time between interrupting a block and killing the program.")
    ] = "1s",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory limit of the program: 512MiB, 2GiB.")] = "1GiB",
    max_steps: Annotated[int, typer.Option(help="Maximum number of blocks in one run.")] = 10,
    given: Annotated[
        list[str] | None, typer.Option("--file", metavar="PATH", help="A file that the program may read, by its name.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Save the files and figures of the program in this folder.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Let --out replace existing files.")] = False,
    notebook: Annotated[Path | None, typer.Option(metavar="FILE.ipynb", help="Save the run as a notebook.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Save the run as an HTML page.")] = None,
    python: Annotated[str | None, typer.Option(metavar="PATH", help="The Python interpreter to use.")] = None,
    package: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Allow imports of these packages only. Repeatable.")
    ] = None,
    install: Annotated[
        list[str] | None, typer.Option(metavar="PACKAGE", help="Install this package from --wheels first. Repeatable.")
    ] = None,
    wheels: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder with wheels for --install; no network is used.")
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="With --json: one line for each message.")] = False,
) -> None:
    """Run a Markdown file as a live notebook, in the sandbox.

    Ctrl-C interrupts the current block, a second one kills the program. Exits with 0 when the program succeeded, with 1
    when it failed, with 2 when it could not be started.
    """
    from clicket.cli.notebook_files import save_files, save_runs
    from clicket.cli.notebook_view import NotebookView
    from clicket.interpreter import Interpreter

    terminal = context.terminal
    terminal.lines = stream
    task = _read(file, text)
    files = {path.name: path for path in map(_readable, given or ())}
    for path in (notebook, html):
        _check_writable(path)
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
            _interrupts(interpreter, terminal) as interrupts,
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
    _print_outcome(terminal, result, saved, stream=stream)
    if interrupts:
        raise CallFailed(INTERRUPTED)
    if not result.ok:
        raise CallFailed


def _print_outcome(terminal: Terminal, result: Result, saved: list[str], *, stream: bool) -> None:
    from clicket.cli.notebook_view import closing_line

    if terminal.json:
        if not stream:
            terminal.print_json({**result.to_json(), "success": result.ok, "saved": saved})
        return
    error = result.error
    if error is not None and (
        error.fatal or result.status == "interrupted"
    ):  # other errors were shown with their block
        terminal.complain(error.type if result.status == "error" else result.status, error.message)
    for name in _missing_files(result):
        terminal.say(f"{name} is in this folder, but not in the sandbox: add --file {name}", style="yellow")
    terminal.say(closing_line(terminal, result, saved))


def _missing_files(result: Result) -> list[str]:
    """Files that the program did not find and that are in the working directory."""
    missed = [_MISSED.match(error.message) for error in result.errors if error.type == "FileNotFoundError"]
    names = {match[1] for match in missed if match is not None and Path(match[1]).is_file()}
    return sorted(names)


@asynccontextmanager
async def _interrupts(interpreter: Interpreter, terminal: Terminal) -> AsyncIterator[list[int]]:
    """The first Ctrl-C interrupts the program, the second kills it, the third cancels this command."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None
    interrupts: list[int] = []
    stopping: list[asyncio.Task[None]] = []

    def stop() -> None:
        interrupts.append(signal.SIGINT)
        if len(interrupts) == 1:
            if not terminal.json:
                terminal.say("interrupting; Ctrl-C again kills the program", style="yellow")
            stopping.append(loop.create_task(interpreter.interrupt()))
        elif len(interrupts) == 2:
            interpreter.kill()
        else:
            main.cancel()

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield interrupts
    finally:
        await asyncio.gather(*stopping)
        loop.remove_signal_handler(signal.SIGINT)


def _read(file: str | None, text: str | None) -> str:
    """The task. Python is put into a fence that is longer than any in its strings."""
    if (file is None) == (text is None):
        raise UsageError("name what to run: a Markdown or Python file, - for stdin, or --code TEXT.")
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


def _check_writable(path: Path | None) -> None:
    """Checked before the run, so that the run is not lost."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(
            f"{str(path)!r} cannot be written: {'it is a folder' if path.is_dir() else 'its folder does not exist'}."
        )
