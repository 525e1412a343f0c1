"""A runtime for measuring: the variant's store, and limits that are never reached."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import timing
from clicket import Runtime, Settings

__all__ = ["VARIANTS", "place", "runtime", "settings"]

VARIANTS = ("memory", "process", "power", "redis", "redis-power", "postgres")


def settings(*, max_concurrency: int = 100, max_queue: int = 20_000) -> Settings:
    return Settings(max_concurrency=max_concurrency, max_queue=max_queue)


def place(variant: str, folder: Path, name: str = "calls") -> tuple[str, str]:
    """The URL of the store and the durability. `process` and `power` are SQLite; `run.py` starts the servers."""
    kind, _, mode = variant.partition("-")
    if kind == "memory":
        return "memory://", "process"
    if kind in ("redis", "postgres"):
        apart = {"redis": "prefix", "postgres": "schema"}[kind]
        return f"{timing.server(f'BENCH_{kind.upper()}')}?{apart}={name}", mode or "process"
    return f"sqlite:///{folder / name}.db", kind


def runtime(
    variant: str,
    folder: Path,
    tools: Iterable[Any],
    *,
    name: str = "calls",
    engine: str | None = None,
    **limits: int,
) -> Runtime:
    url, durability = place(variant, folder, name)
    return Runtime(tools=tools, store=url, durability=durability, engine=engine, settings=settings(**limits))
