"""Results served without running the tool: which calls count as equal, for how long, and which results are never served."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import apsw
import msgspec
import pytest
from tests.kit.waiting import eventually
from tests.scenarios.cache_kit import Counted, stepped
from tests.scenarios.kit import assert_sound, make, states

from clicket import NativeTool, Runtime, Settings, State, ToolContext, tool
from clicket.errors import UsageError
from clicket.testing import StepClock


@pytest.fixture
def look() -> Counted:
    return Counted()


# Served ---------------------------------------------------------------------------------------------------------------


async def test_an_equal_call_is_served_without_running_and_journaled_like_any_other(store: str, look: Counted) -> None:
    async with make([look.tool], store) as rt:
        first = await rt.call("look", {"x": [1, "ü"]})
        again = await rt.call("look", {"x": [1, "ü"]}, id="again", thread="other", metadata={"trace": "m"})
        record = await rt.get("again")
        events = [event async for event in (await rt.handle("again")).events()]
    assert len(look.runs) == 1
    assert (first.cached, again.cached) == (False, True)
    assert again.output == first.output == {"x": [1, "ü"], "run": 1}
    assert again.content == first.content
    assert (again.state, again.attempts, again.call_id) == (State.COMPLETED, 0, "again")
    assert again.metadata == {"trace": "m"}
    assert states(record.events) == ["pending", "completed"]
    assert record.cached
    assert record.attempts == []
    assert record.started_at is None
    assert list(record.stages) == list(again.stages) == ["find", "authorize", "validate", "execute", "persist"]
    assert record.stages["execute"].outcome == "cached"
    assert events == record.events
    assert_sound(record)


@pytest.mark.parametrize("output", [None, "", "text", 0, 1.5, [], {"deep": [{"er": None}]}, "\u2028\x00é", 2**53])
async def test_every_kind_of_output_comes_back_as_it_was(store: str, output: Any) -> None:
    runs = []

    @tool(cache=60)
    async def give() -> Any:
        runs.append(1)
        return output

    async with make([give], store) as rt:
        first, again = await rt.call("give"), await rt.call("give")
    assert len(runs) == 1
    assert again.cached
    assert first.output == again.output == output
    assert first.content == again.content


async def test_a_caller_that_changes_a_result_changes_only_its_copy(store: str, look: Counted) -> None:
    async with make([look.tool], store) as rt:
        first = await rt.call("look", {"x": [1]})
        first.output["x"].append("mine")
        again = await rt.call("look", {"x": [1]})
        again.output["x"].append("also mine")
        assert (await rt.call("look", {"x": [1]})).output == {"x": [1], "run": 1}


async def test_every_way_to_call_is_served(store: str, look: Counted) -> None:
    async with make([look.tool], store) as rt:
        await rt.call("look")
        handle = await rt.submit("look")
        assert (await handle.result()).cached
        streamed = [event.state async for event in rt.stream("look")]
        assert streamed[-1] is State.COMPLETED
        assert all(result.cached for result in await rt.call_many([("look", None)] * 3))
    assert len(look.runs) == 1


async def test_blocking_streaming_and_isolated_tools_are_served_too(store: str) -> None:
    runs = []

    @tool(cache=60)
    def blocking() -> str:
        runs.append("blocking")
        return "b"

    @tool(cache=60)
    async def streaming() -> Any:
        runs.append("streaming")
        yield "one "
        yield "two"

    async with make([blocking, streaming], store) as rt:
        for name, output in (("blocking", "b"), ("streaming", "one two")):
            assert (await rt.call(name)).output == output
            again = await rt.call(name)
            assert (again.output, again.cached) == (output, True)
    assert runs == ["blocking", "streaming"]


async def test_a_cached_result_outlives_the_runtime_and_is_shared_by_all_over_the_store(
    sqlite: str, look: Counted
) -> None:
    async with make([look.tool], sqlite) as one:
        await one.call("look", {"x": 1})
        async with make([look.tool], sqlite) as two:
            assert (await two.call("look", {"x": 1})).cached
    async with make([look.tool], sqlite) as later:
        assert (await later.call("look", {"x": 1})).cached
        stats = await later.cache.stats()
    assert len(look.runs) == 1
    assert (stats.items, stats.hits, stats.misses) == (1, 2, 1)


async def test_the_same_id_is_the_same_call_also_when_it_was_served(store: str, look: Counted) -> None:
    async with make([look.tool], store) as rt:
        await rt.call("look", {"x": 1})
        served = await rt.call("look", {"x": 1}, id="a")
        same = await rt.call("look", {"x": 1}, id="a")
        assert msgspec.structs.replace(served, duration=0, stages={}) == msgspec.structs.replace(
            same, duration=0, stages={}
        )
        assert (await rt.cache.stats()).hits == 1


# Equal ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"x": 1, "y": 2}', '{"y": 2, "x": 1}'),
        ('{"x": 1}', '{"x": 1.0}'),
        ('{"x": 1}', '{"x": 1e0}'),
        ('{"x": 100}', '{"x": 1E+2}'),
        ('{"x": 0}', '{"x": -0}'),
        ('{"x": 1.5}', '{"x": 15e-1}'),
        ('{"x": {"a": [1, {"b": 2.0, "c": null}]}}', '{"x": {"a": [1.0, {"c": null, "b": 2}]}}'),
        ('{"x": "é"}', '{"x": "\\u00e9"}'),
        ('{"x": "😀"}', '{"x": "\\ud83d\\ude00"}'),
        ('{"x": "a/b"}', '{"x": "a\\/b"}'),
        ('{"x": 1e300}', '{"x": 10e299}'),
        ('{"x": 18446744073709551616}', '{"x": 18446744073709551616.0}'),
        ("{}", "  { }  "),
    ],
)
async def test_however_it_is_spelled_it_is_the_same_call(store: str, look: Counted, one: str, other: str) -> None:
    async with make([look.tool], store) as rt:
        first, again = await rt.call("look", one), await rt.call("look", other)
    assert first.success, first.error
    assert again.cached
    assert len(look.runs) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": True}, {"x": 1}),
        ({"x": False}, {"x": 0}),
        ({"x": [True]}, {"x": [1.0]}),
        ({"x": 1}, {"x": "1"}),
        ({"x": None}, {"x": "null"}),
        ({"x": None}, {}),
        ({"x": [1, 2]}, {"x": [2, 1]}),
        ({"x": [[], 1]}, {"x": [[1]]}),
        ({"x": 1}, {"y": 1}),
        ({"x": "é"}, {"x": "e\u0301"}),
        ({"x": "a"}, {"x": "A"}),
        ({"x": 2**53}, {"x": 2**53 + 1}),
        ({"x": 0.1}, {"x": 0.1 + 2**-55}),
        ({"x": ""}, {"x": " "}),
        ({"x": {"a": {}}}, {"x": {"a": []}}),
    ],
)
async def test_what_differs_is_another_call(store: str, look: Counted, one: Any, other: Any) -> None:
    async with make([look.tool], store) as rt:
        first, second = await rt.call("look", one), await rt.call("look", other)
    assert not first.cached
    assert not second.cached
    assert len(look.runs) == 2


async def test_another_version_or_another_tool_never_gets_the_old_result(sqlite: str) -> None:
    old, new, other = Counted(version="1"), Counted(version="2"), Counted(name="other")
    async with make([old.tool], sqlite) as rt:
        await rt.call("look", {"x": 1})
    async with make([new.tool, other.tool], sqlite) as rt:
        assert not (await rt.call("look", {"x": 1})).cached
        assert not (await rt.call("other", {"x": 1})).cached
        assert (await rt.call("look", {"x": 1})).cached
    async with make([old.tool], sqlite) as rt:  # rolled back: its earlier result is still valid
        assert (await rt.call("look", {"x": 1})).output["run"] == 1
    assert (len(old.runs), len(new.runs), len(other.runs)) == (1, 1, 1)


async def test_callers_never_see_each_others_results(store: str, look: Counted) -> None:
    async with make([look.tool], store) as rt:

        async def call_as(caller: str) -> Any:
            return await rt.acting_for(caller).call("look", {"x": 1})

        assert not (await call_as("ada")).cached
        assert not (await call_as("bob")).cached
        assert not (await call_as("")).cached
        assert (await call_as("ada")).output["run"] == 1
        assert (await call_as("bob")).output["run"] == 2
    assert len(look.runs) == 3


@pytest.mark.parametrize("how", ["tool", "runtime", "settings"])
async def test_threads_are_separate_on_request(store: str, how: str) -> None:
    look = Counted(**({"cache_scope": "thread"} if how == "tool" else {}))
    wide = Counted(name="wide", cache_scope="caller")
    settings = Settings(store=store, cache_scope="thread" if how == "settings" else "caller")
    cache = {"scope": "thread"} if how == "runtime" else None
    async with Runtime([look.tool, wide.tool], settings=settings, cache=cache) as rt:
        assert not (await rt.call("look", thread="a")).cached
        assert not (await rt.call("look", thread="b")).cached
        assert (await rt.call("look", thread="a")).output["run"] == 1
        assert not (await rt.call("wide", thread="a")).cached
        assert (await rt.call("wide", thread="b")).cached  # the tool's own declaration counts


async def test_a_time_window_ends_when_the_clock_says_so(store: str) -> None:
    clock = StepClock(start=1_700_000_020.0)  # 20 s before a full minute
    look = Counted(time_window=60)
    async with stepped([look.tool], store, clock) as rt:
        await rt.call("look")
        clock.advance(19)
        assert (await rt.call("look")).cached
        clock.advance(1)
        assert not (await rt.call("look")).cached
        clock.advance(59)
        assert (await rt.call("look")).cached
    assert len(look.runs) == 2


# Never ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"cache": None}, {"cache": False}, {"real_time": True}], ids=repr)
async def test_tools_that_do_not_want_it_always_run(store: str, options: dict[str, Any]) -> None:
    look = Counted(**options)
    async with make([look.tool], store) as rt:
        assert not (await rt.call("look")).cached
        assert not (await rt.call("look")).cached
        assert (await rt.cache.stats()).items == 0
    assert len(look.runs) == 2


async def test_sensitive_results_are_not_kept_a_second_time(store: str) -> None:
    look = Counted(sensitive=["x"])
    async with make([look.tool], store) as rt:
        await rt.call("look")
        assert not (await rt.call("look")).cached
        assert (await rt.cache.stats()).items == 0


class Memo(NativeTool, cache=300, timeout=5):
    """Has a session: its output depends on more than its arguments."""

    input_schema: ClassVar = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.calls_made = 0

    def open(self, thread: str) -> None: ...

    def run(self, arguments: dict[str, Any], ctx: ToolContext) -> int:
        self.calls_made += 1
        return self.calls_made

    def close(self) -> None: ...


async def test_tools_with_a_session_are_never_served(store: str) -> None:
    async with make([Memo], store) as rt:
        assert [(await rt.call("memo")).output for _ in range(3)] == [1, 2, 3]
        assert (await rt.cache.stats()).items == 0


async def test_failures_timeouts_cancels_and_cut_results_are_never_served(store: str) -> None:
    hang = asyncio.Event()
    runs: list[str] = []

    @tool(cache=300, max_retries=0, failure_threshold=10_000, timeout=0.05, max_result_size=1000)
    async def end(how: str) -> str:
        runs.append(how)
        if how == "fail":
            raise ValueError("no")
        if how in ("timeout", "cancel"):
            await hang.wait()
        return "x" * (5000 if how == "big" else 10)

    async with make([end], store) as rt:
        for how in ("fail", "timeout", "big"):
            results = [await rt.call("end", {"how": how}) for _ in range(2)]
            assert not any(result.cached for result in results)
        for _ in range(2):
            handle = await rt.submit("end", {"how": "cancel"}, timeout=30)
            await handle.cancel()
            assert (await handle.result()).state is State.CANCELLED
        refused = [await rt.call("end", {"how": 5}) for _ in range(2)]
        assert [result.error and result.error.code for result in refused] == ["invalid_input"] * 2
        stats = await rt.cache.stats()
    assert [runs.count(how) for how in ("fail", "timeout", "big")] == [2, 2, 2]
    assert (stats.items, stats.bytes, stats.hits) == (0, 0, 0)


async def test_what_may_run_again_after_a_failure_is_cached_when_it_succeeds(store: str) -> None:
    tries: list[int] = []

    @tool(cache=300, max_retries=2, retry_delay=0, retry_on=ValueError)
    async def flaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return len(tries)

    async with make([flaky], store) as rt:
        first, again = await rt.call("flaky"), await rt.call("flaky")
    assert (first.output, first.attempts) == (3, 3)
    assert (again.output, again.attempts, again.cached) == (3, 0, True)


async def test_an_outcome_that_was_fenced_leaves_nothing(sqlite: str) -> None:
    """Another process claimed the call while its body ran: the old owner's result is neither the outcome nor cached."""
    running, go = asyncio.Event(), asyncio.Event()

    @tool(cache=300)
    async def slow() -> str:
        running.set()
        await go.wait()
        return "from the old owner"

    async with make([slow], sqlite) as rt:
        handle = await rt.submit("slow", id="s")
        await running.wait()
        connection = apsw.Connection(sqlite.removeprefix("sqlite:///"))
        connection.set_busy_timeout(5000)
        connection.execute("UPDATE calls SET fence = fence + 1, owner = 0 WHERE id = 's'")
        go.set()
        events = await _events_until(rt, "s", "late_result")
        stats = await rt.cache.stats()
        connection.close()
        del handle
    assert not any(event.is_terminal for event in events)
    assert (stats.items, stats.misses, stats.hits) == (0, 0, 0)


async def _events_until(rt: Runtime, id: str, kind: str) -> Any:
    async def look() -> Any:
        events = (await rt.get(id)).events
        return events if any(event.type == kind for event in events) else None

    return await eventually(look)


# Told wrongly ---------------------------------------------------------------------------------------------------------


async def test_a_runtime_may_do_without(store: str, look: Counted) -> None:
    async with Runtime([look.tool], settings=Settings(store=store), cache=False) as rt:
        assert not (await rt.call("look")).cached
        assert not (await rt.call("look")).cached
        stats = await rt.cache.stats()
    assert (stats.items, stats.hits, stats.misses) == (0, 0, 0)


@pytest.mark.parametrize(
    "cache",
    [
        {"scope": "everybody"},
        {"max_bytes": 0},
        {"max_bytes": "lots"},
        {"ttl": {"look": 0}},
        {"ttl": {"look": float("nan")}},
        {"ttl": {"look": "soon"}},
        {"ttl": 60},
        {"size": 5},
        "on",
        5,
    ],
    ids=repr,
)
@pytest.mark.parametrize("given", [False, True], ids=["plain", "beside settings"])
def test_wrong_options_of_the_cache_are_refused_by_name(
    cache: Any, given: bool, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as raised:
        Runtime([], store="memory://", cache=cache, settings=Settings() if given else None)
    assert "cache" in str(raised.value)


@pytest.mark.parametrize("text", ["look", "look=soon", "look=60;other=5", "look=0"])
def test_a_wrong_ttl_in_the_environment_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="cache_ttl"):
        Settings.load(environ={"CLICKET_CACHE_TTL": text})


@pytest.mark.parametrize(
    "options", [{"cache": 0}, {"cache": -5}, {"cache": "long"}, {"cache_scope": "world"}, {"time_window": 0}], ids=repr
)
def test_wrong_options_of_a_tool_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        Counted(**options)
