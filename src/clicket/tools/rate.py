"""How often calls of a tool may start: `"10/s"`, `"100/m"`, `"1000/h"`, and `"100/h burst 20"`."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from clicket.errors import UsageError

__all__ = ["Rate", "parse_rate"]

_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*/\s*([smh])\s*(?:burst\s+([0-9]+)\s*)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_MOST = 1e6
_SHARE = 10
"""Without a burst, a tenth of the number may start at once."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """In any `t` seconds no more than `burst + per_second * t` calls start, in all processes over the store together."""

    text: str
    """As it was written."""
    per_second: float
    burst: int

    def __str__(self) -> str:
        return self.text


def parse_rate(where: str, value: Any) -> Rate | None:
    """Raises `UsageError`; `where` names the tool in its message."""
    if value is None or isinstance(value, Rate):
        return value
    found = _TEXT.fullmatch(value) if isinstance(value, str) else None
    number = float(found[1]) if found is not None else 0.0
    burst = max(int(number) // _SHARE, 1) if found is None or found[3] is None else int(found[3])
    if found is None or not 0 < number <= _MOST or not 1 <= burst <= _MOST:
        raise UsageError(
            f"{where}: rate must be a number of calls in a second, minute or hour, as in '10/s', '100/m' or '1000/h burst 20', "
            f"with numbers above 0 and up to {_MOST:,.0f}; not {value!r}."
        )
    return Rate(text=value.strip(), per_second=number / _SECONDS[found[2]], burst=burst)
