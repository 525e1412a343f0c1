"""Python that nobody has read, run in a sandbox: Markdown or code in, output, values, pictures and files out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clicket.interpreter.files.artifacts import ArtifactStore
from clicket.interpreter.interpreter import Interpreter
from clicket.interpreter.result import Block, Display, File, ProgramError, Result, Skipped, Status, Variable, Variables
from clicket.kernel import CodeState

if TYPE_CHECKING:
    from clicket.interpreter.export.notebook import notebook_json, to_notebook
    from clicket.interpreter.export.page import to_page
    from clicket.interpreter.tool.tool import code_interpreter

Keeper = ArtifactStore
"""Former name."""

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
    "to_notebook",
    "to_page",
]

_LATE = {
    "code_interpreter": "tool.tool",
    "notebook_json": "export.notebook",
    "to_notebook": "export.notebook",
    "to_page": "export.page",
}
"""Where the names are that are loaded when they are asked for: who only runs programs needs nothing of tools and pages."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
