"""What `clicket doctor` looks at beside this process: a store, whatever its kind, and the sandbox for programs."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from typing import Literal

import msgspec

from clicket.cli.formatting import duration, shown_url, size
from clicket.cli.orphans import MOST_COUNTED, Owners, orphans
from clicket.cli.session import Session
from clicket.errors import ClicketError, StoreUnavailable
from clicket.runtime import Runtime

__all__ = ["Check", "sandbox_check", "store_checks"]

_SLOW_WRITE = 0.25
_REMEDIES = {
    "namespaces": (
        "Install bubblewrap (apt-get install bubblewrap). Where it is there and fails, user namespaces are forbidden: "
        "on Ubuntu allow them for bwrap by an AppArmor profile or kernel.apparmor_restrict_unprivileged_userns=0, in a "
        "container start it with a seccomp profile that allows them, or run as root."
    ),
    "identity": "Install setpriv (apt-get install util-linux), or run as an ordinary user.",
    "seccomp": "The kernel must have seccomp filters, on x86-64 or arm64.",
    "landlock": "The kernel must be 5.13 or newer, with landlock among its security modules.",
    "cgroup": "As root, or by a delegated cgroup (systemd: Delegate=yes), memory is bounded by the kernel itself.",
}
"""What closes the gap that a missing layer of the sandbox leaves."""


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
        async with Runtime((), settings=session.settings.replace(open_timeout=0)) as runtime:  # what is there now?
            yield await _reached(runtime)
            for risk in getattr(runtime.store, "risks", []):
                yield Check(name="store risk", verdict="warn", found=shown_url(risk))
            yield await _owners(runtime)
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


async def sandbox_check() -> Check:
    """How well programs of the code interpreter are kept here. The layers are tried, not looked up."""
    from clicket.sandbox import Sandbox

    sandbox = Sandbox(require="none")
    try:
        isolation = await sandbox.isolation()
    finally:
        await sandbox.close()
    gaps = [gap for gap in isolation.gaps if not gap.startswith("kernel:")]
    found = f"isolation {isolation.level}: {', '.join(isolation.layers) or 'no layer works'}"
    found += "".join(f"\n- {gap}" for gap in gaps)
    advice = [text for name, text in _REMEDIES.items() if name not in isolation.layers]
    if isolation.level == "full":
        return Check(name="code sandbox", found=found)
    first = f"`clicket code` and the code interpreter refuse to run, unless told --require {isolation.level}."
    return Check(name="code sandbox", verdict="warn", found=found, advice=" ".join([first, *advice]))
