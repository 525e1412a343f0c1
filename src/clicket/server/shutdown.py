"""Whether the server shuts down. Set once; each part that must act on it adds a callback when the server is made."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Shutdown"]


class Shutdown:
    """`begun` is True from the moment at which the server takes no more requests."""

    def __init__(self) -> None:
        self.begun = False
        self._callbacks: list[Callable[[], object]] = []

    def on_begin(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call something when the shutdown begins; what is returned takes it back."""
        self._callbacks.append(callback)

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return remove

    def begin(self) -> None:
        if not self.begun:
            self.begun = True
            for callback in tuple(self._callbacks):
                callback()
