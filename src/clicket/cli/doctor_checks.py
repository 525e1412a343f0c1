"""The checks of `clicket doctor` that reach beyond this process: the store, the authorization server and the sandbox for programs."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Literal

import msgspec

from clicket.cli.context import Context
from clicket.cli.formatting import duration, retention_of, shown_url, size
from clicket.cli.orphans import MAX_COUNTED, Owners, orphans
from clicket.errors import ClicketError, StoreUnavailable
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.safety.oauth.refusals import IssuerUnavailable
from clicket.safety.oauth.resource_server import ResourceServer

__all__ = ["Check", "oauth_check", "sandbox_check", "store_checks"]

_SLOW_WRITE = 0.25
_BUS_PATIENCE = 3.0
_MANY_LISTENERS = 30
_REMEDIES = {
    "namespaces": (
        "Install bubblewrap (apt-get install bubblewrap). If it is installed and fails, user namespaces are forbidden: "
        "on Ubuntu allow them for bwrap by an AppArmor profile or kernel.apparmor_restrict_unprivileged_userns=0, in a "
        "container start it with a seccomp profile that allows them, or run as root."
    ),
    "identity": "Install setpriv (apt-get install util-linux), or run as an ordinary user.",
    "seccomp": "The kernel must have seccomp filters, on x86-64 or arm64.",
    "landlock": "The kernel must be 5.13 or newer, with landlock among its security modules.",
    "cgroup": "As root, or by a delegated cgroup (systemd: Delegate=yes), the kernel limits memory.",
}
"""How to get each layer of the sandbox that is missing."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    name: str
    verdict: Literal["ok", "warn", "fail"] = "ok"
    found: str
    advice: str = ""
    unreachable: bool = False

    @classmethod
    def warn_if(cls, problem: bool, *, name: str, found: str, advice: str) -> Check:
        return cls(name=name, verdict="warn", found=found, advice=advice) if problem else cls(name=name, found=found)


async def store_checks(context: Context) -> AsyncIterator[Check]:
    """Open the store with a runtime without tools, which does not change any call."""
    try:
        if context.settings.store.startswith("memory:"):
            yield Check(name="store", found="memory://: calls are lost when their process ends")
            return
        if not context.store_exists:
            yield Check(name="store", found=f"{context.store_url}: does not exist yet; the first call makes it")
            return
        async with Runtime((), settings=context.settings.replace(open_timeout=0)) as runtime:  # without waiting for it
            yield await _reached(runtime)
            yield Check(name="retention", found=retention_of(context.settings))
            for risk in getattr(runtime.store, "risks", []):
                yield Check(name="store risk", verdict="warn", found=shown_url(risk))
            yield await _owners(runtime)
            yield await _workers(runtime)
            yield await _queue(runtime)
            yield await _bus(runtime)
    except ClicketError as error:
        lost = isinstance(error, StoreUnavailable)
        yield Check(name="store", verdict="fail", found=shown_url(error.message), unreachable=lost)
    except Exception as error:
        yield Check(name="store", verdict="fail", found=shown_url(f"{type(error).__name__}: {error}"))


async def _reached(runtime: Runtime) -> Check:
    store = runtime.store
    probe = f"doctor:{os.getpid()}"
    began = time.perf_counter()
    await store.hold(probe, 1, 1)
    took = time.perf_counter() - began
    await store.hold(probe, 0, 1)
    active = await runtime.history(active=True, limit=MAX_COUNTED)
    count = f"{len(active.items)}{'+' if active.cursor else ''} active calls"
    found = (
        f"{store.url}: {size(await store.size())}, {count}, durability {store.durability}, written in {duration(took)}"
    )
    advice = "Writing is slow, and every call waits for it."
    return Check.warn_if(took > _SLOW_WRITE, name="store", found=found, advice=advice)


async def _bus(runtime: Runtime) -> Check:
    """Do messages of the bus arrive, and can what carries them serve as many processes as there are?"""
    bus = runtime.store.bus
    if bus.me == 0:
        return Check(name="bus", found="none: processes look at the store")
    give_up = time.perf_counter() + _BUS_PATIENCE
    while bus.trouble is not None and time.perf_counter() < give_up:  # noqa: ASYNC110  # it has no event for this
        await asyncio.sleep(0.02)
    if bus.trouble is not None:
        return Check(
            name="bus",
            verdict="warn",
            found=f"{bus.name}: {shown_url(bus.trouble)}",
            advice="Calls go on, and wait up to 0.25 s for a worker to look. Start the bus, or look at the setting notices.",
        )
    alive = sum(presence.alive for presence in await runtime.store.owners())
    many = bus.name == "store" and runtime.store.url.startswith("postgres") and alive > _MANY_LISTENERS
    return Check.warn_if(
        many,
        name="bus",
        found=f"{bus.name}: they arrive; {alive} processes",
        advice=f"PostgreSQL wakes every listening process at each message. Beyond {_MANY_LISTENERS}, give the bus a carrier: "
        "notices = 'nats://…' or 'redis://…'.",
    )


async def _owners(runtime: Runtime) -> Check:
    owners = await Owners.of(runtime)
    left = await orphans(runtime)
    found = f"{len(owners.alive)} alive, {len(owners.gone)} dead"
    if not left:
        return Check(name="owners", found=f"{found}; no call has a dead owner")
    tools = ", ".join(sorted({stored.events[0].data["tool"] for stored in left}))
    count = f"{len(left)}{'+' if len(left) == MAX_COUNTED else ''}"
    return Check(
        name="owners",
        verdict="warn",
        found=f"{found}; {count} calls have a dead owner, of {tools}",
        advice="`clicket recover --tools …` takes them over; so does any runtime with these tools.",
    )


async def _workers(runtime: Runtime) -> Check:
    workers = await runtime.workers.list()
    states = Counter(worker.state for worker in workers)
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"
    versions = sorted({worker.version for worker in workers if worker.state != "lost"})
    found = f"{counts}; `clicket workers` lists them" + (f"; clicket {', '.join(versions)}" if versions else "")
    advice = "A lost worker ended without signing off. Its calls are taken over; look at its log and its host."
    return Check.warn_if(states["lost"] > 0, name="workers", found=found, advice=advice)


async def _queue(runtime: Runtime) -> Check:
    queue = await runtime.queue()
    if not queue.items:
        return Check(name="queue", found="no call waits for a worker")
    lines = [
        f"\n- {each.tool} {each.version}: {each.length}, the oldest for {duration(each.oldest_seconds)}"
        + ("" if each.served else "; no worker of this version is alive")
        for each in queue.items
    ]
    return Check.warn_if(
        not all(each.served for each in queue.items),
        name="queue",
        found=f"{queue.length} calls wait for a worker" + "".join(lines),
        advice="Start `clicket worker` with these tools and their labels; a worker of another version takes them, too.",
    )


async def sandbox_check() -> Check:
    """The isolation that programs of the code interpreter get here. Each layer is tried, not looked up."""
    from clicket.interpreter.sandbox import Sandbox

    sandbox = Sandbox(require="none")
    try:
        isolation = await sandbox.isolation()
    finally:
        await sandbox.close()
    gaps = [gap for gap in isolation.gaps if not gap.startswith("kernel:")]
    found = f"isolation {isolation.level}: {', '.join(isolation.layers) or 'no layer works'}"
    found += "".join(f"\n- {gap}" for gap in gaps)
    advice = [text for name, text in _REMEDIES.items() if name not in isolation.layers]
    first = f"`clicket code` and the code interpreter refuse to run without --require {isolation.level}."
    problem = isolation.level != "full"
    return Check.warn_if(problem, name="code sandbox", found=found, advice=" ".join([first, *advice]))


async def oauth_check(settings: Settings) -> Check:
    """Is the authorization server reached, and does it have what this server needs of it?"""
    config = settings.oauth
    assert config is not None
    scopes = ", ".join(f"{name} → {'+'.join(ours)}" for name, ours in config.scopes_map.items())
    found = f"{config.issuer}, for {', '.join(config.audiences)}; {scopes}"
    made = ResourceServer(config)
    try:
        return Check(name="oauth", found=f"{found}; {await made.check()}")
    except IssuerUnavailable as error:
        advice = "Access tokens are refused with 503 until it works. API keys are not affected."
        return Check(name="oauth", verdict="warn", found=f"{found}; {error.message}", advice=advice)
    finally:
        await made.close()
