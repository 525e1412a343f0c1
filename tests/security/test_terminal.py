"""Untrusted names and ids, printed or logged, move no cursor, and a line break in them starts no new line."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text
from tests.scenarios.kit import make

from clicket import Policy, Runtime, tool
from clicket.cli import main
from clicket.cli.terminal import Terminal, clean, clean_lines
from clicket.safety.vault.logs import LOGGERS, guard_logs
from clicket.server.access_log import AccessLog
from clicket.telemetry.logs import configure, follow

WILD = "a\x1b[2J\x1b]0;gotcha\x07\x9b31m\u202e[red]\r\nFORGED by a name\u2028FORGED, too\x85FORGED"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
Run = Callable[..., subprocess.CompletedProcess[str]]


def assert_tame(output: str) -> None:
    assert not CONTROLS.search(output), CONTROLS.findall(output)
    for line in output.split("\n"):
        assert not line.startswith("FORGED"), output


@pytest.fixture
def inside(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command in its own folder, without a new process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("CLICKET_STORE", f"sqlite:///{tmp_path}/calls.db")

    def go(*arguments: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, captured.out, captured.err)

    return go


@tool
async def wild() -> str:
    """Speak."""
    raise ValueError(WILD)


@tool
async def pay() -> str:
    """Pay."""
    return "paid"


async def fill(store: str) -> None:
    """Calls of every kind, with hostile names in every untrusted field."""
    async with Runtime([wild, pay], store=store, policy=Policy(ask=["pay"])) as rt:
        for view, mark in ((rt, ""), (rt.acting_for(WILD), "other ")):
            for _ in range(4):
                await view.call("wild", thread=WILD, metadata={WILD: WILD})
            await view.call(WILD, {"x": WILD}, id=f"{mark}missing {WILD}", thread=WILD, request_id=WILD)
            await view.call("wild", WILD, id=f"{mark}refused {WILD}", thread=WILD)
            await view.submit("pay", id=f"twice {WILD}", thread=WILD)
        await rt.submit("pay", id=f"denied {WILD}", thread=WILD)
        await rt.deny(f"denied {WILD}", by=WILD, reason=WILD)
        await rt.hub(WILD).set("pay", "maintenance", WILD, by=WILD)


COMMANDS = (
    ("ps", "--all"),
    ("ps", "--all", "--json"),
    ("show", f"missing {WILD}", "--thread", WILD, "--events"),
    ("show", f"refused {WILD}", "--thread", WILD, "--events"),
    ("show", f"denied {WILD}", "--events"),
    ("tail", f"missing {WILD}", "--thread", WILD),
    ("tail", f"denied {WILD}"),
    ("approve",),
    ("show", f"twice {WILD}"),
    ("approve", f"denied {WILD}"),
    ("deny", f"denied {WILD}"),
    ("cancel", f"denied {WILD}"),
    ("cancel", f"missing {WILD}"),
    ("audit",),
    ("report",),
    ("report", "--tool", WILD),
    ("recover",),
    ("states", WILD),
    ("reset", WILD),
    ("show", WILD),
    ("call", WILD),
    ("tools", WILD),
    ("keys", "revoke", WILD),
)


def test_no_command_prints_a_strangers_controls_or_lines(inside: Run, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    asyncio.run(fill(store))
    outputs = [(command, inside(*command)) for command in COMMANDS]
    for command, done in outputs:
        try:
            assert_tame(done.stdout + done.stderr)
        except AssertionError as error:
            error.add_note(f"{command}")
            raise
    assert sum(command[0] in ("show", "tail", "ps") and done.returncode < 2 for command, done in outputs) >= 6


def test_what_a_command_forgets_to_clean_is_cleaned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    table = Table(WILD)
    table.add_row(WILD, Text(WILD))
    for console in (terminal.out, terminal.err):
        console.print(table)
        console.print(WILD, Text(WILD))
    terminal.say(WILD)
    terminal.complain("usage", WILD)
    output = "".join(capsys.readouterr())
    assert not CONTROLS.search(output)
    assert "[red]" in output  # nor is their markup interpreted


def test_a_name_is_one_line_and_a_text_may_have_several() -> None:
    assert_tame(clean(WILD))
    assert "\n" not in clean("a\r\nb\rc\u2028d\x85e")
    assert clean_lines("a\r\nb\rc\td\x1be") == "a\nb\nc\td⟨U+001B⟩e"


# Logs.


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The server's log as text."""
    text = io.StringIO()
    root, level = logging.getLogger(), logging.getLogger().level
    handler = configure("text", stream=text)
    yield text
    root.removeHandler(handler)
    root.setLevel(level)


async def test_names_of_calls_forge_no_log_line(lines: io.StringIO) -> None:
    rt = make([wild])
    follow(rt)
    async with rt:
        for tool_name in ("wild", WILD):
            await rt.acting_for(WILD).call(tool_name, id=f"{tool_name} {WILD}", thread=WILD)
    assert "[call wild a" in lines.getvalue()
    assert_tame(lines.getvalue())


async def test_a_failure_says_its_reason_and_its_traceback_over_several_lines(lines: io.StringIO) -> None:
    rt = make([wild])
    follow(rt)
    async with rt:
        await rt.call("wild", id="w")
    assert_tame(lines.getvalue())
    new = [line for line in lines.getvalue().splitlines() if not line.startswith("    ")]
    raised, failed = (line[24:] for line in new)
    assert raised == "INFO    clicket.tools wild raised in attempt 1 of call 'w' [call w]"
    assert failed.startswith("WARNING clicket.calls wild failed: tool_error: ValueError: a\\x1b[2J")
    trace = [line for line in lines.getvalue().splitlines() if line.startswith("    ")]
    assert trace[0] == "    Traceback (most recent call last):"
    assert trace[1].startswith('      File "')
    assert trace[1].endswith(", in wild")
    assert trace[2] == "        raise ValueError(WILD)"
    assert trace[3].startswith("    ValueError: a\\x1b[2J")


@pytest.mark.parametrize("handler", ["plain", "own"])
def test_a_traceback_of_ours_begins_no_line_whatever_handler_there_is(handler: str) -> None:
    text, log = io.StringIO(), logging.getLogger("clicket.engine")
    shown = configure("text", stream=text) if handler == "own" else logging.StreamHandler(text)
    guard_logs()
    log.addHandler(shown)
    try:
        raise ValueError(f"x\nFORGED {WILD}")
    except ValueError:
        log.exception("failed")
    finally:
        log.removeHandler(shown)
        logging.getLogger().removeHandler(shown)
    first, *rest = text.getvalue().splitlines()
    assert first.endswith("failed")
    assert rest[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in rest if not line.endswith("failed"))
    assert_tame(text.getvalue())


def test_lines_of_others_and_tracebacks_begin_no_line_of_their_own(lines: io.StringIO) -> None:
    """A tool may log several lines; lines after the first are indented, so none looks like a new record."""
    log = logging.getLogger("a.tool")
    log.warning("first\n2026-01-01 INFO clicket.calls FORGED\x1b[2J")
    try:
        raise ValueError(f"x\nFORGED {WILD}")
    except ValueError:
        log.exception("failed")
    output = lines.getvalue()
    assert "\x1b" not in output
    new = [line for line in output.splitlines() if not line.startswith(" ")]
    assert len(new) == 2
    assert "Traceback" in output


@pytest.mark.parametrize("name", LOGGERS)
def test_our_loggers_escape_names_whatever_handler_there_is(name: str) -> None:
    """Also for programs that configure logging themselves."""
    text, log = io.StringIO(), logging.getLogger(name)
    handler = logging.StreamHandler(text)
    guard_logs()
    log.addHandler(handler)
    try:
        log.warning("tool %s of server %s is left out", WILD, "x")
        log.warning("plain")
    finally:
        log.removeHandler(handler)
    assert_tame(text.getvalue())
    assert text.getvalue().endswith("\nplain\n")
    assert "\\x1b[2J" in text.getvalue()


def test_every_logger_of_ours_is_guarded() -> None:
    source = Path(__file__).parents[2] / "src" / "clicket"
    used = {
        name
        for path in source.rglob("*.py")
        for name in re.findall(r"getLogger\(\s*[\"']([^\"']+)", path.read_text())
        if name.startswith("clicket")
    }
    assert used <= set(LOGGERS)


async def test_the_access_log_shows_ids_escaped() -> None:
    for form in (True, False):
        text = io.StringIO()
        log = AccessLog(text, json=form)
        log.add("GET", "/calls/{id}", 200, 1.0, WILD, WILD)
        log.flush()
        (line,) = text.getvalue().splitlines()
        assert_tame(json.dumps(json.loads(line)) if form else line)
