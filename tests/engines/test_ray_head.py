"""The head node of a Ray cluster is killed under calls. It comes back as another cluster, which knows nothing of the first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.engine_tools import runs
from tests.engines.programs import kill, program, start_program
from tests.engines.ray_head import RayHead

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]

EXPECTED = {"charge": "outcome_unknown", "fetch": "completed"}


@pytest.fixture
def head(request: pytest.FixtureRequest) -> Iterator[RayHead]:
    made = RayHead(client=request.param == "ray://")
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("head", ["ray://"], indirect=True)
def test_over_rays_client_the_runtime_goes_on_with_the_new_head(head: RayHead, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    with program("ray_caller.py", head.address, store, str(tmp_path), "submit") as running:
        head.kill()
        head.start()
        assert running.stdout is not None
        assert json.loads(running.stdout.readline()) == EXPECTED
        assert running.wait(60) == 0
    assert (len(runs(tmp_path / "charge")), len(runs(tmp_path / "fetch"))) == (1, 2)


@pytest.mark.parametrize("head", ["direct"], indirect=True)
def test_a_process_that_ray_ends_with_the_head_leaves_its_calls_to_recovery(head: RayHead, tmp_path: Path) -> None:
    """Ray's library ends a process with a direct connection when it cannot reach the head node any more."""
    store = f"sqlite:///{tmp_path}/calls.db"
    ended = start_program("ray_caller.py", head.address, store, str(tmp_path), "submit")
    try:
        head.kill()
        assert ended.wait(120) == 1
    finally:
        kill(ended)
    assert len(runs(tmp_path / "charge")) == 1
    head.start()
    with program("ray_caller.py", head.address, store, str(tmp_path), "settle") as settling:
        assert settling.stdout is not None
        assert json.loads(settling.stdout.readline()) == EXPECTED
    assert (len(runs(tmp_path / "charge")), len(runs(tmp_path / "fetch"))) == (1, 2)
