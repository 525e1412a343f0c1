"""Masks the secrets of a call: declared fields, and tokens of well-known shapes. Only the tool sees them; elsewhere is `[secret]`.

The value of a declared field is masked wherever it comes back: in outputs, errors and notes. Not recognised are a value in another
encoding than JSON's, Python's and a URL's, a value in parts, and a value of fewer than four characters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from clicket.errors import InvalidInput
from clicket.model import ToolError
from clicket.model.codec import encode
from clicket.safety.vault.shapes import MASK, MIN_TOKEN, has_marker, open_from, spans
from clicket.safety.vault.values import MIN_VALUE, NO_VALUES, Values

__all__ = [
    "Secrets",
    "any_token",
    "has_token",
    "hide",
    "hide_error",
    "hide_said",
    "hide_text",
    "holds_secret",
    "look",
    "together",
    "with_values",
]

_CUT = 2_000
"""A text of this size may have been cut by its writer, perhaps in the middle of a secret."""

_LINE = 16
MAX_SECRETS = 5_000
"""Values of one call that are searched for. Arguments with more are refused."""
EVERYTHING = "*"
"""Declared in place of names: every argument is secret."""


class Fields(msgspec.Struct, frozen=True):
    """The declared fields: names, at any depth, and paths."""

    names: frozenset[str]
    places: frozenset[tuple[str, ...]]


class Secrets(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """The secrets of one call. `arguments` and `metadata` are the masked copies, for everything but the tool."""

    fields: Fields
    values: Values
    arguments: Any = None
    metadata: Any = None
    masked: bool = False
    """Is something masked in the arguments or the metadata? Then the call cannot be run from the masked copies."""


@lru_cache(maxsize=1_024)
def _fields(sensitive: frozenset[str]) -> Fields:
    places = frozenset(
        tuple(part.replace("~1", "/").replace("~0", "~") for part in each[1:].split("/"))
        for each in sensitive
        if each.startswith("/")
    )
    return Fields(frozenset(each for each in sensitive if not each.startswith("/")), places)


_NOTHING = _fields(frozenset())


def look(
    arguments: Any, metadata: Any, sensitive: frozenset[str] = frozenset(), *, refuse: bool = True
) -> Secrets | None:
    """The secrets of a call; None if it has none, as almost every call.

    More values than can be searched for are refused: `InvalidInput`. Without `refuse` the first of them are searched for.
    """
    if not sensitive and not has_token(arguments) and (not metadata or not has_token(metadata)):
        return None
    if EVERYTHING in sensitive:
        every = (key.replace("~", "~0").replace("/", "~1") for key in arguments) if type(arguments) is dict else ()
        sensitive = frozenset((*(sensitive - {EVERYTHING}), *(f"/{key}" for key in every)))
        fields = _fields.__wrapped__(sensitive)  # the caller's names are not kept
    else:
        fields = _fields(sensitive)
    found: set[str] = set()
    try:
        for given in (arguments, metadata):
            _collect(given, fields, found, (), declared=False)
    except _TooMany:
        if refuse:
            raise InvalidInput(
                f"there are more than {MAX_SECRETS:,} secrets in the arguments",
                "Send them in several calls, or in a file whose name is the argument.",
            ) from None
    if not sensitive and not found:
        return None
    values = Values(tuple(sorted(found, key=lambda value: (-len(value), value))))
    shown = hide(arguments, Secrets(fields=fields, values=values))
    beside = hide(metadata, Secrets(fields=fields, values=values)) if metadata else metadata
    return Secrets(
        fields=fields,
        values=values,
        arguments=shown,
        metadata=beside,
        masked=shown != arguments or beside != metadata,
    )


def together(*each: Secrets | None) -> Secrets | None:
    """The values of several calls, for texts that may have any of them."""
    values = {value for secrets in each if secrets is not None for value in secrets.values.texts}
    if not values:
        return None
    return Secrets(fields=_NOTHING, values=Values(tuple(sorted(values, key=lambda value: (-len(value), value)))))


def with_values(secrets: Secrets | None, values: Iterable[str], arguments: Any, metadata: Any) -> Secrets:
    """The secrets of a call and some values more, which are not among its arguments."""
    more = {spelling for value in values for spelling in _spellings(value)}
    if secrets is None:
        known: tuple[str, ...] = ()
        secrets = Secrets(fields=_NOTHING, values=NO_VALUES, arguments=arguments, metadata=metadata)
    else:
        known = secrets.values.texts
    found = Values(tuple(sorted({*known, *more}, key=lambda value: (-len(value), value))))
    return msgspec.structs.replace(secrets, values=found)


class _TooMany(Exception):
    """More than `MAX_SECRETS` values were found."""


def has_token(value: Any) -> bool:
    """May there be a token in a plain value? False is certain, True is not."""
    kind = type(value)
    if kind is str:
        return len(value) >= MIN_TOKEN and has_marker(value)
    if kind is dict:
        for key, item in value.items():
            kind = type(item)
            if kind is str:
                if len(item) >= MIN_TOKEN and has_marker(item):
                    return True
            elif (kind is dict or kind is list) and item and has_marker(encode(item).decode()):
                return True
            if len(key) >= MIN_TOKEN and has_marker(key):
                return True
        return False
    return kind is list and bool(value) and has_marker(encode(value).decode())


def any_token(values: Iterable[Any]) -> bool:
    """`has_token` of any of these; None holds none."""
    for value in values:
        if type(value) is str:
            if len(value) >= MIN_TOKEN and has_marker(value):
                return True
        elif value is not None and has_token(value):
            return True
    return False


def holds_secret(text: str, secrets: Secrets | None = None) -> bool:
    """Would something in the text be masked? For data that is stored either whole or not at all."""
    if secrets is not None:
        return bool(spans(text, secrets.values))
    return len(text) >= MIN_TOKEN and has_marker(text) and bool(spans(text))


# Finding values.


def _collect(value: Any, fields: Fields, found: set[str], path: tuple[str, ...], *, declared: bool) -> None:
    if type(value) is dict:
        for key, item in value.items():
            here = (*path, key) if fields.places else path
            inner = declared or key in fields.names or (bool(fields.places) and here in fields.places)
            _collect(item, fields, found, here, declared=inner)
            _take(key, found)
    elif type(value) is list:
        for index, item in enumerate(value):
            here = (*path, str(index)) if fields.places else path
            _collect(item, fields, found, here, declared=declared or (bool(fields.places) and here in fields.places))
    elif type(value) is str:
        if declared:
            found.update(_spellings(value))
        _take(value, found)
    elif declared and type(value) in (int, float):
        found.update(text for text in (json.dumps(value),) if len(text) >= MIN_VALUE)
    if len(found) > MAX_SECRETS:
        raise _TooMany


def _take(text: str, found: set[str]) -> None:
    """Add the tokens of a text. A shorter one, such as the password of a URL, is masked only where its shape shows it."""
    if len(text) < MIN_TOKEN or not has_marker(text):
        return
    for start, end in spans(text):
        if end - start >= MIN_VALUE:
            found.add(text[start:end])
            if len(found) > MAX_SECRETS:
                raise _TooMany


def _spellings(value: str) -> Iterator[str]:
    """The forms in which a value may come back: as it is, quoted by JSON, Python or a URL, stripped, or one of its lines."""
    yield from (text for text in _ways(value) if len(text) >= MIN_VALUE)
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for line in map(str.strip, lines) if len(line) >= _LINE)


def _ways(value: str) -> Iterable[str]:
    if value.isalnum() and value.isascii():
        return (value,)
    quoted = (json.dumps(value)[1:-1], encode(value)[1:-1].decode(), repr(value)[1:-1])
    return {value, value.strip(), *quoted, quote(value), quote(value, safe=""), quote_plus(value)}


# Masking.


def hide(value: Any, secrets: Secrets | None = None, path: tuple[str, ...] = ()) -> Any:
    """The value with its secrets masked. A value that nests too deeply to be searched is masked as a whole."""
    fields, values = (_NOTHING, NO_VALUES) if secrets is None else (secrets.fields, secrets.values)
    try:
        return _hide(value, fields, values, path)
    except RecursionError:
        return MASK


def _hide(value: Any, fields: Fields, values: Values, path: tuple[str, ...]) -> Any:
    kind = type(value)
    if kind is str:
        return _hide_text(value, values)
    if kind is dict:
        shown: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        for key, item in value.items():
            here = (*path, key) if fields.places else path
            name = _free(_hide_text(key, values), shown, numbers)
            if item is not None and (key in fields.names or here in fields.places):
                shown[name] = MASK
            else:
                shown[name] = _hide(item, fields, values, here)
        return shown
    if kind is list:
        items = []
        for index, item in enumerate(value):
            here = (*path, str(index)) if fields.places else path
            items.append(MASK if here in fields.places and fields.places else _hide(item, fields, values, here))
        return items
    if values and (kind is int or kind is float) and json.dumps(value) in values:
        return MASK
    return value


def _free(name: str, taken: Mapping[str, Any], numbers: dict[str, int]) -> str:
    """A key that is not taken yet: two masked keys must stay two keys. `numbers` are those that were tried before."""
    if name not in taken:
        return name
    number = numbers.get(name, 2)
    while f"{name} {number}" in taken:
        number += 1
    numbers[name] = number + 1
    return f"{name} {number}"


def hide_said(value: Any, secrets: Secrets | None = None) -> Any:
    """Mask a value of our own making, such as an error's details: its field names are ours, so declared names do not apply."""
    return hide(value, None if secrets is None else msgspec.structs.replace(secrets, fields=_NOTHING))


def hide_text(text: str, secrets: Secrets | None = None) -> str:
    """Mask a message. One that was cut may end with the beginning of a secret, which is masked, too."""
    values = NO_VALUES if secrets is None else secrets.values
    if len(text) >= _CUT:
        cut = open_from(text, values)
        if cut < len(text):
            text = text[:cut] + MASK
    return _hide_text(text, values)


def _hide_text(text: str, values: Values) -> str:
    if not values and (len(text) < MIN_TOKEN or not has_marker(text)):
        return text
    found = spans(text, values)
    if not found:
        return text
    parts: list[str] = []
    at = 0
    for start, end in found:
        parts += (text[at:start], MASK)
        at = end
    return "".join(parts) + text[at:]


def hide_error(error: ToolError, secrets: Secrets | None = None) -> ToolError:
    message, kind = hide_text(error.message, secrets), hide_text(error.type, secrets)
    details = hide_said(error.details, secrets) if error.details else error.details
    if message == error.message and kind == error.type and details == error.details:
        return error
    return msgspec.structs.replace(error, message=message, type=kind, details=details)
