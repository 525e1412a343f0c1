"""What every test may rely on: seeded random runs, and nothing left behind: no thread, no child process, no task."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal import charmap
from hypothesis.internal.conjecture import providers
from tests.kit import forked_run, forks, unicode_ranges

# Short runs repeat exactly; long runs look further each time and print how to repeat a failure.
_untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # two busy cores make any timing a lie
settings.register_profile("short", _untimed, derandomize=True, max_examples=50, stateful_step_count=30, database=None)
settings.register_profile("long", _untimed, max_examples=1000, stateful_step_count=60, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))
if settings.get_current_profile_name() == "short":
    # Hypothesis also draws from the literals of all modules that are loaded at the moment, and parses them for that. Which ones are
    # depends on the tests that this process happened to run before: a short run would not repeat.
    providers._get_local_constants = lambda: providers._local_constants

# Hypothesis would encode a million characters to learn this: three seconds in each process of a checkout's first run.
charmap.intervals_from_codec = unicode_ranges.encodable(charmap.intervals_from_codec)  # type: ignore[assignment]

# A shell that starts us in the background ignores it, and children inherit that: then no test could interrupt one.
signal.signal(signal.SIGINT, signal.default_int_handler)

_LEAVE = 60.0  # seconds that ended work gets to be gone; only a test that leaks waits for all of it


def _children() -> dict[int, str]:
    """Direct children of this process by pid, with their command; empty where there is no /proc. Zombies count.

    All but those that fork programs for tests, which stay, and those that were adopted.
    """
    adopted = forks.adopted_pids()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (AttributeError, ChildProcessError):  # another system than Linux; no child at all, which is quickly known
        return {}
    found: dict[int, str] = {}
    for listed in Path("/proc/self/task").glob("*/children"):
        try:
            pids = listed.read_text().split()
        except OSError:  # the thread ended while we looked
            continue
        for pid in pids:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            found[int(pid)] = command.strip() or "(zombie)"
    return {pid: command for pid, command in found.items() if pid not in adopted and pid not in forks.server_pids()}


def _threads() -> dict[int, str]:
    """Threads that the library started: they all carry its name."""
    return {t.ident or 0: t.name for t in threading.enumerate() if t.name.startswith("clicket") and t.is_alive()}


def _left_behind(before: tuple[dict[int, str], dict[int, str]]) -> list[str]:
    threads = [f"thread {name}" for ident, name in _threads().items() if ident not in before[0]]
    children = [f"process {pid}: {command}" for pid, command in _children().items() if pid not in before[1]]
    return threads + children


def pytest_addoption(parser: pytest.Parser) -> None:
    forked_run.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    forked_run.install(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first: at the end, the other processes of a run would only wait for it."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests, and all that they import, stay to the end: the garbage collector looks at them neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(
            10_000, 10, 10
        )  # by default it looks for garbage so often that it takes a fourteenth of the time
        gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _no_bytecode() -> Iterator[None]:
    """Modules that a test writes and changes within a second look unchanged to the cache of bytecode: tests leave none.

    Only from here on: the test modules themselves are cached, or each process of each run would rewrite all of them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        patch.setattr(sys, "dont_write_bytecode", True)
        yield


@pytest.fixture(autouse=True, scope="session")
def _certificates_once() -> Iterator[None]:
    """A client of httpx2 loads all certificates of the machine, 50 ms, and tests make hundreds of clients that never leave loopback."""
    import httpx2

    load = httpx2._config.create_ssl_context
    known: dict[tuple[object, ...], ssl.SSLContext] = {}

    def create(*given: Any, **named: Any) -> ssl.SSLContext:
        key = (given, tuple(sorted(named.items())), os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        if key not in known:
            known[key] = load(*given, **named)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        for module in (httpx2._config, httpx2._transports.default, httpx2):
            patch.setattr(module, "create_ssl_context", create)
        yield


@pytest.fixture(autouse=True, scope="session")
def _forks() -> Iterator[None]:
    """Programs that ask for it are forked, not started."""
    with pytest.MonkeyPatch.context() as patch:
        forks.install(patch)
        yield


@pytest.fixture(autouse=True)
def _no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a thread, a child process or (if it is async) a task behind."""
    before = (_threads(), _children())
    runner = None
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        # pytest-asyncio's own: an async fixture of ours would cost twice as much as the check, for each test.
        runner = request.getfixturevalue("_function_scoped_runner")
    yield
    if runner is not None and asyncio.all_tasks(runner.get_loop()) and (tasks := runner.run(_left_tasks())):
        pytest.fail("tasks left behind: " + "; ".join(tasks), pytrace=False)
    give_up_at = time.monotonic() + _LEAVE
    while left := _left_behind(before):
        if time.monotonic() > give_up_at:
            pytest.fail("left behind: " + "; ".join(left), pytrace=False)
        time.sleep(0.01)


async def _left_tasks() -> list[str]:
    for _ in range(5):  # the last steps of tasks that are ending, e.g. of a group that has just been closed
        await asyncio.sleep(0)
    return [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def clean_env(tmp_path: Path) -> dict[str, str]:
    """The environment for a subprocess that stands for a user's: none of clicket's settings, a home of its own."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CLICKET_", "PYTHONPATH"))}
    return env | {"HOME": str(tmp_path), "NO_COLOR": "1"}
