"""Callbacks after a module was imported, without importing it: modules that the program does not use cost nothing."""

from __future__ import annotations

import sys

from clicket.interpreter.inside.safe_builtins import BUILTINS

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ImportHooks"]

globals()["__builtins__"] = BUILTINS


class ImportHooks:
    """A finder that finds nothing itself: for the awaited names it wraps the loader that another finder returns."""

    def __init__(self) -> None:
        self._awaited: dict[str, Callable[[Any], None]] = {}
        sys.meta_path.insert(0, self)

    def after(self, name: str, call: Callable[[Any], None]) -> None:
        if name in sys.modules:
            call(sys.modules[name])
        else:
            self._awaited[name] = call

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        call = self._awaited.get(name)
        if call is None:
            return None
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                self._listen(name, spec, call)
                return spec
        return None

    def _listen(self, name: str, spec: Any, call: Callable[[Any], None]) -> None:
        loader = spec.loader
        load = loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            self._awaited.pop(name, None)
            call(module)

        try:  # noqa: SIM105 - contextlib is not loaded for this
            loader.exec_module = exec_module
        except AttributeError:  # this loader cannot be changed: no callback
            pass
