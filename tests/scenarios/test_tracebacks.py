"""When a tool raises, the developer sees the traceback; the model and other keys never do."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import eventually
from tests.scenarios import process_tools
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import Api, key_for, served

import clicket
from clicket import RetryableError, State, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.cli.terminal import Terminal
from clicket.cli.worker_log import WorkerLog
from clicket.engine.executors import traceback_of
from clicket.testing import ScriptedModel

TOKEN = "sk-ant-api03-" + "A1b2C3d4" * 6


def helper(key: str) -> None:
    raise KeyError(key)


@tool(max_retries=0)
async def lookup(name: str) -> None:
    helper(name)


@tool(max_retries=0)
def threaded(name: str) -> None:
    helper(name)


@tool(max_retries=1, retry_delay=0)
async def unsteady() -> None:
    raise RetryableError("not yet")


@tool(max_retries=0, sensitive=["password"])
async def login(password: str) -> None:
    raise ValueError(f"no user with {password} or {TOKEN}")


TOOLS = [lookup, threaded, unsteady, login]


async def test_a_record_has_the_traceback_of_each_attempt(store: str) -> None:
    async with make(TOOLS, store) as rt:
        for name in ("lookup", "threaded"):
            result = await rt.call(name, {"name": "id"})
            assert str(result.error) == "tool_error: KeyError: 'id'"
            (attempt,) = (await rt.get(result.call_id)).attempts
            first, *_, last = attempt.traceback.strip().splitlines()
            assert (first, last) == ("Traceback (most recent call last):", "KeyError: 'id'")
            assert "helper(name)" in attempt.traceback  # the user's line
            assert "raise KeyError(key)" in attempt.traceback
            assert "src/clicket/" not in attempt.traceback  # no line of clicket
        result = await rt.call("unsteady")
        record = await rt.get(result.call_id)
        assert ["RetryableError: not yet" in attempt.traceback for attempt in record.attempts] == [True, True]


async def test_a_call_that_is_refused_or_completes_has_none(store: str) -> None:
    async with make([*TOOLS, tool(name="fine")(lambda: 1)], store) as rt:
        refused = await rt.get((await rt.call("lookup", {"wrong": 1})).call_id)
        assert not refused.attempts
        (attempt,) = (await rt.get((await rt.call("fine")).call_id)).attempts
        assert attempt.traceback == ""


async def test_a_child_process_sends_its_traceback(tmp_path: Path) -> None:
    async with make([process_tools.misbehave], sqlite_url(tmp_path)) as rt:
        result = await rt.call("misbehave", {"how": "sys.exit"})
        assert result.state is State.FAILED
        text = (await rt.get(result.call_id)).attempts[0].traceback
        assert "process_tools.py" in text
        assert "src/clicket/" not in text


async def test_secrets_are_masked_and_size_is_bounded(store: str) -> None:
    @tool(max_retries=0)
    async def deep() -> None:
        def down(n: int) -> None:
            if n == 0:
                raise ValueError("x" * 100_000)
            down(n - 1)

        down(500)

    async with make([*TOOLS, deep], store) as rt:
        record = await rt.get((await rt.call("login", {"password": "swordfish-77"})).call_id)
        whole = msgspec.json.encode(record).decode()
        assert "swordfish-77" not in whole
        assert TOKEN not in whole
        assert "ValueError: no user with [secret]" in record.attempts[0].traceback
        text = (await rt.get((await rt.call("deep")).call_id)).attempts[0].traceback
        assert len(text) < 10_000
        assert text.count("down(n - 1)") < 40
        assert "raise ValueError" in text


async def test_the_model_reads_the_type_and_no_traceback() -> None:
    model = ScriptedModel([[("lookup", {"name": "id"})], "sorry"])
    async with make(TOOLS) as rt:
        result = await ReActAgent(rt, model).run("go", thread="t")
    (answer,) = [message.content for message in result.messages if message.role == "tool"]
    assert answer == "tool_error: KeyError: 'id'"
    assert "Traceback" not in msgspec.json.encode(result.messages).decode()


async def test_the_runtime_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "clicket")
    async with make(TOOLS) as rt:
        await rt.call("login", {"password": "swordfish-77"})
        await rt.call("unsteady")
    traces = [record.exc_text or "" for record in caplog.records if record.name == "clicket.tools"]
    assert len(traces) == 3
    assert "ValueError: no user with [secret]" in traces[0]
    assert "in login" in traces[0]
    assert all(line.startswith("    ") for line in traces[0].splitlines())  # a message cannot forge a line


OURS, STDLIB = str(Path(clicket.__file__).parent / "x.py"), asyncio.__file__
PACKAGE, AUTHORS = "/venv/site-packages/http/client.py", "/home/ann/tools.py"


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ([OURS] * 7 + [AUTHORS, PACKAGE], [AUTHORS, PACKAGE]),
        ([OURS, STDLIB, OURS, AUTHORS, OURS, PACKAGE], [AUTHORS, OURS, PACKAGE]),
        ([OURS] * 4 + [STDLIB] + [OURS] * 3 + [PACKAGE, STDLIB], [PACKAGE, STDLIB]),
        ([OURS] * 7, [OURS]),
        ([STDLIB], [STDLIB]),
    ],
)
def test_our_frames_above_those_of_a_tool_are_left_out(files: list[str], shown: list[str]) -> None:
    def down(rest: list[str]) -> None:
        if not rest:
            raise ValueError("no")
        made = compile("def step(down, rest): down(rest)", rest[0], "exec")
        names: dict[str, Any] = {}
        exec(made, names)
        names["step"](down, rest[1:])

    try:
        down(files)
    except ValueError as error:
        trace, this = error.__traceback__, down.__code__.co_filename
        frames = []
        while trace is not None:
            if trace.tb_frame.f_code.co_filename != this:
                frames.append(trace)
            trace = trace.tb_next
        linked = None
        for each in reversed(frames):
            linked = TracebackType(linked, each.tb_frame, each.tb_lasti, each.tb_lineno)
        text = traceback_of(error.with_traceback(linked))
    assert re.findall(r'File "([^"]+)"', text) == shown


@pytest.mark.parametrize("json_lines", [True, False])
async def test_a_worker_says_it(capfd: pytest.CaptureFixture[str], json_lines: bool) -> None:
    async with make(TOOLS) as rt:
        rt.observers.add(WorkerLog(Terminal(json=json_lines), quiet=False))
        await rt.call("login", {"password": "swordfish-77"})
    out, err = capfd.readouterr()
    output = json.loads(out.splitlines()[-1])["traceback"] if json_lines else err
    assert "ValueError: no user with [secret]" in output
    assert "in login" in output


async def test_other_keys_do_not_see_it(tmp_path: Path) -> None:
    @tool(max_retries=1, retry_delay=0, recovery="ask")
    async def odd(ctx: ToolContext) -> None:
        if ctx.attempt == 1:
            raise RetryableError("not yet")
        await asyncio.Event().wait()

    url = sqlite_url(tmp_path)
    async with served([odd, *TOOLS], url, close_timeout=0.1) as it:
        names = {"owner": ("read", "call"), "approver": ("read", "approve"), "admin": ("read", "admin")}
        keys = {name: await key_for(it, name, *scopes) for name, scopes in names.items()}
        failed = (await it.call("lookup", {"name": "id"}, headers=keys["owner"])).json()["call_id"]
        await it.post("/calls", json={"tool": "odd", "id": "odd"}, headers=keys["owner"])
        await eventually(lambda: _attempts(it, "odd") == 2)
    async with served([odd, *TOOLS], url) as it:  # closed in the second attempt: it needs an approval

        async def seen(name: str, path: str) -> tuple[int, bool]:
            response = await it.get(path, headers=keys[name])
            return response.status_code, "Traceback" in response.text

        for id in (failed, "odd"):
            assert await seen("owner", f"/calls/{id}") == await seen("admin", f"/calls/{id}") == (200, True)
        assert (await seen("approver", f"/calls/{failed}"))[0] == 404
        assert await seen("approver", "/calls/odd") == (200, False)
        assert await seen("approver", "/calls?waiting_for=approval&full=true") == (200, False)
        assert await seen("admin", "/calls?full=true") == (200, True)
        assert (await seen("owner", f"/calls/{failed}/events"))[1]


def _attempts(it: Api, id: str) -> int:
    call = it.runtime.engine.live.find(id, None, None)
    return 0 if call is None else call.entry.attempts


# The command line.

SOURCE = '''
from clicket import tool

@tool(max_retries=0)
async def bad(word: str) -> None:
    """Fails."""
    raise ValueError(f"boom {word}")
'''


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "steps.py").write_text(SOURCE)
    return Place(tmp_path, sqlite_url(tmp_path), "steps")


def test_show_and_debug(place: Place) -> None:
    failed = place.inside("call", "bad", "word=x")
    assert "Traceback" not in failed.stderr
    assert "ValueError: boom x" in failed.stderr
    shown = place.inside("show").stdout
    assert 'raise ValueError(f"boom {word}")' in shown
    assert "steps.py" in shown
    assert 'raise ValueError(f"boom {word}")' in place.inside("--debug", "call", "bad", "word=x").stderr
    record = json.loads(place.inside("--json", "show").stdout)
    assert "Traceback" in record["attempts"][0]["traceback"]
