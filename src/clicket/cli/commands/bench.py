"""`clicket bench`: measures what a call costs on this machine, in a few seconds. `make bench` compares with other libraries."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from clicket.cli.context import Context
from clicket.cli.formatting import duration
from clicket.cli.progress_bar import ProgressBar
from clicket.cli.terminal import Terminal
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.tools import tool

__all__ = ["bench"]

_CONCURRENCY = 100
_WARM_UP = 50


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One row: seconds per call for sequential calls, and calls per second with 100 concurrent callers."""

    store: str
    durability: str
    calls: int
    p50: float
    p99: float
    per_second: float


@tool
async def nothing(number: int) -> int:
    """Returns its argument, so that only clicket is measured."""
    return number


async def bench(
    context: Context, seconds: Annotated[float, typer.Option(min=0.1, help="Seconds to measure each row.")] = 1.0
) -> None:
    """Measure what a call costs here: in memory, on SQLite, and on SQLite with a sync to disk."""
    terminal = context.terminal
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory(prefix="clicket-bench-") as folder,
        ProgressBar(terminal, "", line_every=None) as bar,
    ):
        rows = [
            ("memory", "memory://", "process"),
            ("sqlite", f"sqlite:///{folder}/process.db", "process"),
            ("sqlite", f"sqlite:///{folder}/power.db", "power"),
        ]
        for name, url, durability in rows:
            bar.show(f"measuring {name}, {durability}", done=len(figures), total=len(rows))
            figures.append(await _measure(name, url, durability, seconds))
    if terminal.json:
        terminal.print_json({"figures": figures, "cores": os.cpu_count()})
    else:
        _print(terminal, figures)


async def _measure(name: str, url: str, durability: str, seconds: float) -> Figure:
    settings = Settings(
        store=url, durability="power" if durability == "power" else "process", max_concurrency=_CONCURRENCY
    )
    async with Runtime([nothing], settings=settings) as runtime:
        for number in range(_WARM_UP):
            await runtime.call("nothing", {"number": number})
        times: list[float] = []
        stop_at = time.perf_counter() + seconds / 2
        while (began := time.perf_counter()) < stop_at or len(times) < 20:
            await runtime.call("nothing", {"number": len(times)})
            times.append(time.perf_counter() - began)
        per_second, concurrent = await _concurrent(runtime, seconds / 2)
    return Figure(
        store=name,
        durability="none" if name == "memory" else durability,
        calls=len(times) + concurrent,
        p50=statistics.median(times),
        p99=sorted(times)[int(len(times) * 0.99)],
        per_second=per_second,
    )


async def _concurrent(runtime: Runtime, seconds: float) -> tuple[float, int]:
    """100 callers, each with one call after the other."""
    began = time.perf_counter()
    done = 0

    async def caller() -> None:
        nonlocal done
        while True:
            await runtime.call("nothing", {"number": done})
            done += 1
            if time.perf_counter() - began > seconds:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(_CONCURRENCY):
            group.create_task(caller())
    return done / (time.perf_counter() - began), done


def _print(terminal: Terminal, figures: list[Figure]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bright_black", pad_edge=False)
    table.add_column("STORE", no_wrap=True)
    table.add_column("SURVIVES", no_wrap=True)
    for column in ("ONE CALL, P50", "P99", f"{_CONCURRENCY} AT ONCE"):
        table.add_column(column, justify="right", no_wrap=True)
    survives = {"none": "nothing", "process": "kill -9", "power": "a power cut"}
    for figure in figures:
        rate = f"{figure.per_second:,.0f} calls/s"
        table.add_row(figure.store, survives[figure.durability], duration(figure.p50), duration(figure.p99), rate)
    terminal.out.print(table)
    terminal.say(
        "a no-op async tool through all six stages; `make bench` in a checkout compares with other libraries.",
        style="bright_black",
    )
