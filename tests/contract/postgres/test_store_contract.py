"""The public contract of stores, over a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clicket.ports import Store
from clicket.testing import Check, shared_store_contract, store_contract


@pytest.mark.parametrize("check", store_contract, ids=lambda check: check.__name__)
async def test_store(check: Check, make: Callable[[], Store]) -> None:
    await check(make)


@pytest.mark.parametrize("check", shared_store_contract, ids=lambda check: check.__name__)
async def test_shared_store(check: Check, make: Callable[[], Store]) -> None:
    await check(make)
