"""Structs that the garbage collector does not track (`gc=False`) hold plain values only.

A circle of references that leads through such a struct is never freed, with everything that hangs on it: an append that was under way
when its loop ended once kept its whole engine."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clicket.engine.journal import Entry
from clicket.model.ports.store import CallIdentity
from clicket.model.unit import Unit

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "clicket"
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if "gc=False" in path.read_text(encoding="utf-8")]
PLAIN = {
    *(str, int, float, bool, bytes, datetime, type(None), None, ..., msgspec.Raw, msgspec.UnsetType),
    Any,  # JSON, in all of these structs
    Unit,  # a `Rows`, `Start` or `End`
}


def untracked() -> list[type[msgspec.Struct]]:
    names = [".".join(("clicket", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in MODULES]
    members = [(name, member) for name in names for member in vars(importlib.import_module(name)).values()]
    return [
        member
        for name, member in members
        if isinstance(member, type) and issubclass(member, msgspec.Struct) and member.__module__ == name
        if not member.__struct_config__.gc
    ]  # fmt: skip


def parts(hint: Any) -> Iterator[Any]:
    """The types that a type is made of."""
    hint = getattr(hint, "__value__", hint)
    origin = typing.get_origin(hint)
    if origin is None:
        yield hint
    elif origin is Callable:
        yield origin
    elif origin is not typing.Literal and origin is not typing.ClassVar:
        for argument in typing.get_args(hint):
            yield from parts(argument)


def led_to(struct: type[msgspec.Struct], seen: set[type]) -> Iterator[str]:
    """Fields that may hold something that leads back to the struct; those of structs in it, too."""
    seen.add(struct)
    for name, hint in typing.get_type_hints(struct).items():
        for part in parts(hint):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                if part not in seen:
                    yield from led_to(part, seen)
            elif part not in PLAIN and not (isinstance(part, type) and issubclass(part, Enum)):
                yield f"{struct.__module__}.{struct.__name__}.{name}: {part}"


def test_a_struct_without_garbage_collection_leads_to_plain_values() -> None:
    structs = untracked()
    assert len(structs) > 40, "they are not found"
    assert [field for struct in structs for field in led_to(struct, set())] == []


class _Held(msgspec.Struct):
    on_done: Callable[[], None]


@pytest.mark.parametrize("kind", [CallIdentity, Callable[[], None], list[_Held], dict[str, Entry | None]])
def test_a_field_that_could_lead_back_is_seen(kind: Any) -> None:
    struct = msgspec.defstruct("Struct", [("field", kind)], gc=False)
    assert len(list(led_to(struct, set()))) == 1
