"""Query parameters and headers of operations: their types and bounds, and the parser of the query."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec

from clicket.errors import did_you_mean
from clicket.server.problems import Refused

__all__ = ["Parameter", "instant", "limit_of", "page_of", "parse_query"]

_MAX_PARAMETERS = 32
_MAX_NAME = 128


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A query parameter or a header. `minimum` and `maximum` are for numbers, lengths, `choices` and `pattern` for text."""

    name: str
    description: str
    kind: Literal["text", "integer", "number", "boolean"] = "text"
    source: Literal["query", "header"] = "query"
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    max_length: int = 512
    min_length: int = 1
    pattern: str = ""
    """`expected` describes it in errors."""
    expected: str = ""
    schema: dict[str, Any] | None = None
    """Replaces the schema in the OpenAPI document."""
    prefix: bool = False
    """The name is a prefix: `metadata.` stands for `metadata.KEY`, with any key."""

    def parse(self, text: str) -> Any:
        """The value; raises `ValueError` with a description of valid ones."""
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise ValueError("true or false")
            return text == "true"
        if self.kind == "text":
            if not self.min_length <= len(text) <= self.max_length or "\x00" in text:
                raise ValueError(f"text of {self.min_length} to {self.max_length} characters without NUL")
            if self.choices and text not in self.choices:
                raise ValueError(f"one of {', '.join(self.choices)}")
            if self.pattern and not re.search(self.pattern, text):
                raise ValueError(self.expected)
            return text
        return self._number(text)

    def _number(self, text: str) -> float:
        kind = "a whole number" if self.kind == "integer" else "a number"
        bounds = (
            f"{kind} from {self.minimum:g} to {self.maximum:g}"
            if self.minimum is not None and self.maximum is not None
            else kind
        )
        if not text or len(text) > 32 or text.strip() != text or "_" in text or not text.isascii():
            raise ValueError(bounds)
        try:
            value = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise ValueError(bounds) from None
        if not (self.minimum is None or value >= self.minimum) or not (self.maximum is None or value <= self.maximum):
            raise ValueError(bounds)
        return value


def instant(name: str, description: str) -> Parameter:
    """A time, in seconds since 1970."""
    return Parameter(name=name, description=description, kind="number", minimum=0, maximum=1e11)


def limit_of(things: str) -> Parameter:
    """How many things a page has."""
    description = f"{things} on a page; 100 if left out."
    return Parameter(name="limit", description=description, kind="integer", minimum=1, maximum=1_000)


def page_of(things: str, *, pattern: str = "^[0-9]{1,18}$", max_length: int = 512) -> tuple[Parameter, Parameter]:
    """Which page of things: its size, and where it begins. `pattern`: of the cursor."""
    return limit_of(things), Parameter(
        name="cursor",
        description="The `cursor` of the page before.",
        pattern=pattern,
        max_length=max_length,
        expected="the cursor of a page",
    )


def parse_query(text: bytes, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The values by name; raises `Refused` for a parameter that is unknown, repeated or out of bounds."""
    if not text:
        return {}
    known = {each.name: each for each in parameters if each.source == "query"}
    open_ended = [known.pop(name) for name in [each.name for each in known.values() if each.prefix]]
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_PARAMETERS, errors="strict")
    except (ValueError, UnicodeError):
        raise Refused(
            "invalid_query", "the query cannot be read. Write it as name=value&name=value, in UTF-8."
        ) from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        parameter = known.get(name) or next((each for each in open_ended if _is_named(each, name)), None)
        if parameter is None:
            names = f" Known: {', '.join(known)}." if known else " This route takes none."
            raise Refused("invalid_query", f"there is no parameter {name!r:.100}.{did_you_mean(name, known)}{names}")
        if name in values:
            raise Refused("invalid_query", f"the parameter {name} was sent twice. Send it once.")
        try:
            values[name] = parameter.parse(value)
        except ValueError as expected:
            raise Refused("invalid_query", f"{name} must be {expected}, not {value[:100]!r}.") from None
    return values


def _is_named(parameter: Parameter, name: str) -> bool:
    return name.startswith(parameter.name) and len(parameter.name) < len(name) <= _MAX_NAME and "\x00" not in name
