"""The file and line of a declaration, for error messages."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import Any

__all__ = ["file_and_line", "is_users", "place_of", "placed"]

_FOREIGN = tuple(
    {str(Path(__file__).parents[1]), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), "<frozen "}
)


def place_of(declared: Any) -> str:
    """`shop.py:12` for a function, a method, or a class or object with a method `run`; empty if it has no source of its own."""
    body = declared
    while True:
        code = getattr(body, "__code__", None)
        if code is not None:
            return file_and_line(code.co_filename, code.co_firstlineno) if is_users(code.co_filename) else ""
        inner = next(
            (
                each
                for name in ("fn", "__func__", "func", "__wrapped__", "run", "run_sync")
                if (each := getattr(body, name, None))
            ),
            None,
        )
        if inner is None or inner is body:
            return ""
        body = inner


def placed(what: str, declared: Any) -> str:
    """`tool 'price' (shop.py:12)`."""
    place = place_of(declared)
    return f"{what} ({place})" if place else what


def is_users(file: str) -> bool:
    """Is it a file of the user's own: not of clicket, the standard library or an installed package?"""
    return not file.startswith(_FOREIGN)


def file_and_line(file: str, line: int) -> str:
    """A file below the working directory is named from there."""
    here = os.path.join(os.getcwd(), "")
    return f"{file.removeprefix(here)}:{line}"
