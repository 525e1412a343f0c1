"""What each figure is worth. Learnt over three public sets of questions; a set that is held out loses one to three points.

The order is that of `DIRECT`, `LINKED` and `ASKED` in `measuring`. The first judge a document alone, the final ones with
its links and with the queries that the search came to. Where vectors are at hand they take over a good part.
"""

from __future__ import annotations

import msgspec

__all__ = ["MEANING", "SOFTNESS", "WORDS", "Weights"]

SOFTNESS = 0.25
"""How slowly the strength of a document falls with its score: a weak one may still be the parent of the right one."""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    first: tuple[float, ...]
    final: tuple[float, ...]


WORDS = Weights(
    first=(-0.8, 1.7, 0.6, 3.2, 0.7, -0.4, -1.5, -0.8, 1.8, 0.4, 3.1, 0.2, 0.0),
    final=(
        *(-0.9, 1.1, 0.3, 1.8, 1.4, -0.6, -1.2, -1.0, 1.5, 0.5, 2.4, -1.6, 0.0),
        *(1.6, 2.9, 1.2, 1.0, 1.4, 3.5, -1.1, 0.5),
        *(5.1, 0.0),
    ),
)
MEANING = Weights(
    first=(-0.8, 1.6, 0.3, 2.4, -0.1, 0.2, 1.3, -0.3, 2.4, -0.1, 3.0, 0.2, 5.8),
    final=(
        *(-1.4, 1.3, 0.2, 2.5, 0.7, -0.1, -0.1, -0.5, 2.6, -0.1, 2.7, -1.9, 2.2),
        *(1.2, 3.8, 2.2, 1.3, 1.3, 3.8, -1.9, 0.6),
        *(0.0, 9.2),
    ),
)
