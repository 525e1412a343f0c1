"""One case of a scanner of untrusted text, and helpers that make its inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from clicket.errors import ClicketError
from clicket.interpreter.run.task_parser import MarkdownTooComplex
from clicket.search.extract.extracted_text import Unreadable

__all__ = ["MAX", "REFUSED", "Case", "each", "refusing", "repeated", "variants"]

MAX = 64 * 1024 * 1024
REFUSED = (ClicketError, MarkdownTooComplex, Unreadable)


class Case(NamedTuple):
    work: Callable[[Any], object]
    make: Callable[[int], Any]
    size: int = 4_000


def repeated(unit: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda size: before + unit * (size // len(unit)) + after


def refusing(work: Callable[[Any], object]) -> Callable[[Any], object]:
    """The same work without its refusals: a refusal must be fast, too."""

    def run(given: Any) -> None:
        with contextlib.suppress(*REFUSED):
            work(given)

    return run


def each(work: Callable[[Any], object]) -> Callable[[Any], object]:
    def run(given: list[Any]) -> None:
        for one in given:
            with contextlib.suppress(*REFUSED):
                work(one)

    return run


def variants(*units: str, after: str = "") -> Callable[[int], list[str]]:
    return lambda size: [unit * (size // len(unit)) + after for unit in units]
