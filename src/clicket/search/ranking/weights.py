"""What each figure is worth."""

from __future__ import annotations

__all__ = ["FINAL", "FIRST", "SOFTNESS"]

SOFTNESS = 0.25
FIRST: tuple[float, ...] = (0, 3, 0.5, 3, 1, 0, -1, 0, 1, 0.3, 1, -0.5, 3)
FINAL: tuple[float, ...] = (0, 3, 0.5, 3, 1, 0, -1, 0, 1, 0.3, 1, -0.5, 3, 1.5, 1.5, 1, 1, 2, 2, -0.5, 0.3)
