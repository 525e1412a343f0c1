"""Kills a process that runs three calls, and recovers them. The child process loads nothing of the command line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from clicket.cli.demo.tools import CRASH_TOOLS
from clicket.errors import NotFound, UsageError
from clicket.kernel import State
from clicket.model.ids import new_id
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings

if TYPE_CHECKING:
    from clicket.cli.demo.output import TourOutput

__all__ = ["crash_step", "killed_child", "run_calls", "wait_until_running"]

_START_TIMEOUT = 30.0
_POLL_EVERY = 0.03


def run_calls(store: str, index: str, payment: str, charge: str, bank: str) -> None:
    """The main function of the process that is killed. If its parent dies first, it ends by itself."""

    async def work() -> None:
        async with Runtime(CRASH_TOOLS, settings=Settings(store=store)) as runtime:
            handles = [
                await runtime.submit("index_site", {"pages": 20}, id=index, thread="demo"),
                await runtime.submit("send_payment", {"amount": 250.0, "to": "ACME"}, id=payment, thread="demo"),
                await runtime.submit("charge_card", {"cents": 1_250, "bank": bank}, id=charge, thread="demo"),
            ]
            for handle in handles:
                await handle.result()

    asyncio.run(work())


@contextlib.asynccontextmanager
async def killed_child(function: str, *arguments: str, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python process that runs `module:function`, killed with SIGKILL at the end."""
    module, _, name = function.partition(":")
    code = f"import sys; from {module} import {name}; {name}(*sys.argv[1:])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, *arguments, env=environment, **options)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGKILL)
        await child.communicate()


async def crash_step(output: TourOutput, runtime: Runtime, store: str) -> None:
    code = "os.kill(child.pid, signal.SIGKILL)"
    await output.step("kill -9", "another process runs three calls, and is killed in the middle of them", code)
    index, payment, charge = new_id(), new_id(), new_id()
    with tempfile.TemporaryDirectory(prefix="clicket-demo-bank-") as bank:
        await _kill_and_recover(output, runtime, store, bank, (index, payment, charge))


async def _kill_and_recover(
    output: TourOutput, runtime: Runtime, store: str, bank: str, ids: tuple[str, str, str]
) -> None:
    index, payment, charge = ids
    async with killed_child("clicket.cli.demo.crash:run_calls", store, *ids, bank) as child:
        started = await wait_until_running(runtime, child, *ids)
        names = ("index_site", "send_payment", "charge_card")
        output.remark(f"process {child.pid}: {', '.join(f'{n} is {s}' for n, s in zip(names, started, strict=True))}")
        handle = await runtime.handle(index)
        await output.watch("index_site", handle.events(), steps=2)
    output.remark(f"kill -9 {child.pid}, then a new runtime opens the store:", "yellow")
    async with Runtime(CRASH_TOOLS, settings=Settings(store=store)) as second:
        handle = await second.handle(index)
        await output.watch("index_site", handle.events(len((await second.get(index)).events)))
        await (await second.handle(charge)).result()
        rerun, unknown, charged = await second.get(index), await second.get(payment), await second.get(charge)
    output.remark("index_site is idempotent: it was run again, with the same idempotency key")
    keys = {rerun.idempotency_key, rerun.output["idempotency_key"] if rerun.success else ""}
    checks = {
        "it was run again and completed": rerun.success and len(rerun.attempts) == 2,
        "both attempts had the same key": len(keys) == 1,
    }
    output.outcome(rerun, checks)
    output.remark("send_payment is not: the payment may have been made or not, so it is not repeated")
    error = unknown.error.code if unknown.error else None
    reported = error == "outcome_unknown" and len(unknown.attempts) == 1
    output.outcome(unknown, {"it fails as outcome_unknown": reported})
    output.remark(
        "charge_card has a check (reconcile=…): it asked the bank by the idempotency key, and found the charge"
    )
    found = charged.success and charged.metadata.get("reconciled") is True
    checks = {
        "it completed with what the bank has": found and charged.output == {"receipt": "1250 cents"},
        "it was charged once": len(charged.attempts) == 1 and len(os.listdir(bank)) == 1,
    }
    output.outcome(charged, checks)


async def wait_until_running(runtime: Runtime, child: asyncio.subprocess.Process, *ids: str) -> list[State]:
    """Poll the store until the child's calls run. Raises `UsageError` when the child ends before, or takes too long."""
    give_up_at = time.monotonic() + _START_TIMEOUT
    states: list[State] = []
    while time.monotonic() < give_up_at and child.returncode is None:
        states = []
        for id in ids:
            with contextlib.suppress(NotFound):
                states.append(await runtime.state(id))
        if states == [State.RUNNING] * len(ids):
            return states
        await asyncio.sleep(_POLL_EVERY)
    raise UsageError(f"the child process did not start its calls (exit code {child.returncode}, states {states}).")
