"""Which stores a test of crashes runs on in the fast suite, where the store is not its subject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.crash.stores import STORES

__all__ = ["on_each_store", "on_stores"]

on_each_store = pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)


def on_stores(name: str, values: Sequence[Any], elsewhere: Any) -> pytest.MarkDecorator:
    """Every value on SQLite, and one of them, `elsewhere`, on the other stores; the slow form has the rest.

    For tests whose values differ in what the library does, not in what it asks of a store.
    """

    def param(store: str, value: Any) -> Any:
        is_fast = store == "sqlite" or (value == elsewhere and store != "sqlite-power")
        text = "-".join(map(str, value)) if isinstance(value, tuple) else str(value)
        return pytest.param(store, value, marks=() if is_fast else pytest.mark.slow, id=f"{store}-{text}")

    params = [param(store, value) for store in STORES for value in values]
    return pytest.mark.parametrize(("served", name), params, indirect=["served"])
