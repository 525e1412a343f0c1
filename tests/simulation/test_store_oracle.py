"""Each store answers random operations as the model of the port does; and a store that does not is found, with a short script."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from tests.simulation.store_oracle import Kind, kinds, operations, run, shrunk

from clicket.ports import Append, Done
from clicket.stores.memory import MemoryStore

_SHORT = {"memory": 1_500, "sqlite": 500, "redis": 500, "postgresql": 250}
"""Operations in `make test`: a second or less each. `python -m tests.simulation.store_oracle` runs as many as you like."""


@pytest.fixture(scope="module", params=list(_SHORT))
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    with kinds(request.param) as made:
        yield made[request.param]


async def test_a_store_agrees_with_the_model(kind: Kind) -> None:
    failure = await run(kind, operations(1, _SHORT[kind.name]))
    assert failure is None, str(failure)


@pytest.mark.slow
async def test_a_store_agrees_with_the_model_for_long(kind: Kind) -> None:
    for seed in range(1_000, 1_040):
        failure = await run(kind, operations(seed, 500))
        assert failure is None, f"seed {seed}\n{await shrunk(kind, failure)}"


class _Unfenced(MemoryStore):
    """Accepts a writer that lost its call."""

    def append(self, change: Append, done: Done) -> None:
        known = self._calls.get(change.key)
        if known is not None and change.fence == known.fence - 1:
            change = msgspec.structs.replace(change, fence=known.fence)
        super().append(change, done)


async def test_a_store_that_does_not_agree_is_found_with_a_short_script() -> None:
    broken = Kind("unfenced", lambda place: _Unfenced(), lambda store: 1)
    failure = await run(broken, operations(2, 500))
    assert failure is not None
    short = await shrunk(broken, failure)
    assert len(short.ops) <= 5, str(short)
    assert "the model" in str(short)
