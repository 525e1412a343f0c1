"""Each tool call runs once, also when a response is repeated, and gets one result, also when the runtime fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.kit import RUNS, anthropic_results, refused, runtime
from tests.kit.tools import forever
from tests.kit.waiting import PATIENCE

import clicket.sync
from clicket import Conflict, QueueFull, Runtime, StoreUnavailable, ToolCall, tool
from clicket.adapters import anthropic, openai
from clicket.errors import UsageError


def response(*calls: tuple[Any, str, Any], id: Any = "msg_1") -> dict[str, Any]:
    content = [{"type": "tool_use", "id": use, "name": name, "input": given} for use, name, given in calls]
    return {"id": id, "content": content}


async def test_a_response_run_twice_runs_its_calls_once() -> None:
    async with runtime() as rt:
        asked = response(("u1", "add", {"a": 1}), ("u2", "add", {"a": "bad"}), ("u3", "nope", {}), ("u4", "fail", {}))
        first = await anthropic.run(rt, asked, "t1")
        assert await anthropic.run(rt, asked, "t1") == first
        assert len(RUNS) == 1
        assert len((await rt.history(thread="t1")).items) == 4
        assert await anthropic.run(rt, asked, "t2") == first
        assert len(RUNS) == 2, "another thread, another call"


async def test_after_a_restart_nothing_runs_again(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'calls.db'}"
    asked = response(("u1", "add", {"a": 1}), (None, "add", {"a": 2}))
    async with runtime(store) as rt:
        first = await anthropic.run(rt, asked, "t1")
    assert len(RUNS) == 2
    async with runtime(store) as rt:  # a new runtime has no memory of earlier runs
        assert await anthropic.run(rt, asked, "t1") == first
    assert RUNS == []


async def test_two_at_once_share_the_calls() -> None:
    async with runtime() as rt:
        asked = response(("u1", "add", {"a": 1}))
        both = await asyncio.gather(*(anthropic.run(rt, asked, "t1") for _ in range(2)))
    assert both[0] == both[1]
    assert len(RUNS) == 1


async def test_providers_use_ids_again() -> None:
    """`call_0` of the next response is another call, with the same arguments, too."""
    async with runtime() as rt:
        for id in ("r1", "r2"):
            await anthropic.run(rt, response(("call_0", "add", {"a": 1}), id=id), "t1")
        assert len(RUNS) == 2
        (result,) = await anthropic.run(rt, response(("call_0", "add", {"a": 9}), id="r2"), "t1")
        assert result["content"] == "10", "other arguments with the same ids are no conflict"
        for turn in ("1", "2"):
            await anthropic.run(rt, response(("call_0", "add", {"a": 1}), id="r2"), "t1", response_id=turn)
        assert len(RUNS) == 5, "a program may pass its own turn ids"


async def test_a_response_without_an_id_is_always_new() -> None:
    async with runtime() as rt:
        for id in (None, "", None):
            await anthropic.run(rt, response(("call_0", "add", {"a": 1}), id=id), "t1")
    assert len(RUNS) == 3


async def test_ids_twice_in_one_response() -> None:
    async with runtime() as rt:
        calls = [("u1", {"a": 1}), ("u1", {"a": 1}), ("u1", {"a": 2}), ("", {"a": 3}), ("", {"a": 3})]
        results = await anthropic.run(rt, response(*((id, "add", given) for id, given in calls)), "t1")
    assert [(r["tool_use_id"], r["content"]) for r in results] == [
        ("u1", "2"), ("u1", "2"), ("u1", "3"), ("", "4"), ("", "4"),
    ]  # fmt: skip
    assert sorted(RUNS) == [("add", (1, 1)), ("add", (2, 1)), ("add", (3, 1)), ("add", (3, 1))]


async def test_the_same_call_twice_in_a_response_without_an_id() -> None:
    async with runtime() as rt:
        asked = response(("u1", "add", {"a": 1}), ("u1", "add", {"a": 1}), id=None)
        results = await anthropic.run(rt, asked, "t1")
    assert [(r["tool_use_id"], r["content"]) for r in results] == [("u1", "2"), ("u1", "2")]
    assert len(RUNS) == 1


async def test_only_what_may_be_left_out_is() -> None:
    """A null for a required field is the model's mistake, and the result reports it."""
    async with runtime() as rt:
        (result,) = await anthropic.run(rt, response(("u1", "add", {"a": None, "b": None})), "t1")
    assert "/a: null is not of type" in str(result["content"])
    assert "/b" not in str(result["content"])


class Broken:
    """A caller whose calls raise its own errors."""

    def __init__(self, errors: list[BaseException]) -> None:
        self.errors = errors

    async def call(self, tool: str, arguments: Any = None, **options: Any) -> Any:
        raise self.errors.pop(0)


async def test_messages_use_the_models_names_of_tools() -> None:
    async with runtime() as rt:
        wire = next(p["name"] for p in await anthropic.tool_params(rt, "t1") if p["name"].startswith("files"))
        asked = response(("u1", wire, {}), ("u2", "files.reed", {}), ("u3", wire, {"path": "files.read"}))
        results = await anthropic.run(rt, asked, "t1")
    for result in results[:2]:
        assert result["is_error"]
        assert wire in str(result["content"])
        assert "files.read" not in str(result["content"])
    assert "files.read" in str(results[2]["content"]), "a tool's output is unchanged"


async def test_refusals_of_the_runtime_are_results() -> None:
    errors: list[BaseException] = [QueueFull("full"), StoreUnavailable("gone"), Conflict("taken"), OSError("\ud800")]
    asked = response(*((f"u{n}", "add", {"a": n}) for n in range(4)))
    door: Any = Broken(errors)
    results = await anthropic.run(door, asked, "t1", max_concurrency=1)
    anthropic_results().validate_python(results)
    assert [r["tool_use_id"] for r in results] == ["u0", "u1", "u2", "u3"]
    codes = ["queue_full", "store_unavailable", "conflict", "tool_error"]
    for result, code in zip(results, codes, strict=True):
        assert result["is_error"]
        assert refused(str(result["content"]), code)
        str(result["content"]).encode()


async def test_wrong_use_for_what_the_model_wrote_is_a_result() -> None:
    """A caller that cannot send a non-object reports it as a result; a mistake of the program is raised."""
    door: Any = Broken([UsageError("the body is not valid JSON")])
    (result,) = await anthropic.run(door, response(("u1", "add", "{")), "t1")
    assert result["content"] == "invalid_input: the body is not valid JSON"
    door = Broken([UsageError("not open")])
    with pytest.raises(UsageError, match="not open"):
        await anthropic.run(door, response(("u1", "add", {})), "t1")


async def test_a_runtime_that_cannot_list_its_tools_still_answers() -> None:
    class Gone(Broken):
        async def tools(self) -> Any:
            raise StoreUnavailable("gone")

    door: Any = Gone([])
    (result,) = await anthropic.run(door, response(("u1", "add", {})), "t1")
    assert result["content"] == "store_unavailable: gone"
    without: Any = Broken([])
    with pytest.raises(UsageError, match="cannot list"):
        await anthropic.tool_params(without, "t1")


async def test_a_full_queue_for_real() -> None:
    @tool
    async def one(n: int) -> int:
        return n

    async with runtime(tools=[one], max_concurrency=1, max_queue=1) as rt:
        asked = response(*((f"u{n}", "one", {"n": n}) for n in range(30)))
        results = await anthropic.run(rt, asked, "t1", max_concurrency=30)
    assert [r["tool_use_id"] for r in results] == [f"u{n}" for n in range(30)]
    assert {str(r["content"]).split(":")[0] for r in results if r["is_error"]} <= {"queue_full"}


async def test_at_most_so_many_at_once() -> None:
    running = worst = 0

    @tool
    async def one(n: int) -> int:
        nonlocal running, worst
        running += 1
        worst = max(worst, running)
        await asyncio.sleep(0)
        running -= 1
        return n

    async with runtime(tools=[one], max_concurrency=50) as rt:
        asked = response(*((f"u{n}", "one", {"n": n}) for n in range(100)))
        results = await anthropic.run(rt, asked, "t1", max_concurrency=3)
    assert [r["content"] for r in results] == [str(n) for n in range(100)]
    assert 1 < worst <= 3


async def test_a_cancelled_call_is_answered() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    async with runtime(tools=[wait]) as rt:
        task = asyncio.ensure_future(anthropic.run(rt, response(("u1", "wait", {})), "t1"))
        await asyncio.wait_for(started.wait(), PATIENCE)
        (record,) = (await rt.history(thread="t1")).items
        assert record.request_id == "msg_1"
        assert record.metadata["tool_call_id"] == "u1"
        await rt.cancel(record.id)
        (result,) = await task
    assert result["is_error"]
    assert refused(str(result["content"]), "cancelled")


async def test_timeouts_for_all_calls() -> None:
    async with runtime(tools=[forever]) as rt:
        (result,) = await anthropic.run(rt, response(("u1", "forever", {})), "t1", timeout=0.05)
    assert refused(str(result["content"]), "timeout")


async def test_in_the_name_of_a_caller() -> None:
    async with runtime() as rt:
        await anthropic.run(rt.acting_for("alice"), response(("u1", "add", {"a": 1})), "t1")
        await anthropic.run(rt.acting_for("bob"), response(("u1", "add", {"a": 1})), "t1")
        assert len(RUNS) == 2
        assert len((await rt.acting_for("bob").history()).items) == 1


def test_the_blocking_runtime() -> None:
    @tool
    def add(a: int) -> int:
        return a + 1

    def events() -> Any:
        yield {"type": "message_start", "message": {"id": "msg_7"}}
        yield {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "u", "name": "add"},
        }
        yield {"type": "content_block_delta", "index": 0, "delta": {"partial_json": '{"a": 4}'}}
        yield {"type": "content_block_stop", "index": 0}

    chunk = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "add", "arguments": '{"a": 5}'}}]}
    with clicket.sync.Runtime(tools=[add], store="memory://") as rt:
        assert [param["name"] for param in anthropic.tool_params(rt, "t1")] == ["add"]
        assert openai.tool_params(rt, "t1")[0]["function"]["name"] == "add"
        assert anthropic.run(rt, response(("u1", "add", {"a": 1})), "t1")[0]["content"] == "2"
        assert anthropic.run(rt, events(), "t1")[0]["content"] == "5"
        chunks = iter([{"id": "x", "choices": [{"delta": chunk, "finish_reason": "stop"}]}])
        assert openai.run(rt, chunks, "t1") == [{"role": "tool", "tool_call_id": "c", "content": "6"}]


async def test_the_blocking_runtime_in_a_loop_says_so() -> None:
    rt = clicket.sync.Runtime(store="memory://")
    with pytest.raises(UsageError, match="event loop"):
        anthropic.run(rt, response(), "t1")
    with pytest.raises(UsageError, match="async runtime"):
        anthropic.watch(rt, response(), "t1")  # type: ignore[arg-type]


async def test_the_same_call_by_hand_is_another() -> None:
    """Turn ids are internal: a program's own ids never collide with them."""
    async with Runtime([tool(name="one")(_one)], store="memory://") as rt:
        await rt.call_many([ToolCall("one", id="u1", thread="t1")])
        (result,) = await anthropic.run(rt, response(("u1", "one", {})), "t1")
        assert result["content"] == "1"
        assert len((await rt.history()).items) == 2


def _one() -> int:
    return 1
