"""What a lost session knew is remembered, within bounds that no program can move."""

from __future__ import annotations

from clicket.interpreter.run import seat as seats
from clicket.interpreter.run.seat import Seat


class Lost:
    """Stands for a session that claims to have known these names."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.alive = True

    async def close(self) -> None:
        self.alive = False


async def test_names_that_a_program_claims_are_not_hoarded() -> None:
    claims = [frozenset(f"name_{run}_{n}" for n in range(1_500)) | {"x" * 10_000} for run in range(5)]
    sessions = iter([Lost(claim) for claim in claims])

    async def start() -> Lost:
        return next(sessions)

    seat = Seat(start)  # type: ignore[arg-type]  # a stand-in
    for _ in claims:
        await seat.take()
        await seat.drop("it crashed", names=["made_last"])
    assert 1_500 < len(seat._lost) <= seats._MOST
    assert max(map(len, seat._lost)) <= seats._LONGEST
    assert seat.misses
    assert seat.missed(["made_last", "something else"]) == ["made_last"]
    assert not seat.misses
