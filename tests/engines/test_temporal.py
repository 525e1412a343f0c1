"""Calls as activities of a real Temporal server. The workers are killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.engines.engine_tools import pay, runs
from tests.engines.programs import kill, program, start_program, temporal_server
from tests.kit.waiting import eventually

from clicket import Runtime

pytestmark = [pytest.mark.engines, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with temporal_server(tmp_path_factory.mktemp("temporal")) as address:
        yield address


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/calls.db"


async def start(server: str, tool: str, arguments: dict[str, Any]) -> Any:
    from temporalio.client import Client

    client = await Client.connect(server)
    return await client.start_workflow("Order", args=[tool, arguments], id=f"order-{uuid4()}", task_queue="tools")


async def cause(run: Any) -> Any:
    from temporalio.client import WorkflowFailureError

    with pytest.raises(WorkflowFailureError) as failed:
        await run.result()
    return failed.value.cause.cause


async def test_an_activity_returns_the_output_and_the_call_is_on_record(
    server: str, store: str, tmp_path: Path
) -> None:
    with program("temporal_worker.py", server, store):
        run = await start(server, "pay", {"path": str(tmp_path / "runs")})
        assert await run.result() == "charged"
        async with Runtime(store=store) as rt:
            page = await rt.history(thread=run.id)
    (record,) = page.items
    assert record.id == f"temporal/default/{run.result_run_id or run.first_execution_run_id}/1"
    assert (record.output, len(runs(tmp_path / "runs"))) == ("charged", 1)


async def test_a_failed_call_is_an_application_error_that_is_not_retried(
    server: str, store: str, tmp_path: Path
) -> None:
    with program("temporal_worker.py", server, store):
        error = await cause(await start(server, "pay", {"wrong": 1}))
        assert (error.type, error.non_retryable) == ("invalid_input", True)
        error = await cause(await start(server, "nothing", {}))
        assert error.type == "tool_not_found"


async def test_a_payment_whose_worker_is_killed_is_charged_once(server: str, store: str, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    worker = start_program("temporal_worker.py", server, store)
    run = await start(server, "pay", {"path": str(path), "seconds": 30})
    await eventually(lambda: runs(path))
    kill(worker)
    with program("temporal_worker.py", server, store):
        error = await cause(run)
    assert (error.type, error.non_retryable) == ("outcome_unknown", True)
    assert len(runs(path)) == 1


async def test_an_idempotent_tool_whose_worker_is_killed_runs_again(server: str, store: str, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    worker = start_program("temporal_worker.py", server, store)
    run = await start(server, "look_up", {"path": str(path)})
    await eventually(lambda: runs(path))
    kill(worker)
    with program("temporal_worker.py", server, store):
        assert await run.result() == 2
    async with Runtime(store=store) as rt:
        (record,) = (await rt.history(thread=run.id)).items
    assert len(record.attempts) == 2


async def test_without_clicket_the_same_kill_charges_twice(server: str, store: str, tmp_path: Path) -> None:
    """Shows what the adapter prevents."""
    path = tmp_path / "runs"
    worker = start_program("temporal_worker.py", server, store, "plain")
    run = await start(server, "pay", {"path": str(path), "seconds": 2})
    await eventually(lambda: runs(path))
    kill(worker)
    with program("temporal_worker.py", server, store, "plain"):
        assert await run.result() == "charged"
    assert len(runs(path)) == 2


async def test_cancelling_the_workflow_cancels_the_call(server: str, store: str, tmp_path: Path) -> None:
    with program("temporal_worker.py", server, store):
        run = await start(server, "pay", {"path": str(tmp_path / "runs"), "seconds": 60})
        await eventually(lambda: runs(tmp_path / "runs"))
        await run.cancel()
        async with Runtime(store=store) as rt:
            while (record := (await rt.history(thread=run.id)).items[0]).state != "cancelled":
                await asyncio.sleep(0.05)
    assert record.cancel_requested


async def test_an_activity_for_one_tool_gives_each_of_its_tries_the_same_call(store: str, tmp_path: Path) -> None:
    from temporalio.exceptions import ApplicationError
    from temporalio.testing import ActivityEnvironment

    from clicket.adapters.temporal import activity_of, call_id

    tries = ActivityEnvironment()
    async with Runtime(tools=[pay], store=store) as rt:
        call = activity_of(rt, "pay")
        outputs = [await tries.run(call, {"path": str(tmp_path / "runs")}) for _ in range(2)]
        record = await rt.get(call_id(tries.info))
        with pytest.raises(ApplicationError) as other:
            await tries.run(call, {"path": str(tmp_path / "other")})
    assert outputs == ["charged", "charged"]
    assert (record.thread, len(runs(tmp_path / "runs"))) == (tries.info.workflow_id, 1)
    assert (other.value.type, other.value.non_retryable) == ("conflict", True)
