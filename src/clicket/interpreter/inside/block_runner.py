"""Runs one block like a module: names stay, the last expression is its value, `await` works at the top level. Whatever the
program raises is returned as a value."""

from __future__ import annotations

import _ast
import sys

from clicket.interpreter.inside.safe_builtins import BUILTINS

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

    from clicket.interpreter.inside.interrupts import Interrupts

__all__ = ["AWAIT", "LARGE", "BlockRunner", "run_guarded"]

globals()["__builtins__"] = BUILTINS

ONLY_TREE = 0x400
AWAIT = 0x2000
"""The compiler flag that allows `await` at the top level."""
LARGE = 500_000
"""Characters. The syntax tree of a longer block would take hundreds of times its size, so it has no value and no imports."""
_COROUTINE = 0x80
_Expr, _Expression, _ImportFrom = _ast.Expr, _ast.Expression, _ast.ImportFrom


def run_guarded(interrupts: Interrupts, call: Callable[..., Any], *arguments: Any) -> tuple[Any, BaseException | None]:
    """The only place that runs code of the program: it can be interrupted here, and what it raises is returned."""
    try:
        try:
            interrupts.open()
            return call(*arguments), None
        finally:
            interrupts.close()
    except BaseException as error:
        interrupts.close()
        return None, error


class BlockRunner:
    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._loop: Any = None

    def run(self, text: str, name: str) -> Any:
        """The value of the last expression, or None."""
        codes = _compile(text, name)
        if any(code.co_flags & _COROUTINE for code in codes):
            return self._run_in_loop(codes)
        value = None
        for code in codes:
            value = eval(code, self._names)  # noqa: S307 - to run the program is the point
        return value

    def _run_in_loop(self, codes: list[CodeType]) -> Any:
        """One loop for the whole session, so that tasks and connections of one block continue in the next."""
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        loop = self._loop
        asyncio.set_event_loop(loop)
        task = loop.create_task(self._drive(codes))
        try:
            return loop.run_until_complete(task)
        except BaseException as error:
            if not task.done():  # an interrupt, or another task's SystemExit, left the loop while the block waited
                _cancel(loop, task, error)
            elif not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it
            raise
        finally:
            del task  # its exception's traceback refers to this frame

    async def _drive(self, codes: list[CodeType]) -> Any:
        value = None
        for code in codes:
            value = eval(code, self._names)  # noqa: S307 - to run the program is the point
            if code.co_flags & _COROUTINE:
                value = await value
        return value


def _cancel(loop: Any, task: Any, error: BaseException) -> None:
    """Cancel the block's task; the place where it waited becomes part of the error's traceback."""
    task.cancel()
    try:
        loop.run_until_complete(task)
    except BaseException as end:
        if type(end) is not type(error):
            error.__traceback__ = end.__traceback__
    if sys.exc_info()[1] is error:
        error.__context__ = None


def _compile(text: str, name: str) -> list[CodeType]:
    """The statements, then the last expression, if there are any."""
    if len(text) > LARGE:
        return [compile(text, name, "exec", AWAIT, dont_inherit=True)]
    tree: Any = compile(text, name, "exec", ONLY_TREE | AWAIT, dont_inherit=True)
    last = tree.body[-1] if tree.body else None
    if type(last) is not _Expr or _is_silenced(text, last):
        return [compile(tree, name, "exec", AWAIT, dont_inherit=True)] if tree.body else []
    tree.body.pop()
    future = _future_flags(tree.body)
    codes = [compile(tree, name, "exec", AWAIT, dont_inherit=True)] if tree.body else []
    codes.append(compile(_Expression(last.value), name, "eval", AWAIT | future, dont_inherit=True))
    return codes


def _future_flags(body: list[Any]) -> int:
    """The compiler flags of `from __future__ import …` at the top, which the last expression needs too."""
    first = body[0] if body else None
    if type(first) is not _ImportFrom or first.module != "__future__":
        return 0
    import __future__

    flags = 0
    for alias in first.names:
        flags |= getattr(getattr(__future__, alias.name, None), "compiler_flag", 0)
    return flags


def _is_silenced(text: str, last: Any) -> bool:
    """As in a notebook, a semicolon after the last expression hides its value."""
    if not text.rstrip().endswith(";") and ";" not in text.rsplit("\n", 1)[-1]:
        return False
    lines = text.split("\n")
    rest = lines[last.end_lineno - 1].encode("utf-8", "replace")[last.end_col_offset :].decode("utf-8", "replace")
    return "\n".join([rest, *lines[last.end_lineno :]]).lstrip(" \t\r\n\f)\\").startswith(";")
