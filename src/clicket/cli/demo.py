"""The tour of `clicket demo`. It checks what it tells: if one thing does not go as told, the exit code says so."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from clicket.cli.demo_agent import agents_turn
from clicket.cli.demo_search import searched
from clicket.cli.demo_stage import Stage
from clicket.cli.demo_tools import CHILD_TOOLS, TOUR_TOOLS
from clicket.cli.errors import CallFailed
from clicket.cli.session import Session
from clicket.cli.words import shown_url
from clicket.errors import NotFound, UsageError
from clicket.kernel import State
from clicket.model.ids import new_id
from clicket.private_files import make_folder
from clicket.runtime import Runtime
from clicket.settings import Settings

__all__ = ["tour"]

_FOLDER = Path(".clicket")
_PATIENCE = 30.0
_LOOK_EVERY = 0.03
_UNREAD = """\
```python
print(sum(range(101)))
```
```python
open("/etc/shadow").read()
```
```python
while True: pass
```
"""
_CHILD = "import sys; from clicket.cli.demo_child import run_child; run_child(*sys.argv[1:])"


async def tour(session: Session) -> None:
    """Every scene, one after the other, over one store."""
    stage = Stage(session.terminal)
    began = time.monotonic()
    asked = session.settings.store if "store" in session.settings.origins else None
    with _store(asked) as store:
        stage.line("clicket demo: what becomes of a tool call when things go well, and when they do not.")
        stage.line(f"No keys, no network. The journal is {store}")
        async with Runtime(TOUR_TOOLS, settings=Settings(store=store)) as runtime:
            for scene in (good, streamed, retried, timed_out, cancelled, refused, misspelt, too_big, unread, searched):
                await scene(stage, runtime)
            await killed(stage, runtime, store)
        await agents_turn(stage, store)
        stage.curtain(store, time.monotonic() - began)
    if not all(outcome.ok for outcome in stage.outcomes):
        raise CallFailed


@contextlib.contextmanager
def _store(asked: str | None) -> Iterator[str]:
    """The tour's own store: a new `.clicket/demo.db`, or one elsewhere when this folder is taken or cannot be written."""
    if asked is not None:
        if urlsplit(asked).scheme != "sqlite":
            raise UsageError(
                f"the demo kills a process and opens its store again; {shown_url(asked)} cannot show that. Use sqlite:///path."
            )
        yield asked
        return
    folder = _FOLDER
    try:
        make_folder(folder)
        lock = open(folder / "demo.lock", "w")  # noqa: SIM115  # closed below, with the lock
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="clicket-demo-"))
        lock = open(folder / "demo.lock", "w")  # noqa: SIM115
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # another tour is under way here: its store stays its own
            folder = Path(tempfile.mkdtemp(prefix="clicket-demo-"))
        for suffix in ("", "-wal", "-shm"):
            Path(f"{folder}/demo.db{suffix}").unlink(missing_ok=True)
        shutil.rmtree(folder / "demo.db.artifacts", ignore_errors=True)
        yield f"sqlite:///{folder}/demo.db"


async def good(stage: Stage, runtime: Runtime) -> None:
    await stage.scene(
        "A good call", "found, allowed, checked, run, kept", 'await rt.call("weather", {"city": "Lisbon"})'
    )
    handle = await runtime.submit("weather", {"city": "Lisbon"}, thread="demo")
    await stage.watch("weather", handle.events())
    record = await runtime.get(handle.id)
    stage.outcome(record, {"it gives the weather": record.output == {"city": "Lisbon", "temperature": 21, "unit": "c"}})


async def streamed(stage: Stage, runtime: Runtime) -> None:
    await stage.scene(
        "A streamed call", "each word is durable before you read it", 'async for event in rt.stream("tell_story"): …'
    )
    handle = await runtime.submit("tell_story", thread="demo")
    seen = await stage.watch("tell_story", handle.events())
    record = await runtime.get(handle.id)
    words = [event.data["content"] for event in seen if event.type == "output"]
    numbers = [event.seq for event in seen]
    stage.outcome(
        record,
        {
            "the output is what was streamed": record.output == "".join(words) != "",
            "no event is missing": numbers == list(range(1, len(numbers) + 1)),
        },
    )


async def retried(stage: Stage, runtime: Runtime) -> None:
    await stage.scene(
        "A retry that recovers",
        "the tool says its failure is transient",
        'await rt.call("exchange_rate", {"pair": "EURUSD"})',
    )
    handle = await runtime.submit("exchange_rate", {"pair": "EURUSD"}, thread="demo")
    await stage.watch("exchange_rate", handle.events())
    record = await runtime.get(handle.id)
    stage.outcome(record, {"the third attempt succeeds": record.success and len(record.attempts) == 3})


async def timed_out(stage: Stage, runtime: Runtime) -> None:
    await stage.scene(
        "A stuck sync tool",
        "it has one second, then its whole process tree is ended",
        'await rt.call("read_scan", {"file": "scan.tiff"})',
    )
    handle = await runtime.submit("read_scan", {"file": "scan.tiff"}, thread="demo")
    seen = await stage.watch("read_scan", handle.events())
    record = await runtime.get(handle.id)
    said = next((event.data for event in seen if event.type == "note" and "pid" in event.data), {})
    pids = [said[name] for name in ("pid", "child") if name in said]
    gone = len(pids) == 2 and all([await _is_gone(pid) for pid in pids])
    stage.outcome(record, {"it ends as timeout": record.state is State.TIMEOUT, "both processes are gone": gone})
    if gone:
        stage.remark(f"kill -0 {pids[0]}: no such process; kill -0 {pids[1]}: no such process", "bright_black")


async def cancelled(stage: Stage, runtime: Runtime) -> None:
    await stage.scene("A cancel", "in the middle of the work, which stops", "await rt.cancel(handle.id)")
    handle = await runtime.submit("crawl", {"pages": 50}, thread="demo")
    await stage.watch("crawl", handle.events(), steps=6)
    took = await runtime.cancel(handle.id, reason="we have seen enough")
    record = await runtime.get(handle.id)
    stage.outcome(record, {"it ends as cancelled": took and record.state is State.CANCELLED})


async def refused(stage: Stage, runtime: Runtime) -> None:
    await stage.scene(
        "Bad input",
        "every complaint at once, each with its path; the tool never runs",
        'await rt.call("weather", {"city": 5, "unti": "k"})',
    )
    result = await runtime.call("weather", {"city": 5, "unti": "k"}, thread="demo")
    record = await runtime.get(result.call_id)
    problems = record.error.details.get("problems", []) if record.error else []
    stage.outcome(
        record,
        {
            "it is refused as invalid_input": record.error is not None and record.error.code == "invalid_input",
            "both mistakes are named": len(problems) == 2 and any(p["path"] == "/city" for p in problems),
            "the near miss is named": record.error is not None and "Did you mean 'unit'" in record.error.message,
            "the tool did not run": not record.attempts,
        },
    )


async def misspelt(stage: Stage, runtime: Runtime) -> None:
    await stage.scene("A misspelt name", "models misspell", 'await rt.call("wether", {"city": "Lisbon"})')
    result = await runtime.call("wether", {"city": "Lisbon"}, thread="demo")
    record = await runtime.get(result.call_id)
    message = record.error.message if record.error else ""
    stage.outcome(record, {"the near miss is named": "Did you mean 'weather'" in message})


async def too_big(stage: Stage, runtime: Runtime) -> None:
    await stage.scene(
        "A result too big",
        "cut for the model, kept whole for you",
        'await rt.call("read_log", {"lines": 40000})',
    )
    result = await runtime.call("read_log", {"lines": 40_000}, thread="demo")
    record = await runtime.get(result.call_id)
    whole = await runtime.artifact(record.artifact) if record.artifact else b""
    stage.outcome(
        record,
        {
            "the model gets at most 600 bytes": 0 < len(record.content.encode()) <= 600,
            "the artifact is the whole": len(whole) == 40_000 * len("000000 GET /orders/0 200\n") + 148_890,
        },
    )
    if record.artifact:
        stage.remark(
            f"the model reads {len(record.content.encode())} bytes; artifact {record.artifact[:19]}… holds all {len(whole):,}",
            "bright_black",
        )


async def unread(stage: Stage, runtime: Runtime) -> None:
    await stage.scene(
        "Code that nobody has read",
        "a sandbox of its own; what it may not have it does not get, and a second is all a block has",
        'await rt.call("code_interpreter", {"task": "```python …"})',
    )
    result = await runtime.call("code_interpreter", {"task": _UNREAD}, thread="demo")
    record = await runtime.get(result.call_id)
    output = record.output if isinstance(record.output, dict) else {}
    ended = [block["status"] for block in output.get("blocks", ())]
    isolation = output.get("isolation", {"level": "none", "layers": []})
    stage.outcome(
        record,
        {
            "the first block counts": output.get("stdout", "").startswith("5050"),
            "the host's secrets are out of reach": ended[1:2] == ["error"] or isolation["level"] == "process",
            "the endless one is stopped": ended[2:] == ["interrupted"],
        },
    )
    for block, text in zip(ended, _UNREAD.split("```python\n")[1:], strict=False):
        stage.remark(f"{block:<12} {text.splitlines()[0]}", "bright_black")
    stage.remark(f"isolation {isolation['level']}: {', '.join(isolation['layers'])}", "bright_black")


async def killed(stage: Stage, runtime: Runtime, store: str) -> None:
    """A second process runs two calls over the same store, and does not live to see them end."""
    await stage.scene(
        "kill -9",
        "another process runs two calls, and dies in the middle of both",
        "os.kill(child.pid, signal.SIGKILL)",
    )
    index, payment = new_id(), new_id()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", _CHILD, store, index, payment, env=environment)
    try:
        started = await _both_running(runtime, child, index, payment)
        stage.remark(f"process {child.pid}: index_site is {started[0]}, send_payment is {started[1]}", "bright_black")
        if started[0].is_active:
            handle = await runtime.handle(index)
            await stage.watch("index_site", handle.events(), steps=2)
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGKILL)
        await child.wait()
    stage.remark(f"kill -9 {child.pid}, then a new runtime opens the store:", "yellow")
    async with Runtime(CHILD_TOOLS, settings=Settings(store=store)) as second:
        handle = await second.handle(index)
        known = len((await second.get(index)).events)
        await stage.watch("index_site", handle.events(known))
        rerun, unknown = await second.get(index), await second.get(payment)
    stage.remark("index_site is idempotent: it was run again, under the same key", "bright_black")
    keys = {rerun.idempotency_key, rerun.output["idempotency_key"] if rerun.success else ""}
    stage.outcome(
        rerun,
        {
            "it ran when its process was killed": State.RUNNING in started,
            "it was run again and completed": rerun.success and len(rerun.attempts) == 2,
            "both attempts had the same key": len(keys) == 1,
        },
    )
    stage.remark(
        "send_payment is not: nobody can know whether the money left, so nobody pays again without asking",
        "bright_black",
    )
    error = unknown.error.code if unknown.error else None
    stage.outcome(
        unknown, {"its outcome is unknown, and says so": error == "outcome_unknown" and len(unknown.attempts) == 1}
    )


async def _both_running(runtime: Runtime, child: asyncio.subprocess.Process, *ids: str) -> list[State]:
    """Look into the shared store until the child's calls are under way."""
    give_up_at = time.monotonic() + _PATIENCE
    states: list[State] = []
    while time.monotonic() < give_up_at and child.returncode is None:
        states = []
        for id in ids:
            with contextlib.suppress(NotFound):
                states.append(await runtime.state(id))
        if len(states) == len(ids) and all(state is State.RUNNING for state in states):
            return states
        await asyncio.sleep(_LOOK_EVERY)
    raise UsageError(
        f"the child process did not get its calls running (exit code {child.returncode}, states {states})."
    )


async def _is_gone(pid: int) -> bool:
    """The kernel takes a moment to bury a killed process."""
    give_up_at = time.monotonic() + 5
    while time.monotonic() < give_up_at:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        await asyncio.sleep(_LOOK_EVERY)
    return False
