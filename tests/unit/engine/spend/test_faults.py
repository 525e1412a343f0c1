"""Account = ledger + open reservations, after any fault."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples
from tests.kit.spend_faults import ACTIONS, FAULTS, SpendFaults, Step

from clicket.stores.liveness import this_process
from clicket.stores.memory import MemoryStore
from clicket.stores.sqlite import SqliteStore

STEPS = st.lists(
    st.builds(Step, st.sampled_from(ACTIONS), st.integers(0, 1), st.integers(0, 7), st.sampled_from(FAULTS)),
    max_size=40,
)


@settings(max_examples=examples(60), deadline=None)
@given(STEPS)
def test_an_account_has_what_the_ledger_has_in_memory(steps: list[Step]) -> None:
    async def check() -> None:
        store = MemoryStore()
        await store.open(this_process(10.0))
        await SpendFaults(store).run(steps)

    asyncio.run(check())


@settings(max_examples=examples(8), deadline=None)
@given(STEPS)
def test_an_account_has_what_the_ledger_has_in_sqlite(steps: list[Step]) -> None:
    async def check(folder: str) -> None:
        store = SqliteStore(Path(folder, "calls.db"))
        await store.open(this_process(10.0))
        try:
            await SpendFaults(store).run(steps)
        finally:
            await store.close()

    with TemporaryDirectory() as folder:
        asyncio.run(check(folder))
