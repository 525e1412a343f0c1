"""The model of the store port fulfils the contract of stores, as a store behind a network and as a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest
from tests.simulation.store_model import ModelSession, StoreModel

from clicket.ports import Store
from clicket.testing import Check, shared_store_contract, store_contract


@pytest.fixture(params=[True, False], ids=["notices", "file"])
def make(request: pytest.FixtureRequest) -> Callable[[], Store]:
    model = StoreModel(claims_by_append=request.param)
    return partial(ModelSession, model, clock=time.time, notices=request.param)


@pytest.mark.parametrize("check", [*store_contract, *shared_store_contract], ids=lambda check: check.__name__)
async def test_model(check: Check, make: Callable[[], Store]) -> None:
    await check(make)
