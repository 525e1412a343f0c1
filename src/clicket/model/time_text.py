"""Instants as text."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["utc_text"]


def utc_text(instant: float) -> str:
    """Seconds since the epoch as `2026-11-16T02:00:00Z`; fractions of a second are left out."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
