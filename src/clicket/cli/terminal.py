"""Where a command writes: results to stdout, everything else to stderr. Foreign text never reaches a terminal with its controls.

Colours and moving pictures are for terminals alone (and not when NO_COLOR says so); elsewhere the same words are plain lines.
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

from clicket.printable import escaped_json

__all__ = ["Terminal", "clean", "clean_lines"]

_PLAIN_WIDTH = 140
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """A name, an id or a remark from outside as it may be shown: on one line, and without controls. No escape sequence in it moves
    our cursor, and no line break in it makes a line that looks like ours."""
    return clean_lines(text).replace("\n", "⏎").replace("\t", " ")


def clean_lines(text: str) -> str:
    """A text from outside that may have several lines."""
    whole = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", whole)


class Terminal:
    """Both streams of a command, and how it was asked to speak."""

    def __init__(self, *, json: bool = False, debug: bool = False) -> None:
        self.json = json
        self.lines = False
        """Is the JSON one document a line? Then so is an error."""
        self.debug = debug
        self.out = _console(sys.stdout)
        self.err = _console(sys.stderr)

    @property
    def interactive(self) -> bool:
        """May something move? Only a terminal can draw the same line twice."""
        return self.err.is_terminal and not self.json

    @property
    def plain(self) -> bool:
        """Must the pictures do without block characters?"""
        return self.out.options.ascii_only

    def say(self, text: str | Text, *, style: str = "") -> None:
        """A remark to the person at the terminal."""
        self.err.print(Text(text, style=style) if isinstance(text, str) else text, soft_wrap=True)

    def complain(self, code: str, message: str) -> None:
        """Further lines of the message are indented: none looks like one of ours."""
        label = Text("error ", style="bold red") + Text(f"{clean(code)}: ", style="red")
        self.err.print(label + Text(clean_lines(message).replace("\n", "\n  ")), soft_wrap=True)

    def print_json(self, value: Any) -> None:
        """One JSON document on stdout: indented, and in colour where there is a person to read it."""
        text = msgspec.json.encode(value)
        if self.out.is_terminal:
            self.out.print(JSON(clean(text.decode()), indent=2), soft_wrap=True)
        else:
            self.write(msgspec.json.format(escaped_json(text.decode()), indent=2) + "\n")

    def print_json_line(self, value: Any) -> None:
        """One JSON document on a line of its own."""
        self.write(escaped_json(msgspec.json.encode(value).decode()) + "\n")

    def print_output(self, output: Any) -> None:
        """A tool's output: text as it is, everything else as JSON."""
        if isinstance(output, str):
            self.write_text(output if output.endswith("\n") or not output else output + "\n")
        elif self.out.is_terminal:
            self.out.print(JSON(clean(msgspec.json.encode(output).decode()), indent=2), soft_wrap=True)
        else:
            self.print_json_line(output)

    def write_text(self, text: str) -> None:
        """A tool's own text, byte for byte unless a terminal would obey it."""
        self.write(text)

    def write(self, text: str) -> None:
        """Plain text: byte for byte into a pipe, without controls to a terminal."""
        sys.stdout.write(clean_lines(text) if self.out.is_terminal else text)
        sys.stdout.flush()


class _Console(Console):
    """Shows no control characters but its own. Rich leaves the program with 1 when the reader of a pipe does; for us that is no
    failure."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Whatever a command prints passes here: what it forgot to clean is cleaned, and Rich's own controls stay."""
        for segment in super().render(renderable, options):
            if segment.control is None and _CONTROLS.search(segment.text):
                yield Segment(_CONTROLS.sub("\N{REPLACEMENT CHARACTER}", segment.text), segment.style)
            else:
                yield segment


def _console(stream: Any) -> Console:
    """A pipe has no width; tables in a log should not be folded at 80 columns."""
    stream.reconfigure(errors="backslashreplace")  # a narrow encoding costs a character, not the command
    console = _Console(file=stream, highlight=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PLAIN_WIDTH
    return console
