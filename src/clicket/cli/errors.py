"""Errors of commands as messages and exit codes. Exit codes are a contract; tracebacks are shown only with --debug."""

from __future__ import annotations

import os
import sys
from typing import Any

from clicket.cli.exit_codes import DONE, FAILED, INTERRUPTED, UNREACHABLE, WRONG_USE
from clicket.cli.formatting import shown_url
from clicket.cli.terminal import Terminal
from clicket.errors import (
    AgentBusy,
    ClicketError,
    Conflict,
    InvalidTransition,
    NotFound,
    StoreUnavailable,
    ToolNotFound,
    UsageError,
)

__all__ = [
    "DONE",
    "FAILED",
    "INTERRUPTED",
    "UNREACHABLE",
    "WRONG_USE",
    "CallFailed",
    "exit_code_of",
    "report",
    "silence_stdout",
]

_NOT_STARTED = ("not_isolated", "packages_failed", "sandbox_failed")
"""Codes of programs that could not be started. Codes, because a command should not import the interpreter for their classes."""


class CallFailed(Exception):
    """The command worked, but its subject failed, as a call that ended with an error. Everything has been printed already."""

    def __init__(self, exit_code: int = FAILED) -> None:
        super().__init__()
        self.exit_code = exit_code


def exit_code_of(error: BaseException) -> int:
    if isinstance(error, CallFailed):
        return error.exit_code
    if isinstance(error, StoreUnavailable):
        return UNREACHABLE
    if isinstance(error, UsageError | NotFound | Conflict | AgentBusy | ToolNotFound | InvalidTransition):
        return WRONG_USE
    if isinstance(error, ClicketError) and error.code in _NOT_STARTED:
        return WRONG_USE
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return FAILED


def report(error: BaseException, terminal: Terminal) -> int:
    """Print an error, as text or JSON, and return the exit code."""
    code = exit_code_of(error)
    if isinstance(error, CallFailed):
        return code
    if terminal.debug and not isinstance(error, KeyboardInterrupt):
        terminal.err.print_exception()
    if isinstance(error, KeyboardInterrupt):
        if not terminal.json:
            terminal.say("interrupted", style="yellow")
        return code
    if terminal.json:
        (terminal.print_json_line if terminal.lines else terminal.print_json)({"error": _described(error)})
    elif isinstance(error, ClicketError):
        terminal.complain(error.code, shown_url(error.message))
    else:
        text = f"{type(error).__name__}: {error}. Run it again with --debug for the traceback."
        terminal.complain("unexpected", shown_url(text))
    return code


def _described(error: BaseException) -> dict[str, Any]:
    """The error in the shape of `ToolResult.error`."""
    if not isinstance(error, ClicketError):
        return {
            "code": "unexpected",
            "message": shown_url(str(error)),
            "type": type(error).__name__,
            "retryable": False,
            "details": {},
        }
    return {
        "code": error.code,
        "message": shown_url(error.message),
        "type": type(error).__name__,
        "retryable": isinstance(error, StoreUnavailable),
        "details": {name: shown_url(str(value)) for name, value in error.details.items()},
    }


def silence_stdout() -> None:
    """Redirect stdout to the null device after its reader has gone (`clicket ps | head`), so that Python can flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
