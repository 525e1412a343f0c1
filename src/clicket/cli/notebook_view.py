"""Draws a program's run: prose, code, output, values, errors. All of it is text from outside, and is cleaned.

The notebook goes to stdout, remarks to stderr. A pipe gets the same without colours.
"""

from __future__ import annotations

from typing import Any

from rich.markdown import Markdown
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from clicket.cli.formatting import count_of, duration, size
from clicket.cli.notebook_files import Figures
from clicket.cli.terminal import Terminal, clean, clean_lines
from clicket.interpreter.result import Result
from clicket.interpreter.run.task_parser import plain_text

__all__ = ["NotebookView", "closing_line"]

_MAX_PROSE = 30_000
_MAX_CODE = 100_000
"""Characters up to which text is coloured."""
_STATUS_MARKS = {"ok": ("✓", "green"), "error": ("✗", "red"), "interrupted": ("⊘", "yellow"), "exit": ("⊘", "yellow")}


class NotebookView:
    """Draws the messages of a run in their order."""

    def __init__(self, terminal: Terminal, task: str) -> None:
        self.figures = Figures()
        self._terminal = terminal
        self._coloured = terminal.out.is_terminal
        self._lines = plain_text(task).split("\n")
        self._shown_lines = 0
        self._line_open = False
        self._formats: dict[str, str] = {}
        self._group: int | None = None
        self._last_text = ""

    def take(self, message: dict[str, Any]) -> None:
        draw = getattr(self, f"_{message['type']}", None)
        if message["type"] != "display":
            self._show_formats()
        if draw is not None:
            draw(message)

    def end(self, result: Result) -> None:
        """Draw the rest of the prose, if the run reached it, and the warnings."""
        self._show_formats()
        self._close_line()
        if self._shown_lines and not result.fatal:
            self._prose(self._lines[self._shown_lines :])
        for skipped in result.skipped:
            self._terminal.say(f"left out: {clean(skipped.what)}: {clean(skipped.why)}", style="bright_black")
        for warning in result.warnings:
            self._terminal.say(clean(warning), style="yellow")

    def _code_execution_start(self, message: dict[str, Any]) -> None:
        lines = message.get("lines")
        if lines:
            self._prose(self._lines[self._shown_lines : lines[0]])
            self._shown_lines = lines[1]
        self._close_line()
        self._last_text = ""
        code = clean_lines(message["code"]).rstrip("\n")
        number = f"[{message['block_index'] + 1}]"
        out = self._terminal.out
        if not self._coloured:
            indented = "\n".join(f"    {line}".rstrip() for line in code.split("\n"))
            self._terminal.write(f"{number}\n{indented}\n")
            return
        out.print(Text(number, style="bold cyan"))
        if len(code) > _MAX_CODE:
            out.print(Padding(Text(code), (0, 0, 0, 2)))
        else:
            shown = Syntax(code, "python", theme="ansi_dark", background_color="default", word_wrap=True)
            out.print(Padding(shown, (0, 0, 0, 2)))

    def _stdout(self, message: dict[str, Any]) -> None:
        self._write(message["content"], "")

    def _stderr(self, message: dict[str, Any]) -> None:
        self._write(message["content"], "yellow")

    def _display(self, message: dict[str, Any]) -> None:
        """Formats of one display come one after the other; the best is shown when the next message comes."""
        if message.get("group") != self._group or message["mime"] in self._formats:
            self._show_formats()
        self._group = message.get("group")
        self._formats[message["mime"]] = message["data"]

    def _code_execution_complete(self, message: dict[str, Any]) -> None:
        value = message.get("value")
        if value is not None and value != self._last_text:
            self._close_line()
            arrow = "=> " if self._terminal.plain else "→ "
            if self._coloured:
                self._terminal.out.print(Text.assemble((arrow, "bold green"), clean_lines(value)), soft_wrap=True)
            else:
                self._terminal.write(f"{arrow}{value}\n")
        self._close_line()
        self._terminal.write("\n")

    def _execution_error(self, message: dict[str, Any]) -> None:
        self._close_line()
        words = clean_lines(message.get("traceback") or f"{message['error_type']}: {message['error']}").rstrip("\n")
        if self._coloured:
            above, newline, last = words.rpartition("\n")
            self._terminal.out.print(Text.assemble((above + newline, "red"), (last, "bold red")), soft_wrap=True)
        else:
            self._terminal.write(f"{words}\n")

    def _code_execution_error(self, message: dict[str, Any]) -> None:
        self._close_line()
        self._terminal.write("\n")

    def _prose(self, lines: list[str]) -> None:
        text = clean_lines("\n".join(lines)).strip("\n")
        if not text.strip():
            return
        self._close_line()
        if self._coloured and len(text) <= _MAX_PROSE:
            # Link targets are written out: a terminal's own links can hide where they lead.
            self._terminal.out.print(Markdown(text, hyperlinks=False, code_theme="ansi_dark"))
            self._terminal.write("\n")
        else:
            self._terminal.write(f"{text}\n\n")

    def _write(self, text: str, style: str) -> None:
        if not text:
            return
        self._last_text = ""
        if style and self._coloured:
            self._terminal.out.print(Text(clean_lines(text), style=style), end="", soft_wrap=True)
        else:
            self._terminal.write_text(text)
        self._line_open = not text.endswith(("\n", "\r"))

    def _show_formats(self) -> None:
        formats, self._formats, self._group = self._formats, {}, None
        if not formats:
            return
        self._close_line()
        names = self.figures.take(formats)
        if names:
            mime, data = self.figures.named[names[0]]
            length = len(data) * 3 // 4 if mime != "image/svg+xml" else len(data)
            self._remark(f"{names[0]} ({mime}, {size(length)})")
            return
        text = formats.get("text/plain") or formats.get("text/markdown") or formats.get("text/latex")
        if text is None:
            mime, data = next(iter(formats.items()))
            if mime != "application/json":
                self._remark(f"{clean(mime)}, {size(len(data))}; --html shows it")
                return
            text = data
        self._terminal.write_text(f"{text}\n" if not text.endswith("\n") else text)
        self._last_text = text

    def _remark(self, text: str) -> None:
        mark = "*" if self._terminal.plain else "▣"
        self._terminal.out.print(Text(f"{mark} {text}", style="magenta"), soft_wrap=True)

    def _close_line(self) -> None:
        if self._line_open:
            self._terminal.write("\n")
            self._line_open = False


def closing_line(terminal: Terminal, result: Result, saved: list[str]) -> Text:
    """The last line: status, number of blocks, duration, isolation, saved files."""
    mark, style = _STATUS_MARKS.get(result.status, ("✗", "red"))
    status = result.status + (f" ({clean(result.reason)})" if result.reason else "")
    facts = [
        count_of(len(result.blocks), "block"),
        duration(result.duration),
        f"isolation {result.isolation.level}",
    ]
    if result.files:
        facts.append(count_of(len(result.files), "file"))
    line = Text(status if terminal.plain else f"{mark} {status}", style=f"bold {style}")
    line.append(f"  {' · '.join(facts)}", style="not bold default")
    if saved:
        line.append(f"  saved {clean(', '.join(saved))}", style="not bold bright_black")
    return line
