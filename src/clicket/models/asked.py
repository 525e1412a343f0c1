"""A request in parts that both vendors need: its limits, and the schema in words for servers that take none."""

from __future__ import annotations

import json
import math
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.model.chat import ChatMessage, ChatRequest, Usage

__all__ = ["SCHEMA_WORDS", "Prices", "checked", "counted", "fits", "spoken", "trust", "with_schema"]

SCHEMA_WORDS = ("schema", "additionalproperties", "anyof", "'required'", "'properties'", "'const'")
"""By which refusals of a schema are known, in small letters."""
_MOST = 1 << 53
"""More tokens than this are no count, and no longer a whole number in JSON."""


def checked(vendor: str, model: str, timeout: float, max_tokens: int | None, tools: str) -> None:
    if not isinstance(model, str) or not model.strip():
        raise UsageError(f"a model of {vendor} needs its name, e.g. model_of('{vendor}:NAME')")
    if not timeout > 0:
        raise UsageError(f"timeout is the seconds that one answer may take, more than 0: {timeout!r}")
    if max_tokens is not None and max_tokens < 1:
        raise UsageError(f"max_tokens must be 1 or more: {max_tokens!r}")
    if tools not in ("auto", "native", "schema"):
        raise UsageError(
            f"tools must be 'auto', 'native' or 'schema', not {tools!r}: how the model is asked for tool calls."
        )


@cache
def trust() -> ssl.SSLContext:
    """Certificates, read once: reading them takes longer than all else that a client needs."""
    import httpx2

    return httpx2.create_ssl_context()


def spoken(schema: Mapping[str, Any]) -> str:
    text = json.dumps(schema, ensure_ascii=False, sort_keys=True)
    return f"Answer with one JSON object that fits this JSON Schema, and with nothing else: {text}"


def with_schema(request: ChatRequest) -> tuple[ChatMessage, ...]:
    """The schema as the last words of the last message, where small models heed it most."""
    messages = request.messages
    if request.schema is None or not messages:
        return messages
    words, last = spoken(request.schema), messages[-1]
    if last.role in ("user", "system"):
        return (*messages[:-1], msgspec.structs.replace(last, content=f"{last.content}\n\n{words}"))
    return (*messages, ChatMessage(role="user", content=words))


def fits(given: int | None, own: int | None) -> int | None:
    """The smaller of two limits that may be missing."""
    return own if given is None else given if own is None else min(given, own)


def counted(value: Any) -> int:
    return min(value, _MOST) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class Prices:
    """Of a million tokens, in any currency; what was read from the vendor's cache costs what other input does unless told."""

    def __init__(self, given: Mapping[str, float] | None) -> None:
        known = ("input", "output", "cached")
        for key, value in (given or {}).items():
            if key not in known:
                raise UsageError(
                    f"prices has no {key!r}.{did_you_mean(str(key), known)} Known: {', '.join(known)}, "
                    "each for a million tokens."
                )
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise UsageError(f"prices: {key} is the price of a million tokens, 0 or more: {value!r}")
        made = dict(given or {})
        self._input, self._output = made.get("input", 0.0), made.get("output", 0.0)
        self._cached = made.get("cached", self._input)

    def priced(self, usage: Usage) -> Usage:
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        cost = (fresh * self._input + cached * self._cached + usage.output_tokens * self._output) / 1_000_000
        return usage if not cost else msgspec.structs.replace(usage, cost=cost)
