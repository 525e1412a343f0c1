"""Account = ledger + open reservations, after any fault, on servers; `tests/unit/engine/spend/test_faults.py` has it for memory
and SQLite."""

from __future__ import annotations

import pytest
from tests.kit.spend_faults import SpendFaults, random_steps
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

from clicket.ports import Store
from clicket.stores.liveness import this_process
from clicket.stores.postgres import PostgresStore
from clicket.stores.redis import RedisStore

SEEDS = [1, 2, 3]


async def _check(store: Store, seed: int) -> None:
    await store.open(this_process(10.0))
    try:
        await SpendFaults(store).run(random_steps(seed, 60))
    finally:
        await store.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_account_has_what_the_ledger_has_in_redis(redis_here: RedisServer, place: str, seed: int) -> None:
    await _check(RedisStore(redis_here.url, prefix=place), seed)


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_account_has_what_the_ledger_has_in_postgres(
    postgres_here: PostgresServer, place: str, seed: int
) -> None:
    await _check(PostgresStore(f"{postgres_here.url()}?schema={place}"), seed)
