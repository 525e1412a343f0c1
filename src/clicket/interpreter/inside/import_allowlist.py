"""Restricts imports of installed packages to a list. It is not a security boundary: the sandbox is."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType
    from typing import Any

__all__ = ["install"]

_SHOWN = 20


class _Allowed:
    """The first finder: refuses packages that are installed and not on the list."""

    def __init__(self, names: Iterable[str], own: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._always = sys.stdlib_module_names
        self._own = tuple(_folder(path) for path in own)
        self._library = _folder(os.path.dirname(os.__file__))
        # A folder on the path before the program runs is not the program's own, even below one of its folders.
        self._installed = tuple({_folder(path) for path in sys.path if path} - set(self._own))

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if path is not None or name in self._names or name in self._always:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, None, target)) is not None:
                break
        else:
            return None
        places = spec.submodule_search_locations
        place = spec.origin if spec.origin or not places else next(iter(places), None)
        if place is None or self._is_ours(place):
            return spec
        raise ModuleNotFoundError(self._words(name), name=name)

    def _is_ours(self, place: str) -> bool:
        """Whether it is the standard library or a file of the program."""
        if place in ("built-in", "frozen"):
            return True
        place = os.path.realpath(place)
        if place.startswith(self._own) and not place.startswith(self._installed):
            return True
        installed = "/site-packages/" in place or "/dist-packages/" in place
        return place.startswith(self._library) and not installed

    def _words(self, name: str) -> str:
        known = sorted(n for n in self._names if not n.startswith("_"))
        listed = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
        instead = f"allowed are the standard library and {listed}" if listed else "only the standard library is allowed"
        return f"package {name!r} may not be imported here: {instead}"


def install(names: Iterable[str], home: str) -> None:
    """From now on only these top-level modules, the standard library and the program's own files can be imported."""
    sys.meta_path.insert(0, _Allowed(names, (home, "/tmp")))  # noqa: S108  # scratch is the program's own, too


def _folder(path: str) -> str:
    return os.path.realpath(path).rstrip("/") + "/"
