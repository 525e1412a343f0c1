"""A turn with a dep is killed at every instant at which something happened. Where the dep is made, the turn goes on at once; where it is
not, the turn waits for it; and nothing is paid twice."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from tests.crash.agent_scene import Death
from tests.crash.deps_scene import THREAD, Scene, agent_at, play, runtime_at
from tests.crash.nest import Nest
from tests.crash.settle import Place


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def judged(place: Place, second: str) -> None:
    folder = Path(place.folder)
    paid = defaultdict[str, list[str]](list)
    for _, bill, bank in lines(folder / "effects"):
        paid[bill].append(bank)
    assert {bank for banks in paid.values() for bank in banks} <= {"brought", second}
    assert len(paid["rent"]) <= 1 >= len(paid["phone"]), f"paid twice: {paid}"
    async with runtime_at(Scene(place=place)) as rt:
        (turn,) = (await agent_at(rt).history(THREAD)).turns
    assert (turn.text, turn.stopped) == ("all paid", "finished")
    read = [message.content for message in turn.messages if message.role == "tool"]
    for bill, content in zip(("rent", "gas", "water", "phone", "net"), read, strict=True):
        assert content == f"paid {bill}" or ("outcome_unknown" in content and bill in ("rent", "phone")), content


@pytest.mark.parametrize("has", ["made", "nothing"])
async def test_a_turn_goes_on_with_its_dep_or_waits_for_it(
    nest: Nest, tmp_path: Path, has: Literal["made", "nothing"]
) -> None:
    killed = waited = 0
    second = {"made": "made", "nothing": "late"}[has]
    for number in count(1):
        folder = tmp_path / str(number)
        (folder / "logs").mkdir(parents=True)
        place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))
        first = Scene(place=place, death=Death(at=number, side="any"))
        ending = await nest.raise_child(play, msgspec.to_builtins(first))
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0), ending
            await judged(place, "brought")
            break
        killed += 1
        ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place, has=has)))
        assert (ending.signal, ending.code) == (0, 0), f"after the kill at {number}: {ending}"
        waited += len(lines(Path(place.folder, "waited")))
        await judged(place, second)
    assert killed >= 10, killed
    assert (waited >= killed - 6) if has == "nothing" else waited == 0, (killed, waited)
