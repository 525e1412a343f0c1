"""What each figure is worth. Learnt once over three public sets of questions; held out, each of them does as well.

The order is that of `DIRECT` and `LINKED` in `measuring`. `FIRST` judges a document alone, `FINAL` with its links.
"""

from __future__ import annotations

__all__ = ["FINAL", "FIRST", "SOFTNESS"]

SOFTNESS = 0.25
"""How slowly the strength of a document falls with its score: a weak one may still be the parent of the right one."""

FIRST = (-0.3, 2.2, 0.4, 4.1, 0.8, -0.3, -0.4, -0.6, 1.9, 0.1, 2.7, -0.4, 0.0)
FINAL = (
    *(-1.1, 1.8, 0.4, 3.8, 1.5, -0.6, -1.5, -0.8, 1.9, 0.4, 3.1, -2.1, 0.0),
    *(2.6, 3.8, 1.3, 1.4, 1.4, 4.2, -1.9, 0.4),
)
