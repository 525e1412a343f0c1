"""The names of a lost session are remembered, within limits that no program can change."""

from __future__ import annotations

from clicket.interpreter.run import session_slot
from clicket.interpreter.run.session_slot import SessionSlot


class Lost:
    """A fake session that claims to have had these names."""

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

    slot = SessionSlot(start)  # type: ignore[arg-type]  # a stand-in
    for _ in claims:
        await slot.take()
        await slot.drop("it crashed", names=["made_last"])
    assert slot.misses
    missed = slot.missed(["made_last", "something else", *(name for claim in claims for name in claim)])
    assert "made_last" in missed
    assert "something else" not in missed
    assert 1_500 < len(missed) <= session_slot._MAX_NAMES
    assert max(map(len, missed)) <= session_slot._MAX_LENGTH
    assert not slot.misses, "they are reported once"
