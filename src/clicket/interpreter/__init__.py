"""Runs untrusted Python in a sandbox: Markdown or code in; output, values, pictures and files out.

A task goes down this list and its result comes back up; each package's own page names its modules.

- `tool`: the tool `code_interpreter`, with a pool of interpreters for many callers
- `interpreter`: `Interpreter`: one session that keeps its variables, one run at a time
- `export`: results as a notebook and as an HTML page
- `run`: one run: the state machine, the blocks of the task, checks, messages, the result
- `setup`: how a session is made: packages, font list, sandbox
- `session`: one child process from the host's side: frames, deadlines, interrupts, kills
- `files`: files into the work folder and out of it, artifacts
- `result`: `Result` and its parts
- `inside`: what runs in the sandboxed child process: the loop that runs blocks
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clicket.interpreter.export.notebook import notebook_json, to_notebook
    from clicket.interpreter.export.page import to_html
    from clicket.interpreter.files.artifacts import ArtifactStore
    from clicket.interpreter.interpreter import Interpreter
    from clicket.interpreter.result import (
        Block,
        Display,
        File,
        ProgramError,
        Result,
        Skipped,
        Status,
        Variable,
        Variables,
    )
    from clicket.interpreter.tool.tool import code_interpreter
    from clicket.kernel import CodeState

__all__ = [
    "ArtifactStore",
    "Block",
    "CodeState",
    "Display",
    "File",
    "Interpreter",
    "ProgramError",
    "Result",
    "Skipped",
    "Status",
    "Variable",
    "Variables",
    "code_interpreter",
    "notebook_json",
    "to_html",
    "to_notebook",
]

_LATE = {
    "ArtifactStore": "clicket.interpreter.files.artifacts",
    "CodeState": "clicket.kernel",
    "Interpreter": "clicket.interpreter.interpreter",
    "code_interpreter": "clicket.interpreter.tool.tool",
    "notebook_json": "clicket.interpreter.export.notebook",
    "to_html": "clicket.interpreter.export.page",
    "to_notebook": "clicket.interpreter.export.notebook",
}
"""Where names are imported from, on first use; those that are not here are parts of a result. A sandbox of commands (`clicket.sandbox`)
needs none of them, and running programs needs neither the tool nor the exports."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE.get(name, "clicket.interpreter.result")), name)
