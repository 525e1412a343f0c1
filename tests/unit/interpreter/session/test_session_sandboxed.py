"""Sessions in a real sandbox: what programs do to their worker, and how the host reacts."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE, eventually

from clicket.interpreter.session import session as sessions
from clicket.interpreter.session.session import BlockEnd, OutputItem, Session
from clicket.sandbox import Sandbox


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    await sandbox.close()


@pytest.fixture
async def session(sandbox: Sandbox) -> Session:
    return await Session.start(sandbox, grace=0.3)


@pytest.fixture
async def patient(sandbox: Sandbox) -> Session:
    """For programs that stop when asked, however busy the machine is."""
    return await Session.start(sandbox, grace=20)


async def run(session: Session, code: str, *, timeout: float | None = 20, name: str = "<block>") -> BlockEnd:
    session.begin(code, name=name, timeout=timeout)
    last = [item async for item in session.watch()][-1]
    assert isinstance(last, BlockEnd)
    return last


async def outcome(session: Session, code: str, *, timeout: float | None = 20) -> tuple[str, str | None]:
    ended = await run(session, code, timeout=timeout)
    return ended.status, ended.reason


async def test_a_namespace_that_stays(session: Session) -> None:
    assert session.isolation.level == "full"
    first = await run(session, "import sys\nx = 6\nprint('out')\nprint('err', file=sys.stderr)\nx * 7")
    assert (first.status, first.value, first.stdout.text, first.stderr.text) == ("ok", "42", "out\n", "err\n")
    assert "x" in session.names
    assert (await run(session, "x + 1")).value == "7"
    failed = await run(session, "y = 1\nx / 0")
    assert failed.error is not None
    assert (failed.status, failed.error.type, failed.error.line) == ("error", "ZeroDivisionError", 2)
    left = await run(session, "import sys; sys.exit(3)")
    assert (left.status, left.exit_code) == ("exit", 3)


async def test_questions(session: Session) -> None:
    good, bad = await session.check(["import os\na = b + 1", "1 +"], 10)
    assert (good.error, good.imports, good.loads) == (None, ("os",), ("b",))
    assert bad.error is not None
    assert bad.error.type == "SyntaxError"
    assert await session.preload(["json", "no_such_module"], 10) == ["json"]


async def test_an_interrupt_leaves_everything_in_place(patient: Session) -> None:
    session = patient
    await run(session, "x = 1")
    assert await outcome(session, "while True: pass", timeout=0.05) == ("interrupted", "timeout")
    assert await outcome(session, "import time; time.sleep(100)", timeout=0.05) == ("interrupted", "timeout")
    assert (await run(session, "x")).value == "1"


async def test_stopping_at_any_moment(patient: Session) -> None:
    """Also a block that has not started inside, and one that has just ended."""
    session = patient
    for turn, pause in enumerate((0, 0, 0, 0, 0.0003, 0.0003, 0.0006, 0.0006, 0.001, 0.001, 0.002, 0.002)):
        look = (lambda _: None) if turn % 2 else None
        session.begin("for _ in range(2_000_000_000): pass", name="<block>", timeout=None, on_checked=look)
        await asyncio.sleep(pause)
        await session.stop("cancel")
        assert [item async for item in session.watch()][-1].status == "interrupted"
    for pause in (0, 0.0001, 0.0002, 0.0003, 0.0005):
        session.begin("x = 2", name="<block>", timeout=None)
        await asyncio.sleep(pause)
        await session.stop("cancel")
        assert (await run(session, "41 + 1")).value == "42"


SWALLOWS = """
begun = False
while True:
    try:
        if not begun:
            begun = True
            print("begun", flush=True)
        import time; time.sleep(1)
    except BaseException: pass
"""
IGNORES = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("begun", flush=True)
while True: pass
"""


@pytest.mark.parametrize("code", [SWALLOWS, IGNORES], ids=["swallows", "ignores"])
async def test_a_process_that_does_not_stop_is_killed(session: Session, code: str) -> None:
    session.begin(code, name="<block>", timeout=None)
    items = session.watch()
    assert await anext(items) == OutputItem(stream="stdout", text="begun\n")
    await session.stop("timeout")  # like the deadline
    ended = [item async for item in items][-1]
    assert isinstance(ended, BlockEnd)
    assert (ended.status, ended.reason, ended.stdout.text) == ("killed", "timeout", "begun\n")
    assert not session.alive
    assert await outcome(session, "1") == ("killed", "timeout")


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("import os; os._exit(7)", ("crashed", "exit code 7")),
        ("import os; os.abort()", ("crashed", "SIGABRT")),
        ("import ctypes; ctypes.string_at(0)", ("crashed", "SIGSEGV")),
        ("import os; os.write(4, b'hello world')", ("killed", "protocol")),
        ("import os; os.closerange(0, 200)\nwhile True: pass", ("killed", "protocol")),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", ("killed", "timeout")),
    ],
)
async def test_ends(session: Session, code: str, seen: tuple[str, str]) -> None:
    assert await outcome(session, code, timeout=20 if seen[1] != "timeout" else 1) == seen


FORGED = """
import json, os
body = json.dumps({"type": "done", "id": %d, "status": "ok", "value": "forged"}).encode()
os.write(4, len(body).to_bytes(4, "big") + body)
"""


async def test_a_forged_end_and_a_worker_that_is_still_busy(session: Session) -> None:
    assert (await run(session, FORGED % 1 + "while True: pass")).value == "forged"
    # The worker runs the first block; the second waits in the pipe until an interrupt ends the first.
    ended = await run(session, "x = 1\nx", timeout=0.2)
    assert (ended.status, ended.reason) in {("interrupted", "timeout"), ("killed", "timeout")}


async def test_a_forged_end_and_then_the_true_one(session: Session) -> None:
    assert (await run(session, FORGED % 1)).value == "forged"
    assert (await run(session, "40 + 2")).value == "42"


async def test_much_output_passes_in_little_memory(sandbox: Sandbox) -> None:
    session = await Session.start(sandbox, max_output=1 << 31, max_spooled=1 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    session.begin("import os\nline = b'x' * 65536\nfor _ in range(4096): os.write(1, line)", name="<block>", timeout=50)
    size, last = 0, None
    async for item in session.watch():
        if isinstance(item, OutputItem):
            size += len(item.text)
        last = item
    assert isinstance(last, BlockEnd)
    assert last.status == "ok"
    assert size == last.stdout.size == 4096 * 65536
    assert len(last.stdout.text) < 1_100_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


async def test_output_beyond_the_limit(sandbox: Sandbox) -> None:
    session = await Session.start(sandbox, max_output=1 << 20, kept_output=1 << 10)
    ended = await run(session, "while True: print('x' * 1000)")
    assert (ended.status, ended.reason) == ("killed", "output")
    assert len(ended.stdout.text) < 1_200


async def test_nothing_runs_while_the_session_rests(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_FREEZE_AFTER", 0.0)
    counting = """
import threading
n = 0
def count():
    global n
    while True: n += 1
threading.Thread(target=count, daemon=True).start()
"""
    assert (await run(session, counting)).threads == 1
    session.idle()
    await eventually(lambda: session.frozen)
    async with asyncio.timeout(PATIENCE):  # the kernel may need a moment to stop them all; then their CPU does not grow
        before, used = -1, _cpu(session)
        while used != before:
            await asyncio.sleep(0.1)
            before, used = used, _cpu(session)
    assert int((await run(session, "n")).value or "") > 0


def _cpu(session: Session) -> int:
    """Clock ticks that all its processes have used."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in session.process.pids()]
    return sum(int(each[11]) + int(each[12]) for each in fields)


async def test_sessions_end_with_their_sandbox(sandbox: Sandbox, session: Session) -> None:
    session.begin("while True: pass", name="<block>", timeout=None)
    watching = asyncio.ensure_future(anext(session.watch()))
    await sandbox.close()
    ended = await watching
    assert isinstance(ended, BlockEnd)
    assert ended.status in {"killed", "crashed"}
    assert not session.alive
    await session.close()
