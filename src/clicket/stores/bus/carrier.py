"""What moves messages between processes: a bus, or a channel of the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

__all__ = ["Carrier", "OnText"]

OnText = Callable[[int, bytes], None]
"""`on_text(to, text)`: a message arrived for this process (`to` is its number), or for all (0)."""


class Carrier(Protocol):
    """Lossy: it may drop, double, delay and reorder messages. It connects, and connects again, by itself."""

    name: str
    max_size: int
    """Bytes of the longest message that it takes."""

    @property
    def trouble(self) -> str | None:
        """Why it carries nothing now; None: it does."""
        ...

    def start(self, space: str, me: int, on_text: OnText) -> None:
        """Begin to connect and to listen, for the processes of one store (`space`)."""
        ...

    async def send(self, messages: Sequence[tuple[int, bytes]]) -> None:
        """Send messages to processes by number, or to all (0). What cannot be sent is dropped."""
        ...

    async def close(self) -> None: ...
