"""The output of a command: results to stdout, everything else to stderr. In text from outside, invisible characters are marked.

Colours and animation are only used on terminals (colours not with NO_COLOR); elsewhere the same text is printed as plain lines.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.json import JSON
from rich.segment import Segment
from rich.text import Text

from clicket.model.printable import escaped_json, marked

__all__ = ["Terminal", "clean", "clean_lines"]

_PLAIN_WIDTH = 140
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Text from outside on one line, with marks for all invisible characters: it can neither move the cursor nor begin a line of its own,
    and reads as what it is. For names, ids, and what a person decides about."""
    return marked(_with_plain_breaks(text), lines=True).replace("\n", "⏎").replace("\t", " ")


def clean_lines(text: str) -> str:
    """Text from outside in lines: marks for what moves the cursor, turns text around or hides it. Joiners and selectors stay, because
    ordinary texts need them."""
    return marked(_with_plain_breaks(text), lines=True, prose=True)


def _with_plain_breaks(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")


class Terminal:
    """Both output streams of a command, and its output options."""

    def __init__(self, *, json: bool = False, debug: bool = False) -> None:
        self.json = json
        self.lines = False
        """Is the output JSON Lines? Then errors are, too."""
        self.debug = debug
        self.out = _console(sys.stdout)
        self.err = _console(sys.stderr)

    @property
    def interactive(self) -> bool:
        """May output be animated? Only on a terminal, and not with --json."""
        return self.err.is_terminal and not self.json

    @property
    def plain(self) -> bool:
        """Is the output limited to ASCII?"""
        return self.out.options.ascii_only

    def say(self, text: str | Text, *, style: str = "") -> None:
        """Print a line on stderr."""
        self.err.print(Text(text, style=style) if isinstance(text, str) else text, soft_wrap=True)

    def complain(self, code: str, message: str) -> None:
        """Print an error on stderr. Further lines of the message are indented, so that none looks like an error of its own."""
        label = Text("error ", style="bold red") + Text(f"{clean(code)}: ", style="red")
        self.err.print(label + Text(clean_lines(message).replace("\n", "\n  ")), soft_wrap=True)

    def print_json(self, value: Any) -> None:
        """Print one JSON document on stdout, indented; on a terminal in colour."""
        text = msgspec.json.encode(value)
        if self.out.is_terminal:
            self.out.print(JSON(clean(text.decode()), indent=2), soft_wrap=True)
        else:
            self.write(msgspec.json.format(escaped_json(text.decode()), indent=2) + "\n")

    def print_json_line(self, value: Any) -> None:
        """Print one JSON document on one line."""
        self.write(escaped_json(msgspec.json.encode(value).decode()) + "\n")

    def print_output(self, output: Any) -> None:
        """Print a tool's output: text as it is, everything else as JSON."""
        if isinstance(output, str):
            self.write_text(output if output.endswith("\n") or not output else output + "\n")
        elif self.out.is_terminal:
            self.out.print(JSON(clean(msgspec.json.encode(output).decode()), indent=2), soft_wrap=True)
        else:
            self.print_json_line(output)

    def write_text(self, text: str) -> None:
        """Print a tool's text: unchanged into a pipe, without control characters on a terminal."""
        self.write(text)

    def write(self, text: str) -> None:
        """Write text to stdout: unchanged into a pipe, without control characters on a terminal."""
        sys.stdout.write(clean_lines(text) if self.out.is_terminal else text)
        sys.stdout.flush()


class _Console(Console):
    """Prints no control characters except Rich's own. A closed pipe raises `BrokenPipeError`, where Rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """All output passes here, so text that a command did not clean is cleaned."""
        for segment in super().render(renderable, options):
            if segment.control is None and _CONTROLS.search(segment.text):
                yield Segment(_CONTROLS.sub("\N{REPLACEMENT CHARACTER}", segment.text), segment.style)
            else:
                yield segment


def _console(stream: Any) -> Console:
    """A console for a stream. A pipe has no width, and tables in a log should not be folded at 80 columns."""
    stream.reconfigure(errors="backslashreplace")  # a character that cannot be encoded must not end the command
    console = _Console(file=stream, highlight=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PLAIN_WIDTH
    return console
