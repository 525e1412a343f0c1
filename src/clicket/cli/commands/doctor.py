"""`clicket doctor`: checks whether everything works here. Each line names a check, its result, and what to do about it."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import PackageNotFoundError, requires, version

from rich.table import Table
from rich.text import Text

from clicket.cli.context import Context
from clicket.cli.doctor_checks import Check, oauth_check, sandbox_check, store_checks
from clicket.cli.errors import UNREACHABLE, CallFailed
from clicket.cli.formatting import duration, short
from clicket.errors import ClicketError
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.tools import tool

__all__ = ["doctor"]

_FIXED_WAL = (3, 51, 3)
_SLOW_COMMIT = 0.05
_SLOW_LOOP = 0.05
_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


@tool(isolation="process", timeout=20)
def where_am_i() -> int:
    """The process that this runs in."""
    return os.getpid()


@tool
async def echo(text: str) -> str:
    """Returns its argument."""
    return text


async def doctor(context: Context) -> None:
    """Check this machine and this configuration, and advise on what is wrong."""
    terminal = context.terminal
    checks: list[Check] = []
    async for check in _checks(context):
        checks.append(check)
        if not terminal.json:
            mark, style = _MARKS[check.verdict]
            line = Table.grid(padding=(0, 1))
            line.add_column(width=4 if terminal.plain else 1)
            line.add_column(width=18)
            line.add_column(overflow="fold")
            text = Text(check.found)
            if check.advice:
                text.append(f"\n{check.advice}", style=style)
            line.add_row(
                Text(check.verdict if terminal.plain else mark, style=style), Text(check.name, style="bold"), text
            )
            terminal.out.print(line)
    healthy = all(check.verdict != "fail" for check in checks)
    if terminal.json:
        terminal.print_json({"ok": healthy, "checks": checks})
    elif healthy:
        terminal.say(
            "everything works" if all(c.verdict == "ok" for c in checks) else "it works; see the warnings",
            style="green",
        )
    if any(check.unreachable for check in checks):
        raise CallFailed(UNREACHABLE)
    if not healthy:
        raise CallFailed


async def _checks(context: Context) -> AsyncIterator[Check]:
    yield _python()
    yield _clicket()
    yield _sqlite()
    yield _settings(context)
    yield _tools(context)
    async for check in store_checks(context):
        yield check
    if context.settings.oauth:
        yield await _guarded("oauth", lambda: oauth_check(context.settings))
    yield await _guarded("write and read", _probe)
    yield await _guarded("process isolation", _isolation)
    yield await _guarded("code sandbox", sandbox_check)
    yield await _event_loop()
    yield _extras()
    yield _terminal(context)


async def _guarded(name: str, check: Callable[[], Awaitable[Check]]) -> Check:
    """A check that raises has failed; the others go on."""
    try:
        return await check()
    except ClicketError as error:
        return Check(name=name, verdict="fail", found=error.message)
    except Exception as error:
        return Check(name=name, verdict="fail", found=f"{type(error).__name__}: {error}")


def _python() -> Check:
    found = f"{platform.python_version()} ({sys.executable}), {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    if os.name != "posix":
        return Check(name="python", verdict="fail", found=found, advice="clicket runs on Linux and macOS.")
    return Check(name="python", found=found)


def _clicket() -> Check:
    from clicket import __file__, __version__

    return Check(name="clicket", found=f"{__version__} ({os.path.dirname(__file__)})")


def _sqlite() -> Check:
    import apsw

    library = apsw.sqlite_lib_version()
    numbers = tuple(int(part) for part in library.split("."))
    found = f"{library} (apsw {apsw.apsw_version()})"
    if numbers < _FIXED_WAL:
        advice = "This SQLite can corrupt a database in WAL mode. Upgrade: pip install --upgrade 'apsw>=3.51.3'."
        return Check(name="SQLite", verdict="fail", found=found, advice=advice)
    return Check(name="SQLite", found=f"{found}, has the WAL-reset fix")


def _settings(context: Context) -> Check:
    given = context.settings.origins
    sources = sorted(set(given.values()))
    found = f"{len(given)} set, by {', '.join(sources)}" if given else "all defaults"
    return Check(name="settings", found=f"{found}; `clicket config` shows each")


def _tools(context: Context) -> Check:
    try:
        names = [each.name for each in context.tools]
    except ClicketError as error:
        return Check(name="tools", verdict="fail", found=error.message)
    if not names:
        return Check(
            name="tools", found="none configured; name some with --tools, in clicket.toml, or by an entry point"
        )
    return Check(name="tools", found=short(", ".join(names), 120))


async def _probe() -> Check:
    """Writes and reads a call, in a store in the folder for temporary files."""
    with tempfile.TemporaryDirectory(prefix="clicket-doctor-") as folder:
        times: dict[str, float] = {}
        for durability in ("process", "power"):
            settings = Settings(store=f"sqlite:///{folder}/{durability}.db", durability=durability)
            async with Runtime([echo], settings=settings) as runtime:
                await runtime.call("echo", {"text": "first"})
                began = time.perf_counter()
                result = await runtime.call("echo", {"text": "probe"})
                times[durability] = time.perf_counter() - began
                record = await runtime.get(result.call_id)
            if record.output != "probe":
                return Check(name="write and read", verdict="fail", found=f"wrote 'probe', read {record.output!r}")
    found = f"a call in {duration(times['process'])}; {duration(times['power'])} with durability power"
    advice = "The disk is slow to sync; durability power will be, too."
    return Check.warn_if(times["power"] > _SLOW_COMMIT, name="write and read", found=found, advice=advice)


async def _isolation() -> Check:
    name = "process isolation"
    began = time.perf_counter()
    async with Runtime([where_am_i], settings=Settings(store="memory://")) as runtime:
        result = await runtime.call("where_am_i")
        first = time.perf_counter() - began
        began = time.perf_counter()
        await runtime.call("where_am_i")
        warm = time.perf_counter() - began
    if result.error is not None:
        return Check(
            name=name, verdict="fail", found=str(result.error), advice="Tools with isolation='process' will not run."
        )
    if result.output == os.getpid():
        return Check(name=name, verdict="fail", found="the tool ran in this process")
    return Check(name=name, found=f"works: first call {duration(first)}, then {duration(warm)}")


async def _event_loop() -> Check:
    """How late timers fire on an idle loop: no latency can be lower."""
    late = []
    for _ in range(30):
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        late.append(time.perf_counter() - began - 0.005)
    late.sort()
    found = f"timers {duration(max(late[15], 1e-6))} late (median), {duration(max(late[-1], 1e-6))} at worst"
    advice = "The machine is busy; measured times will be long."
    return Check.warn_if(late[-1] > _SLOW_LOOP, name="event loop", found=found, advice=advice)


def _extras() -> Check:
    """The packages of the extras, and which of them are installed."""
    try:
        wanted = requires("clicket") or []
    except PackageNotFoundError:
        return Check(name="optional packages", found="not installed as a package; run from its source")
    names = sorted({re.split(r"[\s<>=!~;\[(]", line, maxsplit=1)[0] for line in wanted if "extra ==" in line})
    if not names:
        return Check(name="optional packages", found="none needed")
    return Check(name="optional packages", found=", ".join(f"{name} {_version(name)}" for name in names))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def _terminal(context: Context) -> Check:
    out = context.terminal.out
    colours = out.color_system or "no colours"
    kind = f"{out.width} × {out.height}, {colours}" if out.is_terminal else "output is not a terminal"
    advice = "Set LANG to a UTF-8 locale to see charts and marks properly."
    limited = context.terminal.plain and out.is_terminal
    return Check.warn_if(limited, name="terminal", found=f"{kind}, {sys.stdout.encoding}", advice=advice)
