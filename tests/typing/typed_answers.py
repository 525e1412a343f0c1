"""Read by mypy and pyright, never run: an answer has the type that was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict, assert_type

import msgspec
import pydantic

from clicket.agents.output import Output, Read


class Invoice(pydantic.BaseModel):
    total: float


@dataclass
class Point:
    x: int


class City(TypedDict):
    name: str


class Size(msgspec.Struct):
    width: int


def outputs(schema: dict[str, Any]) -> None:
    invoice = Output.of(Invoice)
    assert_type(invoice, Output[Invoice])
    assert_type(invoice.typed({"total": 1}), Invoice)
    assert_type(Output.of(Point).typed({"x": 1}), Point)
    assert_type(Output.of(City).typed({"name": "Rome"}), City)
    assert_type(Output.of(Size).typed({"width": 1}), Size)
    assert_type(Output.of(list[int]).typed([1]), list[int])
    assert_type(Output.of(str).typed("a"), str)
    assert_type(Output.of(invoice), Output[Invoice])
    # Special forms have no type that a checker can pass on.
    assert_type(Output.of(Literal["yes", "no"]), Output[Any])
    assert_type(Output.of(int | None), Output[Any])
    assert_type(Output.of(schema), Output[Any])
    assert_type(Output.from_schema(invoice.schema), Output[Any])

    read = invoice.read('{"total": 1}')
    assert_type(read, Read)
    assert_type(read.errors, tuple[str, ...])
    assert_type(invoice.schema, dict[str, Any])
    assert_type(invoice.name, str)
    assert_type(invoice.digest, str)
    invoice.read(b"{}")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
