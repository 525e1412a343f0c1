"""`clicket worker` gets a signal in the middle of a mix of calls, SIGTERM or SIGKILL: the judge finds no violation."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.crash.child import acknowledge
from tests.crash.judge import Ack, Effect
from tests.crash.settle import Place, settle
from tests.crash.tools import RULES, TOOLS, arguments
from tests.kit.children import environment
from tests.kit.forks import FORKED
from tests.kit.waiting import PATIENCE, eventually

from clicket import Runtime

NAMES = sorted(RULES.keys() - {"approved", "pay_in_process"})


async def start(place: Place) -> asyncio.subprocess.Process:
    settings = {"STORE": place.store, "DURABILITY": place.durability, "CLOSE_TIMEOUT": "0.05", "CANCEL_GRACE": "0.1"}
    own = {name: value for name, value in environment().items() if not name.startswith("CLICKET_")}
    return await asyncio.create_subprocess_exec(
        sys.executable, *FORKED, "-m", "clicket", "worker", "--quiet", "--tools", "tests.crash.tools:TOOLS",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, cwd=place.folder,
        env={**own, **{f"CLICKET_{name}": value for name, value in settings.items()}},
    )  # fmt: skip


@pytest.mark.parametrize(
    "words", ["SIGTERM", "SIGTERM SIGTERM", pytest.param("SIGTERM SIGKILL", marks=pytest.mark.slow)]
)
async def test_a_worker_that_leaves_at_any_moment_loses_and_repeats_nothing(place: Place, words: str) -> None:
    signals = words.split()
    chance = random.Random(words)
    folder = Path(place.folder)
    worker = await start(place)
    try:
        async with Runtime(TOOLS, settings=place.settings(engine="workers")) as rt:
            for number in range(60):
                name = chance.choice(NAMES)
                id = f"{name}-{number}"
                given: dict[str, Any] = arguments("workers", id, name, place.folder)
                await rt.submit(name, given, id=id)
                acknowledge(folder, Ack(did="submit", id=id))
            await eventually(lambda: len(place.lines("effects", Effect)) >= 10)
            for name in signals:
                if worker.returncode is None:
                    worker.send_signal(signal.Signals[name])
                await asyncio.sleep(chance.uniform(0.0, 0.05))  # waits for nothing: any instant will do
            code = await asyncio.wait_for(worker.wait(), PATIENCE)
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    if signals == ["SIGTERM"]:
        assert code == 0
    found = await settle(place, TOOLS, RULES)
    assert found.findings == [], "\n".join(map(str, found.findings))
    assert found.acked == 60
