"""Masks text that is sent in pieces, also a secret that is split over several of them.

The end of a piece that may be the beginning of a secret is held back until the next piece, or the end, decides it.
"""

from __future__ import annotations

from clicket.safety.vault.hiding import Secrets
from clicket.safety.vault.shapes import MASK, open_from, spans
from clicket.safety.vault.values import NO_VALUES

__all__ = ["Window"]

_LOOK_BACK = 128
_MAX_HELD = 16 * 1024
"""A possible secret of this size is masked and sent: no token is that long."""


class Window:
    """`push` returns the masked text that is decided so far; `flush` returns the rest."""

    __slots__ = ("_before", "_held", "_values")

    def __init__(self, secrets: Secrets | None = None) -> None:
        self._values = NO_VALUES if secrets is None else secrets.values
        self._before = ""  # the end of what was shown, as it was: shapes begin there, too
        self._held = ""

    def push(self, piece: str) -> str:
        text = self._before + self._held + piece
        cut = max(open_from(text, self._values), len(self._before))
        if len(text) - cut > _MAX_HELD:
            cut = len(text)
        return self._show(text, cut)

    def flush(self) -> str:
        if not self._held:
            return ""
        text = self._before + self._held
        return self._show(text, len(text))

    def _show(self, text: str, cut: int) -> str:
        at = shown = len(self._before)
        parts: list[str] = []
        for start, end in spans(text, self._values):
            if start >= cut:
                break
            if end > cut:  # it reaches into what is held: the next piece shows where it ends
                cut = max(start, shown)
                break
            if end > shown:
                parts += (text[at:start], MASK)
                at = end
        parts.append(text[at:cut])
        self._before, self._held = text[max(cut - _LOOK_BACK, 0) : cut], text[cut:]
        return "".join(parts)
