"""Reading data of other libraries: no field is expected to be there, and no text is returned that cannot be stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["clean", "field"]


def field(thing: Any, name: str, default: Any = None) -> Any:
    """A field of an SDK's object or of a dictionary in its shape."""
    if isinstance(thing, Mapping):
        return thing.get(name, default)
    return getattr(thing, name, default)


def clean(text: Any, limit: int | None = None) -> str:
    """Text that can be sent and stored: lone surrogates are written as escapes."""
    whole = text if isinstance(text, str) else "" if text is None else str(text)
    return whole.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")[:limit]
