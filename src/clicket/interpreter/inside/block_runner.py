"""Runs one block with the meaning of a whole module: names stay, the last expression is its value, `await` works at the top.
Whatever the program raises comes back as a value; nothing of it passes."""

from __future__ import annotations

import _ast
import sys

from clicket.interpreter.inside.safe_builtins import BUILTINS

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

    from clicket.interpreter.inside.interrupts import Interrupts

__all__ = ["AWAIT", "LARGE", "Program", "attempt"]

globals()["__builtins__"] = BUILTINS

ONLY_TREE = 0x400
AWAIT = 0x2000
"""The compiler's flag that allows `await` at the top."""
LARGE = 500_000
"""Characters. The tree of a longer block would cost hundreds of times its size, so it has no value and no imports."""
_COROUTINE = 0x80
_Expr, _Expression, _ImportFrom = _ast.Expr, _ast.Expression, _ast.ImportFrom


def attempt(interrupts: Interrupts, call: Callable[..., Any], *arguments: Any) -> tuple[Any, BaseException | None]:
    """The only place where code of the program is run: it may be interrupted here, and what it raises is kept."""
    try:
        try:
            interrupts.open()
            return call(*arguments), None
        finally:
            interrupts.close()
    except BaseException as error:
        interrupts.close()
        return None, error


class Program:
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
        """One loop serves the whole session, so that tasks and connections of one block go on in the next."""
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        loop = self._loop
        asyncio.set_event_loop(loop)
        task = loop.create_task(self._drive(codes))
        try:
            return loop.run_until_complete(task)
        except BaseException as error:
            if not task.done():  # an interrupt, or another task's exit: the loop was left while the block waited
                _put_down(loop, task, error)
            elif not task.cancelled():
                task.exception()  # it has been seen
            raise
        finally:
            del task  # its exception's traceback leads to this frame

    async def _drive(self, codes: list[CodeType]) -> Any:
        value = None
        for code in codes:
            value = eval(code, self._names)  # noqa: S307 - to run the program is the point
            if code.co_flags & _COROUTINE:
                value = await value
        return value


def _put_down(loop: Any, task: Any, error: BaseException) -> None:
    """End the block's own task; where it was waiting becomes part of the error's traceback."""
    task.cancel()
    try:
        loop.run_until_complete(task)
    except BaseException as end:
        if type(end) is not type(error):
            error.__traceback__ = end.__traceback__
    if sys.exc_info()[1] is error:
        error.__context__ = None


def _compile(text: str, name: str) -> list[CodeType]:
    """The statements, then the last expression, each when there is one."""
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
    """What `from __future__ import …` at the top switches on for the expression at the end as well."""
    first = body[0] if body else None
    if type(first) is not _ImportFrom or first.module != "__future__":
        return 0
    import __future__

    flags = 0
    for alias in first.names:
        flags |= getattr(getattr(__future__, alias.name, None), "compiler_flag", 0)
    return flags


def _is_silenced(text: str, last: Any) -> bool:
    """As in a notebook, a semicolon after the last expression keeps its value from being shown."""
    if not text.rstrip().endswith(";") and ";" not in text.rsplit("\n", 1)[-1]:
        return False
    lines = text.split("\n")
    rest = lines[last.end_lineno - 1].encode("utf-8", "replace")[last.end_col_offset :].decode("utf-8", "replace")
    return "\n".join([rest, *lines[last.end_lineno :]]).lstrip(" \t\r\n\f)\\").startswith(";")
