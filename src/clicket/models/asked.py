"""A request in parts that both vendors need: what the system says, and the schema in words for servers that take none."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any

from clicket.errors import ClicketError, UsageError
from clicket.model.chat import ChatRequest

__all__ = ["checked", "counted", "fits", "no_answer", "spoken", "trust", "with_schema"]


def checked(vendor: str, model: str, timeout: float, max_tokens: int | None) -> None:
    if not isinstance(model, str) or not model.strip():
        raise UsageError(f"a model of {vendor} needs its name, e.g. model_of('{vendor}:NAME')")
    if not timeout > 0:
        raise UsageError(f"timeout is the seconds that one answer may take, more than 0: {timeout!r}")
    if max_tokens is not None and max_tokens < 1:
        raise UsageError(f"max_tokens must be 1 or more: {max_tokens!r}")


@cache
def trust() -> ssl.SSLContext:
    """Certificates, read once: reading them takes longer than all else that a client needs."""
    import httpx2

    return httpx2.create_ssl_context()


def spoken(schema: Mapping[str, Any]) -> str:
    text = json.dumps(schema, ensure_ascii=False, sort_keys=True)
    return f"Answer with one JSON object that fits this JSON Schema, and with nothing else: {text}"


def with_schema(request: ChatRequest, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The schema as the last words of the last message, where small models heed it most."""
    if request.schema is None or not messages:
        return messages
    last = messages[-1]
    return [*messages[:-1], {**last, "content": f"{last['content']}\n\n{spoken(request.schema)}"}]


def fits(given: int | None, own: int | None) -> int | None:
    """The smaller of two limits that may be missing."""
    return own if given is None else given if own is None else min(given, own)


def counted(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def no_answer(where: object) -> ClicketError:
    return ClicketError(f"The {where} answered with something else than its protocol says. Is base_url right?")
