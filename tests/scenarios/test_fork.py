"""A process that is forked while a runtime is open: the child says at once what is wrong, and the parent goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.scenarios.kit import sqlite_url

import clicket.sync
from clicket import Runtime, tool
from clicket.errors import UsageError
from clicket.search import Index

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


ONE_AND_TWO = {"a": 1, "b": 2}


def in_child(act: Callable[[], object]) -> str:
    """What `act` returns or raises in a forked process. One that hangs is ended by an alarm."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            try:
                said = str(act())
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writing, said.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def test_a_child_of_a_blocking_runtime_is_refused_at_once(tmp_path: Path) -> None:
    with clicket.sync.Runtime([add], store=sqlite_url(tmp_path)) as rt:
        handle = rt.submit("add", ONE_AND_TWO)
        for act in (
            lambda: rt.call("add", ONE_AND_TWO),
            lambda: list(rt.stream("add", ONE_AND_TWO)),
            handle.result,
            rt.report,
        ):
            said = in_child(act)
            assert said.startswith(
                f"UsageError: the runtime was opened in process {os.getpid()}, and this process was forked from it"
            )
            assert "get_context('spawn')" in said
        assert in_child(rt.close) == "None"
        assert rt.call("add", ONE_AND_TWO).output == 3


async def test_a_child_of_an_async_runtime_is_refused_at_once(tmp_path: Path) -> None:
    async with Runtime([add], store=sqlite_url(tmp_path)) as rt:

        def step() -> object:
            """The fork was made inside the running loop; the child steps the coroutine by hand."""
            rt.call("add", ONE_AND_TWO).send(None)
            return "went on"

        def again() -> object:
            asyncio.set_event_loop(None)
            with asyncio.Runner() as runner:
                return runner.run(rt.call("add", ONE_AND_TWO))

        def close() -> object:
            return rt.close().send(None)

        assert in_child(step).startswith("UsageError: the runtime was opened in process")
        assert in_child(again).startswith("UsageError: the runtime was opened in process")
        assert in_child(close) == "StopIteration: "
        assert (await rt.call("add", ONE_AND_TWO)).output == 3


def test_a_child_does_not_open_a_sqlite_file_that_its_parent_has_open(tmp_path: Path) -> None:
    def opened(store: str) -> object:
        with clicket.sync.Runtime([add], store=store) as own:
            return own.call("add", ONE_AND_TWO).output

    with clicket.sync.Runtime([add], store=sqlite_url(tmp_path)):
        said = in_child(lambda: opened(sqlite_url(tmp_path)))
        assert "UsageError" in said
        assert "SQLite's locks do not survive a fork" in said
        assert in_child(lambda: opened("memory://")) == "3"
        assert in_child(lambda: opened(f"sqlite:///{tmp_path}/other.db")) == "3"
    assert in_child(lambda: opened(sqlite_url(tmp_path))) == "3"  # closed before the fork
    with Index.open(tmp_path / "index.db"):
        said = in_child(lambda: Index.open(tmp_path / "index.db"))
        assert "SQLite's locks do not survive a fork" in said


def test_the_parent_is_not_refused(tmp_path: Path) -> None:
    with clicket.sync.Runtime([add], store=sqlite_url(tmp_path)) as rt:
        assert in_child(lambda: "nothing") == "nothing"
        assert rt.call("add", ONE_AND_TWO).output == 3
        with pytest.raises(UsageError, match="open already"):
            rt.open()
