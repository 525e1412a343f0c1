"""`clicket call`: runs one tool and prints its output. Ctrl-C cancels the call and waits until it has stopped."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from textwrap import indent
from typing import Annotated, Any

import msgspec
import typer

from clicket.cli.call_progress import CallProgress
from clicket.cli.completion import complete_tool
from clicket.cli.context import Context
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import as_state, duration, parse_duration, parse_instant, with_type
from clicket.cli.terminal import Terminal, clean, clean_lines
from clicket.errors import UsageError
from clicket.model import ToolResult, result_of
from clicket.model.ports import Handle
from clicket.model.time_text import utc_text
from clicket.runtime.runtime import Runtime

__all__ = ["call", "follow", "interrupted", "read_arguments"]

_PIECE_SIZE = 1024 * 1024


async def call(
    context: Context,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.", autocompletion=complete_tool)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JSON | KEY=VALUE … | -]", help="One JSON object, pairs, or - for stdin."),
    ] = None,
    thread: Annotated[str, typer.Option(help="The conversation that the call belongs to.")] = "default",
    id: Annotated[
        str | None, typer.Option("--id", help="The call's id; a call with the same id returns the same result.")
    ] = None,
    timeout: Annotated[str | None, typer.Option(metavar="TIME", help="Timeout of each attempt: 10, 500ms, 2m.")] = None,
    deadline: Annotated[str | None, typer.Option(metavar="TIME", help="Time limit of the whole call.")] = None,
    not_before: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|+DURATION",
            help="Submit it to run at that time, with a zone, or after +10m; a worker runs it.",
        ),
    ] = None,
    priority: Annotated[int, typer.Option(help="Calls with a higher number leave the queue first.")] = 0,
    stream: Annotated[
        bool, typer.Option("--stream", "--follow", help="Print streamed output at once, also into a pipe.")
    ] = False,
) -> None:
    """Run a tool and print its output."""
    schema: Mapping[str, Any] = next((t.input_schema for t in context.needed_tools if t.name == tool), {})
    given = read_arguments(arguments or [], schema)
    for_attempt = None if timeout is None else parse_duration(timeout)
    for_all = None if deadline is None else parse_duration(deadline)
    later = None if not_before is None else parse_instant(not_before)
    terminal = context.terminal
    async with context.joined() as runtime:
        submitting = asyncio.ensure_future(
            runtime.submit(
                tool,
                given,
                id=id,
                thread=thread,
                timeout=for_attempt,
                deadline=for_all,
                priority=priority,
                not_before=later,
            )
        )
        try:
            handle = await asyncio.shield(submitting)
        except asyncio.CancelledError:
            handle = await submitting  # a worker may have the call already
            made_here = id is None or runtime.is_held(handle.id, handle.thread)
            await interrupted(runtime, terminal, handle, made_here=made_here)
            raise
        if later is not None:
            _print_submitted(terminal, handle, later)
            return
        made_here = id is None or runtime.is_held(handle.id, handle.thread)
        await follow(runtime, terminal, handle, tool, stream=stream, made_here=made_here)


def _print_submitted(terminal: Terminal, handle: Handle, later: float) -> None:
    if terminal.json:
        terminal.print_json({"id": handle.id, "thread": handle.thread, "not_before": later})
    else:
        terminal.write(f"{clean(handle.id)} waits until {utc_text(later)}.\n")


async def follow(
    runtime: Runtime, terminal: Terminal, handle: Handle, tool: str, *, stream: bool, made_here: bool = True
) -> None:
    """Show a call's events, then its output and outcome. Raises `CallFailed` unless it completed. Ctrl-C cancels the call if this
    command made it."""
    watch = _Watch(terminal, tool, stream=stream)
    try:
        with watch.progress:
            async for event in handle.events():
                watch.take(event)
            result = await handle.result()
    except asyncio.CancelledError:
        await interrupted(runtime, terminal, handle, made_here=made_here)
        raise
    await _print(runtime, terminal, result, streamed=watch.streamed, stream=stream)
    if terminal.debug and not result.success:
        record = await runtime.get(result.call_id, thread=handle.thread)
        for attempt in record.attempts:
            terminal.say(indent(clean_lines(attempt.traceback), "  "), style="bright_black")
    if not result.success:
        raise CallFailed


class _Watch:
    """Shows a call's events: streamed output on stdout, everything else in the progress row."""

    def __init__(self, terminal: Terminal, tool: str, *, stream: bool) -> None:
        self.terminal = terminal
        self.progress = CallProgress(terminal, tool)
        self.streamed = False
        self._prints_output = stream or (terminal.out.is_terminal and not terminal.json)
        self._prints_events = stream and terminal.json

    def take(self, event: Any) -> None:
        if self._prints_events:
            self.terminal.print_json_line(event)
        elif event.type == "output" and self._prints_output:
            self._write(event.data["content"])
        else:
            if event.type == "attempt_started" and self.streamed:
                self._restarted()
            self.progress.take(event)

    def _write(self, chunk: Any) -> None:
        self.progress.stop()  # streamed output and an animated row cannot share a terminal
        self.streamed = True
        text = chunk if isinstance(chunk, str) else msgspec.json.encode(chunk).decode() + "\n"
        self.terminal.write_text(text)

    def _restarted(self) -> None:
        self.terminal.write("\n")
        self.terminal.say("the attempt failed; the output starts again", style="yellow")


async def interrupted(runtime: Runtime, terminal: Terminal, handle: Handle, *, made_here: bool) -> None:
    """Cancel the call, in whichever process it runs, if this command made it. A call of another process goes on."""
    id, thread = handle.id, handle.thread
    if not made_here:
        if not terminal.json:
            terminal.say(f"the call goes on: clicket cancel {clean(id)} ends it", style="bright_black")
        return
    await runtime.cancel(id, thread=thread, reason="interrupted at the terminal")
    with suppress(TimeoutError):
        async with asyncio.timeout(runtime.settings.limits.close_timeout):
            await handle.result()
    record = await runtime.get(id, thread=thread)
    if terminal.json:
        result = result_of(record)
        terminal.print_json({**msgspec.to_builtins(result), "success": result.success})
    else:
        terminal.say(as_state(record.state).append(f"  clicket show {clean(id)}", style="bright_black"))


async def _print(runtime: Runtime, terminal: Terminal, result: ToolResult, *, streamed: bool, stream: bool) -> None:
    if terminal.json:
        whole = {**msgspec.to_builtins(result), "success": result.success}
        (terminal.print_json_line if stream else terminal.print_json)(whole)
        return
    if result.success:
        if streamed:
            terminal.write("\n")
        elif not result.truncated:
            terminal.print_output(result.output)
        elif terminal.out.is_terminal or result.artifact is None:
            terminal.print_output(result.content)
        else:
            await _print_whole(runtime, terminal, result.artifact)
    elif streamed:
        terminal.write("\n")
    _print_outcome(terminal, result)


async def _print_whole(runtime: Runtime, terminal: Terminal, artifact: str) -> None:
    """Write the whole result into a pipe, in pieces."""
    sys.stdout.flush()
    start = 0
    while piece := await runtime.artifact(artifact, start, start + _PIECE_SIZE):
        sys.stdout.buffer.write(piece)
        start += len(piece)
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _print_outcome(terminal: Terminal, result: ToolResult) -> None:
    """The last line: how the call ended, how long it took, and how to see more."""
    if result.error is not None:
        terminal.complain(result.error.code, with_type(result.error))
    facts = [duration(result.duration)]
    if result.attempts > 1:
        facts.insert(0, f"{result.attempts} attempts")
    if result.metadata.get("abandoned"):
        facts.append("its thread could not be stopped and was abandoned")
    if result.truncated:
        facts.append(f"shortened for the model; the whole is {result.artifact}")
    line = (
        as_state(result.state)
        .append(f"  {' · '.join(facts)}")
        .append(f"  clicket show {clean(result.call_id)}", style="bright_black")
    )
    terminal.say(line)


def read_arguments(words: list[str], schema: Mapping[str, Any]) -> dict[str, Any] | str:
    """The arguments of the command line. JSON text is passed on unchanged, and validated with the call."""
    if not words:
        return {}
    if words == ["-"]:
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    if len(words) == 1 and words[0].lstrip().startswith(("{", "[", '"')):
        return words[0]
    properties = schema.get("properties", {})
    given: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            pair = f"{word if word in properties else next(iter(properties), 'name')}=VALUE"
            raise UsageError(
                f"{word!r} is neither JSON nor KEY=VALUE. Write one JSON object, pairs like {pair}, or - for stdin."
            )
        if name in given:
            raise UsageError(f"{name!r} is given twice.")
        given[name] = _value(text, properties.get(name, {}))
    return given


def _value(text: str, schema: Any) -> Any:
    """The value of `KEY=VALUE`: text where the schema wants a string, else JSON if it is valid JSON, else text."""
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
