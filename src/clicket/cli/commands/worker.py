"""`clicket worker`: runs the calls that wait in a store for its tools, until a signal stops it."""

from __future__ import annotations

import signal
from typing import Annotated, Any

import typer

from clicket.cli.session import Session, join_declared
from clicket.cli.shutdown import ShutdownSignals
from clicket.cli.worker_log import WorkerLog
from clicket.runtime import Runtime

__all__ = ["worker"]


async def worker(
    session: Session,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", "-c", min=1, help="Maximum number of concurrent calls; default: `max_concurrency`."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no line for each call.")] = False,
) -> None:
    """Claim and run waiting calls of the tools, and interrupted turns of declared agents, until a signal stops it.

    TERM and Ctrl-C drain: no new calls; running ones get `close_timeout`.
    A call that does not finish is handed back if it may be repeated, else it
    fails as outcome_unknown. A second signal ends the process at once.
    """
    log = WorkerLog(session.terminal, quiet=quiet)
    tools = session.needed_tools
    runtime = session.host(engine="local", max_concurrency=concurrency)
    with ShutdownSignals() as shutdown:
        opened = await shutdown.run_until_requested(runtime.open())
        if opened is not None:
            await _serve(runtime, tools, log, shutdown)
    if shutdown.signal is signal.SIGINT:
        raise KeyboardInterrupt


async def _serve(runtime: Runtime, tools: list[Any], log: WorkerLog, shutdown: ShutdownSignals) -> None:
    runtime.observers.add(log)
    log.ready(runtime, [tool.name for tool in tools])
    try:
        for tool in tools:  # only now, so that no call is claimed before its events can be logged
            runtime.add(tool)
        await join_declared(runtime)
        if runtime.settings.agents:
            from clicket.agent_config import agents_of

            agents_of(runtime)  # it also resumes interrupted turns
        report = await shutdown.run_until_requested(runtime.recover())
        if report is not None:
            log.recovered(report)
        await shutdown.wait()
    finally:
        await log.draining(shutdown, runtime)
        await runtime.close()
        log.stopped()
