"""Another program writes into the store. clicket refuses its rows with an error or shows them as text. No other call is
affected, and no module or command that a row names is imported or run.

A store is one row of `ROWS` in hostile_rows.py: how to put raw bytes in the place of a call's events.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.tools import add
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound, make
from tests.security.hostile_rows import (
    PICKLE,
    ROWS,
    SENSELESS,
    UNREADABLE,
    Rows,
    SqliteRows,
    call_units,
    count,
    created,
)

from clicket import ClicketError, Policy, Record, Runtime, State, tool
from clicket.errors import NotFound, StoreUnavailable, UsageError
from clicket.ports import Keep, Query
from clicket.stores.liveness import this_process


@pytest.fixture(params=sorted(ROWS))
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Rows:
    return ROWS[request.param](tmp_path)


# A store with calls in it --------------------------------------------------------------------------------------------


@tool
async def held(n: int) -> int:
    return n


EFFORT = 10 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1
ENDED, WAITING = [f"ended-{n}" for n in range(4)], [f"waiting-{n}" for n in range(4)]
VICTIMS = ("ended-1", "waiting-1")
OTHERS = [id for id in ENDED + WAITING if id not in VICTIMS]


def opened(url: str) -> Runtime:
    return make([add, held], url, policy=Policy(ask=["held"]))


_filled: dict[type[Rows], bytes] = {}
"""A store of each kind after `fill`: the tests begin with copies of it."""


async def fill(rows: Rows) -> None:
    """Some calls have ended, some wait for an approval, and so for the next runtime."""
    if (image := _filled.get(type(rows))) is not None:
        rows.restore(image)
        return
    async with opened(rows.url) as rt:
        for n, id in enumerate(ENDED):
            assert (await rt.call("add", {"a": n, "b": 1}, id=id)).success
        for n, id in enumerate(WAITING):
            await rt.submit("held", {"n": n}, id=id)
    _filled[type(rows)] = rows.image()


async def answer(question: Any) -> Any:
    """What a caller gets: a value, or an error of clicket with a message. Nothing else may be raised."""
    name = getattr(question, "__qualname__", "")
    try:
        return await asyncio.wait_for(question, PATIENCE)
    except TimeoutError:
        pytest.fail(f"{name} was never answered")
    except ClicketError as error:
        if not error.message or " at 0x" in error.message:
            pytest.fail(f"{name} has no good words: {error.message!r}")
        return error


async def ask_about(rt: Runtime, id: str) -> list[Any]:
    """Every read of one call that ends by itself."""
    answers = [
        await answer(question)
        for question in (
            rt.get(id), rt.state(id), rt.get(id, thread="default"), rt.history(thread="default"), rt.handle(id),
            rt.approve(id), rt.cancel(id), rt.deny(id),
            rt.submit("add", {"a": 1, "b": 1}, id=id),
        )
    ]  # fmt: skip
    state = next((each for each in answers if isinstance(each, State)), None)
    if state is not None and state.is_terminal:
        handle = await answer(rt.handle(id))
        if not isinstance(handle, ClicketError):
            answers.append(await answer(handle.result()))
    return answers


async def others_are_well(rt: Runtime) -> None:
    """The other calls are listed complete, recovered, and can be controlled as before."""
    items = (await rt.history(limit=1_000)).items
    assert all(isinstance(item, Record) for item in items)
    listed = {item.id: item for item in items}
    for id in OTHERS:
        assert_sound(listed[id])
        assert (await rt.get(id)).id == id
    for n, id in enumerate(ENDED):
        if id in OTHERS:
            assert listed[id].output == n + 1
    assert [item.id for item in (await rt.history(state="completed", tool="add")).items if item.id in OTHERS]
    first, second, *_ = [id for id in WAITING if id in OTHERS]
    assert listed[first].waiting_for == "approval"
    assert await rt.approve(first)
    assert (await (await rt.handle(first)).result()).success
    assert await rt.cancel(second)
    assert await rt.state(second) is State.CANCELLED
    await rt.recover()
    assert (await rt.call("add", {"a": 20, "b": 22})).output == 42


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that leaves a trace when imported, and the trace that a command would leave. Neither may exist."""
    trace = tmp_path / "canary"
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "hostile_canary.py").write_text(
        f"import pathlib\npathlib.Path({str(trace)!r}).touch()\nclass Bomb: pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    yield trace
    assert not trace.exists()
    assert "hostile_canary" not in sys.modules


@asynccontextmanager
async def no_new_modules(url: str) -> AsyncIterator[None]:
    """The runs before this have imported everything that clicket imports late."""
    before = set(sys.modules)
    yield
    assert set(sys.modules) - before == set()


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("what", sorted(UNREADABLE | SENSELESS))
async def test_a_foreign_row_affects_no_other_call_and_is_refused_or_shown(rows: Rows, what: str) -> None:
    await fill(rows)
    for id in VICTIMS:
        rows.plant(id, (UNREADABLE | SENSELESS)[what], count((UNREADABLE | SENSELESS)[what]))
    async with opened(rows.url) as rt, no_new_modules(rows.url):
        await others_are_well(rt)
        for id in VICTIMS:
            answers = await ask_about(rt, id)
            assert answers
    async with opened(rows.url) as rt:  # and once more: the first run damaged nothing
        listed = {item.id: item for item in (await rt.history(limit=1_000)).items}
        for id in OTHERS:
            assert_sound(listed[id])
            assert listed[id].state.is_terminal or listed[id].waiting_for == "approval"


@pytest.mark.parametrize("last", [0, 2, 1_000_000, -1])
async def test_a_row_that_disagrees_with_its_events_affects_no_other_call(rows: Rows, last: int) -> None:
    await fill(rows)
    for id in VICTIMS:
        rows.plant(id, created(), last)
    async with asyncio.timeout(PATIENCE), opened(rows.url) as rt:
        await others_are_well(rt)
        for id in VICTIMS:
            await ask_about(rt, id)


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("what", sorted(UNREADABLE))
async def test_a_call_that_cannot_be_read_is_refused_by_its_name(rows: Rows, what: str) -> None:
    """clicket invents no outcome for it and does not write to it: a repair finds the original bytes."""
    await fill(rows)
    for id in VICTIMS:
        rows.plant(id, UNREADABLE[what], count(UNREADABLE[what]))
    async with opened(rows.url) as rt:
        for id in VICTIMS:
            for question in (rt.get(id), rt.state(id), rt.cancel(id), rt.handle(id)):
                with pytest.raises(ClicketError, match=id) as refused:
                    await question
                assert refused.value.code == "store_unavailable"
        for item in (await rt.history(limit=1_000)).items:
            if item.id in VICTIMS:
                assert item.error is not None  # a listing shows the error, if it shows the call
                assert item.error.code == "store_unavailable"
        before = await rt.store.history(Query(limit=1_000))
        await rt.recover()
        after = await rt.store.history(Query(limit=1_000))
        assert [s.events for s in after if s.id in VICTIMS] == [s.events for s in before if s.id in VICTIMS] == [[], []]


@pytest.mark.parametrize("what", ["two ends", "an edge that is in no table"])
async def test_a_stored_state_that_does_not_follow_is_noticed(rows: Rows, what: str) -> None:
    await fill(rows)
    for id in VICTIMS:
        rows.plant(id, SENSELESS[what], count(SENSELESS[what]))
    async with opened(rows.url) as rt:
        for id in VICTIMS:
            with pytest.raises(StoreUnavailable, match="is not in the table"):
                await rt.get(id)
        for item in (await rt.history(limit=1_000)).items:
            if item.id in VICTIMS:
                assert item.error is not None
                assert item.error.code == "store_unavailable"


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize(
    "what", ["class paths as arguments", "class paths as output", "yaml as an argument", "a pickle as text"]
)
async def test_names_of_classes_are_text(rows: Rows, what: str) -> None:
    await fill(rows)
    rows.plant("ended-1", SENSELESS[what], count(SENSELESS[what]))
    async with opened(rows.url) as rt, no_new_modules(rows.url):
        record = await rt.get("ended-1")
        shown = json.dumps([record.arguments, record.output])
        assert any(word in shown for word in ("hostile_canary.Bomb", "os.system", "touch canary"))


# Random rows ---------------------------------------------------------------------------------------------------------


async def many(rows: Rows, planted: list[list[bytes]]) -> None:
    await fill(rows)
    for id, units in zip(VICTIMS, planted, strict=True):
        rows.plant(id, units, count(units))
    async with opened(rows.url) as rt:
        await others_are_well(rt)
        for id in VICTIMS:
            await ask_about(rt, id)


@pytest.mark.parametrize("store", sorted(ROWS))
@settings(max_examples=20 * EFFORT)
@given(planted=st.lists(call_units(), min_size=2, max_size=2))
def test_random_events_affect_no_other_call(store: str, planted: list[list[bytes]], tmp_path_factory: Any) -> None:
    rows = ROWS[store](tmp_path_factory.mktemp("rows"))
    asyncio.run(many(rows, planted))


@pytest.mark.parametrize("store", sorted(ROWS))
@settings(max_examples=10 * EFFORT)
@given(planted=st.lists(st.lists(st.binary(max_size=200), max_size=3), min_size=2, max_size=2))
def test_random_bytes_affect_no_other_call(store: str, planted: list[list[bytes]], tmp_path_factory: Any) -> None:
    rows = ROWS[store](tmp_path_factory.mktemp("rows"))
    asyncio.run(many(rows, planted))


# Arguments with SQL in them--- ---------------------------------------------------------------------------------------

STATEMENTS = [
    "x' OR '1'='1", "' OR 1=1 --", "'; DROP TABLE calls; --", '" OR ""="', "%", "_", "*", "ended-%", "default' --", "\\", "x\0y",
    "1) OR (1=1", "$1", "?1", ":thread", "{}", "ended-1\n", "' UNION SELECT body FROM events --", "𝕏" * 600, "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("text", STATEMENTS, ids=ascii)
async def test_hostile_text_in_a_query_is_only_a_value(rows: Rows, text: str) -> None:
    await fill(rows)
    async with opened(rows.url) as rt:
        for page in (rt.history(thread=text), rt.history(tool=text), rt.history(thread=text, tool=text, active=True)):
            found = await answer(page)
            assert isinstance(found, ClicketError) or found.items == []
        for page in (rt.history(state=text), rt.history(cursor=text)):
            assert isinstance(await answer(page), UsageError)
        for question in (
            rt.get(text),
            rt.get("ended-1", thread=text),
            rt.cancel(text),
            rt.state(text),
            rt.handle(text),
        ):
            assert isinstance(await answer(question), ClicketError)
        assert isinstance(await answer(rt.artifact(text)), NotFound)
        found = await answer(rt.store.history(Query(id_prefix=text)))
        assert isinstance(found, ClicketError) or found == []
        with pytest.raises((TypeError, UsageError)):
            await rt.history(**{text: "x"})  # type: ignore[arg-type]  # on purpose
        assert len((await rt.history()).items) == len(ENDED + WAITING)


@pytest.mark.parametrize("cursor", ["-1", "0", "9" * 19, "9" * 40, "-" + "9" * 40, "1e3", "0x10", " 1 ", "１２"])
async def test_a_made_up_cursor_gives_a_page_or_a_clear_error(rows: Rows, cursor: str) -> None:
    await fill(rows)
    async with opened(rows.url) as rt:
        page = await answer(rt.history(cursor=cursor))
        assert isinstance(page, UsageError) or {item.id for item in page.items} <= {*ENDED, *WAITING}


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "sha256-../../x", "/etc/passwd", "sha256-" + "g" * 64, "", "sha256-"]
)
async def test_an_artifact_has_a_hash_for_a_name_or_is_not_there(rows: Rows, name: str) -> None:
    async with opened(rows.url) as rt:
        with pytest.raises(NotFound):
            await rt.artifact(name)


# Columns of SQLite's tables ------------------------------------------------------------------------------------------

THESE = f"id IN {VICTIMS}"
COLUMNS = {
    "an unknown state": f"UPDATE calls SET state = 'exploded' WHERE {THESE}",
    "an id that is not utf-8": f"UPDATE calls SET id = CAST(x'c328' AS TEXT) || key WHERE {THESE}",
    "a thread that is not utf-8": f"UPDATE calls SET thread = CAST(x'ff00fe' AS TEXT) WHERE {THESE}",
    "a caller that is not utf-8": f"UPDATE calls SET caller = CAST(x'eda080' AS TEXT) WHERE {THESE}",
    "a tool that is sql": f"UPDATE calls SET tool = 'held''; DROP TABLE calls; --' WHERE {THESE}",
    "a tool with a nul": f"UPDATE calls SET tool = 'held' || char(0) WHERE {THESE}",
    "an owner that is not there": f"UPDATE calls SET owner = 987654321 WHERE {THESE}",
    "an owner from below": f"UPDATE calls SET owner = -9223372036854775808 WHERE {THESE}",
    "a fence at the end of numbers": f"UPDATE calls SET fence = 9223372036854775807 WHERE {THESE}",
    "claims at the end of numbers": f"UPDATE calls SET claims = 9223372036854775807 WHERE {THESE}",
    "claims from below": f"UPDATE calls SET claims = -5 WHERE {THESE}",
    "a priority at the end of numbers": f"UPDATE calls SET priority = 9223372036854775807 WHERE {THESE}",
    "a size from below": f"UPDATE calls SET bytes = -9223372036854775808 WHERE {THESE}",
    "a beginning without end": f"UPDATE calls SET created_at = 9e999 WHERE {THESE}",
    "an end before all": f"UPDATE calls SET ended_at = -9e999 WHERE {THESE}",
    "no end for what has ended": f"UPDATE calls SET ended_at = NULL WHERE {THESE}",
    "a wait for nobody": f"UPDATE calls SET waiting_for = 'godot' WHERE {THESE}",
    "a signal": f"UPDATE calls SET signal = 9 WHERE {THESE}",
    "an artifact outside": f"INSERT INTO artifacts (call, name) SELECT key, '../../victim' FROM calls WHERE {THESE}",
}
OWNERS = {
    "a pid beyond pids": "'{host}', '{boot}', 1099511627776, '', 10, 0",
    "a pid beyond numbers": "'{host}', '{boot}', 9223372036854775807, '', 10, 0",
    "everybody's pid": "'{host}', '{boot}', -1, '', 10, 0",
    "our own group": "'{host}', '{boot}', 0, '', 10, 0",
    "a lease without end": "'elsewhere', '', 1, '', 9e999, 0",
    "a lease from below": "'elsewhere', '', 1, '', -9e999, 9e999",
    "renewed in the future": "'elsewhere', '', 1, '', 10, 9e999",
    "a host that is not utf-8": "CAST(x'fffe' AS TEXT), CAST(x'c328' AS TEXT), 1, CAST(x'ff' AS TEXT), 10, 0",
    "a host that is sql": "'x'') OR 1=1 --', '''', 1, '', 10, 0",
}
OWNER = (
    "INSERT INTO owners (id, host, boot, pid, started, lease, renewed) VALUES (77, {}); "
    f"UPDATE calls SET owner = 77 WHERE {THESE} AND ended_at IS NULL"
)


@pytest.mark.parametrize("what", [*COLUMNS, *OWNERS])
async def test_foreign_columns_affect_no_other_call(tmp_path: Path, what: str) -> None:
    (tmp_path / "store").mkdir()
    rows, victim = SqliteRows(tmp_path / "store"), tmp_path / "victim"
    victim.write_text("mine")
    await fill(rows)
    mine = this_process(10.0)
    rows.execute(COLUMNS.get(what) or OWNER.format(OWNERS[what].format(host=mine.host, boot=mine.boot)))
    async with opened(rows.url) as rt:
        await others_are_well(rt)
        for id in VICTIMS:
            await ask_about(rt, id)
        store = rt.store
        await store.sweep(Keep(since=time.time() + 60), 1_000)
        assert await store.owners()
        assert await store.size() > 0
        assert (await rt.call("add", {"a": 1, "b": 1})).output == 2
    assert victim.read_text() == "mine"


@tool(cache=300)
async def remembered(n: int) -> int:
    return n + 1


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("tags", ["", "not json", "[1, 2]", '{"a": 1}', "[]"])
@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b"{", PICKLE, b'{"py/object": "hostile_canary.Bomb"}', b"[" * 100_000]
)
async def test_a_cached_result_of_somebody_else_is_text_or_not_there(tmp_path: Path, body: bytes, tags: str) -> None:
    rows = SqliteRows(tmp_path)
    async with make([remembered], rows.url) as rt:
        assert (await rt.call("remembered", {"n": 1})).output == 2
    rows.execute("UPDATE cache SET body = ?, tags = ?", (body, tags))
    async with make([remembered], rows.url) as rt:
        result = await rt.call("remembered", {"n": 1})
        assert result.output in (2, {"py/object": "hostile_canary.Bomb"})
        assert (await rt.call("remembered", {"n": 2})).output == 3
        await rt.cache.stats()
        await rt.cache.clear(tag="tool:remembered")
        await rt.cache.clear()
        assert (await rt.call("remembered", {"n": 1})).output == 2
