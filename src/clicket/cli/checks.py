"""What `clicket doctor` looks at in a store, whatever its kind: can it be reached and written, what can it lose, who is there."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from typing import Literal

import msgspec

from clicket.cli.owners import MOST_COUNTED, Owners, orphans
from clicket.cli.session import Session
from clicket.cli.words import duration, shown_url, size
from clicket.errors import ClicketError, StoreUnavailable
from clicket.runtime import Runtime

__all__ = ["Check", "store_checks"]

_SLOW_WRITE = 0.25


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    verdict: Literal["ok", "warn", "fail"] = "ok"
    found: str
    advice: str = ""
    unreachable: bool = False


async def store_checks(session: Session) -> AsyncIterator[Check]:
    """Open the store as a runtime without tools would, which changes nothing about anybody's calls."""
    try:
        if session.settings.store.startswith("memory:"):
            yield Check(name="store", found="memory://: calls are gone with their process")
            return
        if not session.store_exists:
            yield Check(name="store", found=f"{session.store_url}: not there yet, made by the first call")
            return
        async with Runtime((), settings=session.settings) as runtime:
            yield await _reached(runtime)
            for risk in getattr(runtime.engine.store, "risks", []):
                yield Check(name="store risk", verdict="warn", found=shown_url(risk))
            yield await _owners(runtime)
    except ClicketError as error:
        lost = isinstance(error, StoreUnavailable)
        yield Check(name="store", verdict="fail", found=shown_url(error.message), unreachable=lost)
    except Exception as error:
        yield Check(name="store", verdict="fail", found=shown_url(f"{type(error).__name__}: {error}"))


async def _reached(runtime: Runtime) -> Check:
    store = runtime.engine.store
    probe = f"doctor:{os.getpid()}"
    began = time.perf_counter()
    await store.hold(probe, 1, 1)
    took = time.perf_counter() - began
    await store.hold(probe, 0, 1)
    active = await runtime.history(active=True, limit=MOST_COUNTED)
    count = f"{len(active.items)}{'+' if active.cursor else ''} active calls"
    found = (
        f"{store.url}: {size(await store.size())}, {count}, durability {store.durability}, written in {duration(took)}"
    )
    if took > _SLOW_WRITE:
        return Check(name="store", verdict="warn", found=found, advice="Writing takes long; every call waits for it.")
    return Check(name="store", found=found)


async def _owners(runtime: Runtime) -> Check:
    owners, left = await Owners.of(runtime), await orphans(runtime)
    found = f"{len(owners.alive)} alive, {len(owners.gone)} gone"
    if not left:
        return Check(name="owners", found=f"{found}; no call is without one")
    tools = ", ".join(sorted({stored.events[0].data["tool"] for stored in left}))
    count = f"{len(left)}{'+' if len(left) == MOST_COUNTED else ''}"
    return Check(
        name="owners",
        verdict="warn",
        found=f"{found}; {count} calls were left behind, of {tools}",
        advice="`clicket recover --tools …` takes them over; so does any runtime with these tools.",
    )
