"""`clicket worker`: runs the calls that wait in a store for its tools, until a signal or an operator stops it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Annotated, Any

import typer

from clicket.cli.context import Context, join_declared
from clicket.cli.health_port import health_port
from clicket.cli.shutdown import ShutdownSignals
from clicket.cli.worker_log import WorkerLog
from clicket.runtime.runtime import Runtime

__all__ = ["worker"]


async def worker(
    context: Context,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", "-c", min=1, help="Maximum number of concurrent calls; default: `max_concurrency`."
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(metavar="LABEL,...", help="Labels of this worker: it also takes calls of tools that need them."),
    ] = None,
    burst: Annotated[
        bool,
        typer.Option("--burst", help="End when no call waits for this worker: for jobs that an autoscaler starts."),
    ] = False,
    health_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Serve /livez, /readyz and, for keys with the scope read, /metrics on this port; 0 chooses a free one.",
        ),
    ] = None,
    health_host: Annotated[str, typer.Option(help="The address of the health port.")] = "127.0.0.1",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no line for each call.")] = False,
) -> None:
    """Claim and run waiting calls of the tools, and interrupted turns of declared agents, until a signal stops it.

    TERM and Ctrl-C drain: no new calls; running ones get `close_timeout`.
    A call that does not finish is handed back if it may be repeated, else it
    fails as outcome_unknown. A second signal ends the process at once.
    `clicket workers drain ID` lets the running calls finish, without a limit,
    and ends the worker then.
    """
    log = WorkerLog(context.terminal, quiet=quiet)
    tools = context.needed_tools
    runtime = context.host(engine="local", max_concurrency=concurrency, labels=labels)
    runtime.role = "worker"
    with ShutdownSignals() as shutdown:
        await _run(runtime, tools, log, shutdown, health_host, health_port, burst=burst)
    if shutdown.signal is signal.SIGINT:
        raise KeyboardInterrupt


async def _run(
    runtime: Runtime,
    tools: list[Any],
    log: WorkerLog,
    shutdown: ShutdownSignals,
    host: str,
    port: int | None,
    *,
    burst: bool,
) -> None:
    state = "starting"

    def current() -> str:
        return runtime.workers.state if runtime.is_open and state == "active" else state

    async with health_port(runtime, current, host, port) as health:
        opened = await shutdown.run_until_requested(runtime.open())
        if opened is None:
            return
        runtime.observers.add(log)
        log.ready(runtime, [tool.name for tool in tools], None if health is None else health.port)
        reason = "an error"
        try:
            await _start(runtime, tools, log, shutdown)
            state = "active"
            reason = await _until_over(runtime, shutdown, burst=burst)
        finally:
            state = "draining"
            await log.draining(shutdown.signal.name if shutdown.signal else reason, runtime)
            await runtime.close()
            log.stopped()


async def _start(runtime: Runtime, tools: list[Any], log: WorkerLog, shutdown: ShutdownSignals) -> None:
    for tool in tools:  # only now, so that no call is claimed before its events can be logged
        runtime.add(tool)
    await join_declared(runtime)
    if runtime.settings.agents:
        from clicket.runtime.agent_config import agents_of

        agents_of(runtime)  # it also resumes interrupted turns
    report = await shutdown.run_until_requested(runtime.recover())
    if report is not None:
        log.recovered(report)


async def _until_over(runtime: Runtime, shutdown: ShutdownSignals, *, burst: bool) -> str:
    """Wait until a signal came, an operator drained this worker, or (`burst`) nothing waits; returns which."""
    waits: dict[str, Coroutine[Any, Any, None]] = {
        "signal": shutdown.wait(),
        "drained": runtime.workers.until_drained(),
    }
    if burst:
        waits["nothing waits"] = runtime.workers.until_idle()
    tasks = {asyncio.ensure_future(wait): reason for reason, wait in waits.items()}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # raises the error of a store that is gone
        return tasks[done.pop()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
