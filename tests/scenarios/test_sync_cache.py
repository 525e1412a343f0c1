"""The blocking API of what runtimes over one store share: cached results, recovery, calls for workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.forks import FORKED
from tests.kit.waiting import PATIENCE

from clicket import Settings, State, tool
from clicket.errors import UsageError
from clicket.runtime import blocking as sync

DIES = """
import os, sys
from clicket import Settings, tool
from clicket.runtime import blocking as sync

@tool(read_only=True)
def look() -> str:
    os._exit(9)

@tool
def pay() -> str:
    os._exit(9)

with sync.Runtime([look, pay], settings=Settings(store=sys.argv[1])) as rt:
    rt.call(sys.argv[2], id=sys.argv[2])
"""


def test_cache_stats_and_clear(store: str) -> None:
    ran = []

    @tool(cache=60, tags=["numbers"])
    def double(number: int) -> int:
        ran.append(number)
        return 2 * number

    runtime = sync.Runtime([double], settings=Settings(store=store))
    with pytest.raises(UsageError, match="`with clicket"):
        runtime.cache.stats()
    with runtime as rt:
        assert [rt.call("double", {"number": 3}).cached for _ in range(3)] == [False, True, True]
        stats = rt.cache.stats()
        assert (stats.items, stats.hits, stats.misses) == (1, 2, 1)
        (item,) = rt.cache.list().items
        assert (item.tool, item.tags, item.access_count) == ("double", ("tool:double", "numbers"), 2)
        assert rt.cache.list(tag="letters").items == []
        assert rt.cache.clear(max_age=60) == 0
        assert rt.cache.clear(tag="letters") == 0
        assert rt.cache.clear(tag="numbers") == 1
        assert not rt.call("double", {"number": 3}).cached
        assert rt.cache.clear() == 1
    assert ran == [3, 3]


def test_cache_and_engine_are_set_as_in_the_async_face(store: str, sqlite: str) -> None:
    @tool(cache=60)
    def double(number: int) -> int:
        return 2 * number

    with sync.Runtime([double], store=store, cache=False) as rt:
        assert [rt.call("double", {"number": 3}).cached for _ in range(2)] == [False, False]
    assert sync.Runtime((), store=store, cache={"scope": "thread"}).settings.cache.scope == "thread"
    with sync.Runtime([double], store=sqlite, engine="workers") as rt:
        handle = rt.submit("double", {"number": 4})
        assert rt.state(handle.id) is State.PENDING
        with sync.Runtime([double], store=sqlite):
            assert handle.result().output == 8


@pytest.mark.parametrize(("name", "field", "state"), [("look", "rerun", "completed"), ("pay", "unknown", "failed")])
def test_recover_reports_its_progress(sqlite: str, name: str, field: str, state: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    command = [sys.executable, *FORKED, "-c", DIES, sqlite, name]
    assert subprocess.run(command, env=environment, check=False, timeout=PATIENCE).returncode == 9

    @tool(read_only=True)
    def look() -> str:
        return "seen"

    @tool
    def pay() -> str:
        return "paid twice"

    reported = []
    with sync.Runtime((), settings=Settings(store=sqlite)) as rt:
        for each in (look, pay):
            rt.add(each)
        report = rt.recover(progress=lambda so_far: reported.append(so_far.total))
        assert getattr(report, field) == report.total == 1
        assert rt.handle(name).result().state == state
        assert rt.recover().total == 0
    assert reported == [1]
