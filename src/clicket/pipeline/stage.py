"""A stage: a name and a function of a call. It changes the call's working values, or raises; the pipeline records how it went."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from clicket.journal import LiveCall

__all__ = ["Stage"]


class Stage(Protocol):
    @property
    def name(self) -> str: ...

    def __call__(self, call: LiveCall) -> Awaitable[None] | None: ...
