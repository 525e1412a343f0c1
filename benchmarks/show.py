"""Formatting of numbers."""

from __future__ import annotations

__all__ = ["count", "micro", "milli", "per_second", "percent", "seconds", "size"]


def micro(value: float) -> str:
    """Microseconds, or milliseconds when there are many."""
    if value >= 1_000:
        return f"{value / 1_000:.1f} ms"
    return f"{value:.0f} µs" if value >= 10 else f"{value:.2f} µs"


def milli(value: float) -> str:
    return f"{value:.1f} ms"


def seconds(value: float) -> str:
    return f"{value:.2f} s"


def per_second(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:.1f} M/s"
    return f"{value:,.0f}/s"


def percent(value: float) -> str:
    return f"{value * 100:.1f} %"


def size(value: float) -> str:
    if value >= 1024 * 1024:
        return f"{value / 1024 / 1024:.0f} MiB"
    return f"{value / 1024:.1f} KiB" if value >= 1024 else f"{value:.0f} B"


def count(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
