"""Compiles a block without running it: its error, imports, and the global names that it reads and binds."""

from __future__ import annotations

import _ast
import _symtable as table  # type: ignore[import-not-found] # without the package around it
import _thread
import builtins
import sys

from clicket.interpreter.inside.block_runner import AWAIT, LARGE, ONLY_TREE
from clicket.interpreter.inside.safe_builtins import BUILTINS, clean

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from clicket.interpreter.inside.tracebacks import Tracebacks

__all__ = ["check"]

globals()["__builtins__"] = BUILTINS

MAX_LISTED = 1000
"""Names in each list, so that the answer stays small."""
MAX_NAME = 200
_NAME = "<block>"
_Import, _ImportFrom = _ast.Import, _ast.ImportFrom
_thread_id = _thread.get_ident
_symtable = table.symtable
_BOUND, _USED = table.DEF_LOCAL | table.DEF_PARAM | table.DEF_IMPORT, table.USE
_GLOBAL, _OFFSET, _MASK = (table.GLOBAL_IMPLICIT, table.GLOBAL_EXPLICIT), table.SCOPE_OFF, table.SCOPE_MASK
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def check(text: str, tracebacks: Tracebacks) -> dict[str, Any]:
    loads: set[str] = set()
    stores: set[str] = set()
    imports: list[str] = []
    failure = None
    errors, sys.stderr = sys.stderr, _Quiet(sys.stderr)  # the compiler's warnings are printed when the block runs
    try:
        compile(text, _NAME, "exec", AWAIT, dont_inherit=True)
        loads, stores = _names_of(text)
        imports = _imports_of(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError) as error:
        failure = tracebacks.describe_syntax(error, text)
    finally:
        sys.stderr = errors
    return {"error": failure, "imports": imports[:MAX_LISTED], "loads": _listed(loads), "stores": _listed(stores)}


class _Quiet:
    """Discards what this thread writes; threads of the program may write too."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._silent = _thread_id()

    def write(self, text: str) -> int:
        return len(text) if _thread_id() == self._silent else self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()


def _listed(names: set[str]) -> list[str]:
    return sorted(clean(name) for name in names if len(name) <= MAX_NAME)[:MAX_LISTED]


def _names_of(text: str) -> tuple[set[str], set[str]]:
    """Global names that are read at any depth and bound nowhere, and global names that are bound."""
    loads: set[str] = set()
    stores: set[str] = set()
    top = _symtable(text, _NAME, "exec")
    scopes = [top]
    while scopes:
        scope = scopes.pop()
        scopes += scope.children
        for name, flags in scope.symbols.items():
            is_global = scope is top or flags >> _OFFSET & _MASK in _GLOBAL
            if is_global and flags & _BOUND:
                stores.add(name)
            elif is_global and flags & _USED:
                loads.add(name)
    return loads - stores - vars(builtins).keys(), stores


def _imports_of(text: str) -> list[str]:
    """Modules in the import statements, in order."""
    if len(text) > LARGE or "import" not in text:
        return []
    tree: Any = compile(text, _NAME, "exec", ONLY_TREE | AWAIT, dont_inherit=True)
    return [clean(name) for name in dict.fromkeys(_walk(tree)) if len(name) <= MAX_NAME]


def _walk(tree: Any) -> Iterator[str]:
    """Statements only: an import cannot be inside an expression."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if type(node) is _Import:
            yield from (alias.name for alias in node.names)
        elif type(node) is _ImportFrom:
            if node.module and not node.level:
                yield node.module
        else:
            below = [child for field in _BODIES for child in getattr(node, field, None) or ()]
            waiting += reversed(below)
