"""Python that nobody has read, run in a sandbox: Markdown or code in, output, values, pictures and files out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clicket.interpreter.interpreter import Interpreter
from clicket.interpreter.keeper import Keeper
from clicket.interpreter.result import Block, Display, File, ProgramError, Result, Skipped, Status, Variable, Variables
from clicket.kernel import CodeState

if TYPE_CHECKING:
    from clicket.interpreter.tool import code_interpreter

__all__ = [
    "Block",
    "CodeState",
    "Display",
    "File",
    "Interpreter",
    "Keeper",
    "ProgramError",
    "Result",
    "Skipped",
    "Status",
    "Variable",
    "Variables",
    "code_interpreter",
]


def __getattr__(name: str) -> Any:
    """The tool is loaded when it is asked for: who only runs programs needs nothing of tools."""
    if name != "code_interpreter":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from clicket.interpreter.tool import code_interpreter

    return code_interpreter
