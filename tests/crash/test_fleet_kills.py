"""Workers and the bus of a fleet are killed; `make crash` does it hundreds of times."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.fleet_scene import fleet_run
from tests.nats_server import nats_server
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server


@pytest.mark.parametrize("store", ["redis", pytest.param("postgres", marks=pytest.mark.slow)])
async def test_killed_workers_and_buses_lose_and_repeat_nothing(store: str, tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    with nats_server() as bus:
        if store == "redis":
            with redis_server(tmp_path / "redis", "--appendonly", "yes") as server:
                judged = await fleet_run(1, server.url, bus, tmp_path)
        else:
            with postgres_server() as database:
                judged = await fleet_run(1, database.url(), bus, tmp_path)
    assert judged.is_clean, judged
    assert judged.calls == 30
