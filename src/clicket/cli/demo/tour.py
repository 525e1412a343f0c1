"""Runs every step of the tour, over a store of its own."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from clicket.cli.context import Context
from clicket.cli.demo.agent import agent_step
from clicket.cli.demo.crash import crash_step
from clicket.cli.demo.output import TourOutput
from clicket.cli.demo.steps import STEPS
from clicket.cli.demo.tools import TOUR_TOOLS
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import shown_url
from clicket.errors import UsageError
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.system.private_files import make_folder

__all__ = ["tour", "tour_store"]

_FOLDER = Path(".clicket")


async def tour(context: Context) -> None:
    """Raises `CallFailed` when a check of a step failed."""
    output = TourOutput(context.terminal)
    began = time.monotonic()
    with tour_store(context.settings.store if "store" in context.settings.origins else None) as store:
        output.print("clicket demo: what happens to a tool call when all goes well, and when it does not.")
        output.print(f"No keys, no network. The calls are stored in {store}")
        async with Runtime(TOUR_TOOLS, settings=Settings(store=store)) as runtime:
            for step in STEPS:
                await step(output, runtime)
            await crash_step(output, runtime, store)
        await agent_step(output, store)
        output.summary(store, time.monotonic() - began)
    if not all(outcome.ok for outcome in output.outcomes):
        raise CallFailed


@contextlib.contextmanager
def tour_store(url: str | None) -> Iterator[str]:
    """The URL of the tour's store: `url`, or an empty `.clicket/demo.db`, or one in a temporary folder when another tour runs
    here or the folder cannot be written."""
    if url is not None:
        if urlsplit(url).scheme != "sqlite":
            raise UsageError(
                f"the demo kills a process and opens its store again; {shown_url(url)} cannot show that. Use sqlite:///path."
            )
        yield url
        return
    with contextlib.ExitStack() as stack:
        folder = _FOLDER
        try:
            make_folder(folder)
            lock = stack.enter_context(open(folder / "demo.lock", "w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            folder = Path(tempfile.mkdtemp(prefix="clicket-demo-"))
        for suffix in ("", "-wal", "-shm"):
            Path(f"{folder}/demo.db{suffix}").unlink(missing_ok=True)
        shutil.rmtree(folder / "demo.db.artifacts", ignore_errors=True)
        yield f"sqlite:///{folder}/demo.db"
