"""Runs in the sandbox: becomes the shell, with one command. Its output and its errors go into one pipe, in their order."""

from __future__ import annotations

import os

from clicket.interpreter.sandbox import frames

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main"]


def main(commands: int, answers: int, settings: dict[str, Any], layers: list[str]) -> None:
    """`settings`: `command`, a text for the shell."""
    frames.write(answers, {"type": "ready"})
    frames.read(commands)
    os.dup2(1, 2)
    os.umask(0o022)  # the files that it makes are for others, too
    scratch = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 -- its own, new and empty
    os.execve("/bin/sh", ["sh", "-c", settings["command"]], {**os.environ, "HOME": scratch})  # noqa: S606
