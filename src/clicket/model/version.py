"""Which clicket this is, as its installation says."""

from __future__ import annotations

from functools import cache
from importlib import metadata

__all__ = ["version"]


@cache
def version() -> str:
    """The installed version; a copy of the source that was never installed has none."""
    try:
        return metadata.version("clicket")
    except metadata.PackageNotFoundError:
        return "unknown"
