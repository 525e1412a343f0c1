"""Processes and servers of a fleet are killed, paused and cut off; `make crash` does it hundreds of times."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.fleet_scene import FAULTS, Judged, fleet_run
from tests.nats_server import nats_server
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server

SEED = 1


async def run(store: str, folder: Path, *faults: str) -> Judged:
    (folder / "redis").mkdir()
    with nats_server() as bus:
        if store == "redis":
            with redis_server(folder / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
                return await fleet_run(SEED, server.url, server, bus, folder, faults=faults)
        with postgres_server() as database:
            return await fleet_run(SEED, database.url(), database, bus, folder, faults=faults)


async def test_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """Of each part of a fleet: a worker, a submitter, the bus and the store."""
    killed = [fault for fault in FAULTS if fault.endswith(" killed")]
    assert len(killed) == 4
    judged = await run("redis", tmp_path, *killed)
    assert judged.is_clean, judged
    assert judged.calls + judged.refused == 30
    assert judged.calls > 15


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("store", ["redis", "postgres"])
async def test_each_fault_alone(store: str, fault: str, tmp_path: Path) -> None:
    judged = await run(store, tmp_path, fault)
    assert judged.is_clean, judged
    assert judged.calls + judged.refused == 30
