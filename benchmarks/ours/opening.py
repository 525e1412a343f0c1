"""A runtime for measuring: the store that the variant names, limits that do not stand in the way."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clicket import Runtime, Settings

__all__ = ["VARIANTS", "runtime", "settings"]

VARIANTS = ("memory", "process", "power")


def settings(*, max_concurrency: int = 100, max_queue: int = 20_000) -> Settings:
    return Settings(max_concurrency=max_concurrency, max_queue=max_queue)


def runtime(variant: str, folder: Path, tools: Iterable[Any], **limits: int) -> Runtime:
    if variant == "memory":
        return Runtime(tools=tools, store="memory://", settings=settings(**limits))
    url = f"sqlite:///{folder / 'calls.db'}"
    return Runtime(tools=tools, store=url, durability=variant, settings=settings(**limits))
