"""Messages between the processes that share a store. They save time and decide nothing: the store has the truth.

The contract is lossy. A message may be lost, late, doubled or out of order, and a process that cannot reach the bus hears none. Every
reader of messages therefore looks at the store from time to time as well. A message that no process with access to the store wrote is
dropped: each is signed with a secret that lies in the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Bus", "Hear", "NoBus"]

Hear = Callable[[str, int, bytes], None]
"""`hear(kind, key, body)`, on the loop. `body` is JSON, or empty."""


class Bus(Protocol):
    """Kinds: "events" of a call were written; "work" waits for an owner; a "signal" was written into an owned call; a "slot" became
    free; a tool's "health" changed; a worker has "room"; a process asks which workers have it ("rooms")."""

    name: str
    """What carries them: `store`, or the URL of the bus without its password."""
    hear: Hear
    """Set by the engine; called for messages with a body."""

    @property
    def me(self) -> int:
        """The number under which this process gets messages of its own; 0: it gets none."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why no messages arrive now; None: they do."""
        ...

    def post(self, kind: str, key: int, to: int = 0, body: bytes = b"", *, soon: bool = True) -> None:
        """Send a message to one process, or to all others (0). Never waits and never fails. `soon`: False lets it wait a few
        milliseconds for others that go with it."""
        ...


class NoBus:
    """For a store whose processes find changes by looking: a file, or the memory of one process."""

    name = "none"
    me = 0
    trouble: str | None = "this store has no messages"

    def __init__(self) -> None:
        self.hear: Hear = lambda kind, key, body: None

    def post(self, kind: str, key: int, to: int = 0, body: bytes = b"", *, soon: bool = True) -> None:
        """No process hears it."""
