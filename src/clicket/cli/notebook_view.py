"""A program's run in the terminal, as it goes on: prose, code, output, values, errors. All of it is foreign text, and cleaned.

The notebook goes to stdout, remarks about it to stderr. A pipe gets the same, without colours.
"""

from __future__ import annotations

from typing import Any

from rich.markdown import Markdown
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from clicket.cli.notebook_files import Pictures
from clicket.cli.terminal import Terminal, clean, clean_lines
from clicket.cli.words import duration, size
from clicket.interpreter.result import Result
from clicket.interpreter.run.task_parser import plain_text

__all__ = ["NotebookView", "closing"]

_MOST_PROSE = 30_000
_MOST_CODE = 100_000
"""Characters that are given colours; more is printed as it is."""
_WORST_WORD = {"ok": ("✓", "green"), "error": ("✗", "red"), "interrupted": ("⊘", "yellow"), "exit": ("⊘", "yellow")}


class NotebookView:
    """Draws the messages of a run, one after the other."""

    def __init__(self, terminal: Terminal, task: str) -> None:
        self.pictures = Pictures()
        self._terminal = terminal
        self._coloured = terminal.out.is_terminal
        self._lines = plain_text(task).split("\n")
        self._told = 0
        self._line_open = False
        self._forms: dict[str, str] = {}
        self._group: int | None = None
        self._last_text = ""

    def take(self, message: dict[str, Any]) -> None:
        draw = getattr(self, f"_{message['type']}", None)
        if message["type"] != "display":
            self._show_forms()
        if draw is not None:
            draw(message)

    def end(self, result: Result) -> None:
        """What is left to tell once the run is over: the rest of the prose, if the run came that far."""
        self._show_forms()
        self._close_line()
        if self._told and not result.fatal:
            self._prose(self._lines[self._told :])
        for skipped in result.skipped:
            self._terminal.say(f"left out: {clean(skipped.what)}: {clean(skipped.why)}", style="bright_black")
        for notice in result.notices:
            self._terminal.say(clean(notice), style="yellow")

    def _code_execution_start(self, message: dict[str, Any]) -> None:
        lines = message.get("lines")
        if lines:
            self._prose(self._lines[self._told : lines[0]])
            self._told = lines[1]
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
        if len(code) > _MOST_CODE:
            out.print(Padding(Text(code), (0, 0, 0, 2)))
        else:
            shown = Syntax(code, "python", theme="ansi_dark", background_color="default", word_wrap=True)
            out.print(Padding(shown, (0, 0, 0, 2)))

    def _stdout(self, message: dict[str, Any]) -> None:
        self._write(message["content"], "")

    def _stderr(self, message: dict[str, Any]) -> None:
        self._write(message["content"], "yellow")

    def _display(self, message: dict[str, Any]) -> None:
        """Forms of one thing come one after the other; the best is shown when the next thing comes."""
        if message.get("group") != self._group or message["mime"] in self._forms:
            self._show_forms()
        self._group = message.get("group")
        self._forms[message["mime"]] = message["data"]

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
        if self._coloured and len(text) <= _MOST_PROSE:
            # Links are spelt out: where they lead must be seen, and a terminal's own links can hide it.
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

    def _show_forms(self) -> None:
        forms, self._forms, self._group = self._forms, {}, None
        if not forms:
            return
        self._close_line()
        names = self.pictures.take(forms)
        if names:
            mime, data = self.pictures.named[names[0]]
            length = len(data) * 3 // 4 if mime != "image/svg+xml" else len(data)
            self._remark(f"{names[0]} ({mime}, {size(length)})")
            return
        text = forms.get("text/plain") or forms.get("text/markdown") or forms.get("text/latex")
        if text is None:
            mime, data = next(iter(forms.items()))
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


def closing(terminal: Terminal, result: Result, saved: list[str]) -> Text:
    """The last line: how it ended, how many blocks, how long, how well it was kept, what is left of it."""
    mark, style = _WORST_WORD.get(result.status, ("✗", "red"))
    status = result.status + (f" ({clean(result.reason)})" if result.reason else "")
    count = len(result.blocks)
    facts = [
        f"{count} block{'' if count == 1 else 's'}",
        duration(result.duration),
        f"isolation {result.isolation.level}",
    ]
    if result.files:
        facts.append(f"{len(result.files)} file{'' if len(result.files) == 1 else 's'}")
    line = Text(status if terminal.plain else f"{mark} {status}", style=f"bold {style}")
    line.append(f"  {' · '.join(facts)}", style="not bold default")
    if saved:
        line.append(f"  saved {clean(', '.join(saved))}", style="not bold bright_black")
    return line
