"""The result of a call that ended here equals the fold of its events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.lifecycle.ending import result_from
from clicket.kernel import State
from clicket.model import ToolError, result_of


@tool(sensitive=["key"])
async def echo(key: str = "") -> str:
    return "echo"


@pytest.mark.parametrize("output", ["text", None, 7, {"a": [1, 2.5, None]}, "", "ünï"])
async def test_of_a_completed_call(output: Any) -> None:
    low = Lower(echo)
    call = low.running("echo", metadata={"run": 7, "note": "x"})
    call.add_metadata("note", "of the outcome")
    low.finish(call, output)
    assert result_from(call) == result_of(low.store.record(call))
    assert result_from(call).metadata == {"run": 7, "note": "of the outcome"}


async def test_of_a_failed_call() -> None:
    low = Lower(echo)
    call = low.running("echo")
    low.pipeline.fail(call, ToolError(code="x", message="no", type="X"), lambda call, error: None)
    assert result_from(call) == result_of(low.store.record(call))


async def test_of_a_call_that_was_stopped_in_the_queue() -> None:
    low = Lower(echo)
    call = low.pending("echo")
    low.pipeline.end_stopped(call, "queue", lambda call, error: None)
    result = result_from(call)
    assert result == result_of(low.store.record(call))
    assert (result.state, result.attempts) == (State.TIMEOUT, 0)


async def test_of_a_call_that_was_served_from_the_cache() -> None:
    low = Lower(echo)
    call = low.pending("echo")
    low.pipeline.serve(call, {"n": 1}, '{"n":1}', lambda call, error: None)
    assert result_from(call) == result_of(low.store.record(call))
    assert (result_from(call).cached, result_from(call).attempts) == (True, 0)


async def test_a_secret_in_the_request_is_not_in_the_result() -> None:
    low = Lower(echo)
    call = low.running("echo", {"key": "hunter2hunter2"}, metadata={"about": "hunter2hunter2"})
    low.finish(call, "it is hunter2hunter2")
    assert "hunter2" not in msgspec.json.encode(result_from(call)).decode()
    assert result_from(call) == result_of(low.store.record(call))
