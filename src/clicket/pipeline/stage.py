"""A stage: a name and a function of a call. The function sets the stage's own fields, or raises; the pipeline records the outcome."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from clicket.call import Call

__all__ = ["Stage"]


class Stage(Protocol):
    @property
    def name(self) -> str: ...

    def __call__(self, call: Call) -> Awaitable[None] | None: ...
