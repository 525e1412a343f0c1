"""Tries the layers out, by running a program in a cage that has them, and believes nothing but what it saw."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator

import msgspec

from clicket.sandbox import bubblewrap, environment, identity, landlock, seccomp
from clicket.sandbox.descriptors import wait_readable
from clicket.sandbox.isolation import LAYERS, Isolation, judge
from clicket.sandbox.launch import launch
from clicket.sandbox.launch_resources import Plan, SandboxFailed, SandboxResources
from clicket.sandbox.limits import Limits
from clicket.sandbox.process import SandboxProcess
from clicket.sandbox.usage_monitor import memory_of, usage

__all__ = ["ProbeResult", "probe"]

_PATIENCE = 60.0
_AGAIN = 60.0
"""Seconds until what failed is tried again."""
_ADDED = ("LC_CTYPE", "PWD", "__CF_USER_TEXT_ENCODING")
"""By Python, by bubblewrap, by macOS."""
_NO_POWERS = f"{0:016} {0:016} 1"
_known: dict[tuple[object, ...], ProbeResult] = {}


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """How cages are made on this host, and what that is worth."""

    plan: Plan
    isolation: Isolation
    failed: bool = False
    """A cage that was tried did not start. The machine may have been short of something just then."""
    found_at: float = msgspec.field(default_factory=time.monotonic)


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the trial says; see `trial.py`."""

    type: str
    layer: str = ""
    message: str = ""
    layers: list[str] = []
    uid: int = -1
    pid: int = -1
    variables: list[str] = []
    descriptors: list[int] = []
    powers: str = ""
    sees: bool = True
    networks: list[str] = []
    socket: str = ""
    device: str = ""
    bounds: bool = False
    adopted: bool = False
    writes: str = ""


async def probe(ground: SandboxResources, without: frozenset[str]) -> ProbeResult:
    """Once for each interpreter, set of layers, set of tools and set of folders, in a process."""
    key = (ground.python.executable, ground.readable, without, bubblewrap.tool(), identity.tool(), sys.platform)
    known = _known.get(key)
    if known is None or (known.failed and time.monotonic() - known.found_at > _AGAIN):
        known = _known[key] = await _try_out(ground, without)
    return known


async def _try_out(ground: SandboxResources, without: frozenset[str]) -> ProbeResult:
    wanted, gaps = _possible(ground, without)
    failed = False
    for plan in _plans(wanted, gaps):
        while True:
            try:
                report, seen = await _trial(ground, plan)
            except SandboxFailed as error:
                gaps.append(f"{_lost(plan)}: {error}")
                failed = True
                break
            if report.type == "ready":
                layers, found = _judge(report, plan, seen)
                if "landlock" in layers and "namespaces" not in layers:  # beside those it is a second fence only
                    found += landlock.gaps(landlock.version())
                plan = msgspec.structs.replace(plan, layers=layers)  # noqa: PLW2901 -- what is left of it
                return ProbeResult(plan=plan, isolation=judge(layers, (*gaps, *found)), failed=failed)
            gaps.append(f"{report.layer}: {report.message}")
            if report.layer not in plan.layers:
                break
            plan = msgspec.structs.replace(plan, layers=plan.layers - {report.layer})  # noqa: PLW2901 -- the same, without it
    nothing = Plan(launcher="plain", layers=frozenset(), root=identity.is_root())
    return ProbeResult(plan=nothing, isolation=judge((), gaps), failed=failed)


def _possible(ground: SandboxResources, without: frozenset[str]) -> tuple[frozenset[str], list[str]]:
    """The layers that are worth trying, and why the others are not."""
    gaps: list[str] = []
    missing: set[str] = set(without)
    if not sys.platform.startswith("linux"):
        missing |= {"namespaces", "identity", "seccomp", "landlock", "cgroup", "subreaper"}
        gaps.append(f"system: cages are made of what Linux offers; on {sys.platform} little of that is there")
        return frozenset(LAYERS) - missing, gaps
    if "namespaces" not in missing and bubblewrap.tool() is None:
        missing.add("namespaces")
        gaps.append("namespaces: the program bwrap is not installed (package bubblewrap)")
    elif "namespaces" not in missing and (reason := bubblewrap.obstacle(ground.python)) is not None:
        missing.add("namespaces")
        gaps.append(f"namespaces: {reason}")
    if "seccomp" not in missing and (gap := seccomp.gap()) is not None:
        missing.add("seccomp")
        gaps.append(gap)
    if "landlock" not in missing and landlock.version() == 0:
        missing.add("landlock")
    if "cgroup" not in missing and not ground.parents.bounds:
        missing.add("cgroup")
    if "identity" not in missing and identity.is_root():
        if identity.tool() is None:
            missing.add("identity")
            gaps.append("identity: the program setpriv is not installed (package util-linux)")
        elif (uid := identity.choose()) is None:
            missing.add("identity")
            gaps.append("identity: this container has too few user numbers to give one to each cage")
        else:
            identity.give_back(uid)
    return frozenset(LAYERS) - missing, gaps


def _plans(wanted: frozenset[str], gaps: list[str]) -> Iterator[Plan]:
    """From the strongest to the weakest; the next is asked for when one does not start."""
    root = identity.is_root()
    if "namespaces" in wanted:
        layers = wanted - {"subreaper"}
        yield Plan(launcher="bubblewrap", layers=layers, root=root)
        if not root:
            yield Plan(launcher="bubblewrap", layers=layers, root=root, disable_userns=False)
    layers = wanted - {"namespaces"}
    if "subreaper" in layers:
        if root and "identity" in layers:
            yield Plan(launcher="guard", layers=layers, root=root)
        yield Plan(launcher="guard", layers=layers - {"identity"}, root=root)
    yield Plan(launcher="plain", layers=layers - {"identity", "subreaper"}, root=root)


def _lost(plan: Plan) -> str:
    """The layer that a failed start is the failure of."""
    if plan.launcher == "bubblewrap":
        return "namespaces"
    return "identity" if "identity" in plan.layers else "subreaper"


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the host itself saw of a trial."""

    uid: int | None
    grouped: bool
    watched: bool


async def _trial(ground: SandboxResources, plan: Plan) -> tuple[_Report, _Seen]:
    process = await launch(
        ground,
        plan,
        program="clicket.sandbox.probe_program",
        settings={"hidden": str(ground.home.path), "orphan": plan.launcher == "guard"},
        limits=Limits(),
        isolation=judge(()),
        forget=lambda _: None,
    )
    try:
        async with asyncio.timeout(_PATIENCE):
            report = msgspec.json.decode(await _first_frame(process), type=_Report)
        pids = process.pids()
        watched = memory_of(pids) > 0 and usage(process.work_fd, size=1 << 40, entries=100).entries >= 0
        return report, _Seen(uid=process.uid, grouped=process.grouped(), watched=watched)
    except (TimeoutError, EOFError, msgspec.DecodeError) as error:
        raise SandboxFailed(f"the trial of a cage gave no sensible answer: {error!r}.") from error
    finally:
        await process.close()


async def _first_frame(process: SandboxProcess) -> bytes:
    found = b""
    while len(found) < 4 or len(found) < 4 + int.from_bytes(found[:4], "big"):
        await wait_readable(process.answers)
        piece = os.read(process.answers, 65536)
        if not piece:
            raise EOFError("it ended in the middle")
        found += piece
    return found[4:]


def _judge(report: _Report, plan: Plan, seen: _Seen) -> tuple[frozenset[str], list[str]]:
    """The layers of the plan that the trial found to hold, and what is wrong with the others."""
    holds = {
        "environment": (not _strangers(report.variables), f"the program was given {_strangers(report.variables)}"),
        "namespaces": (
            not report.sees and report.pid < 10 and report.networks in ([], ["lo"]),
            "files, processes or networks of the host could be seen from inside",
        ),
        "identity": (_is_nobody(report, plan, seen), "the program had a user or powers that it should not have"),
        "seccomp": (bool(report.socket), "a socket to the network could be opened"),
        "landlock": (bool(report.device), "a device could be written to"),
        "rlimits": (report.bounds, "a bound could be raised by the program"),
        "cgroup": (seen.grouped, "the program was not in the group that was made for it"),
        "watch": (seen.watched, "the memory of the program could not be read"),
        "subreaper": (report.adopted, "an orphan of the program was not adopted"),
    }
    good = frozenset(name for name in plan.layers if holds[name][0])
    gaps = [f"{name}: {holds[name][1]}" for name in LAYERS if name in plan.layers - good]
    if report.descriptors != [0, 1, 2, 3, 4]:
        gaps.append(f"environment: the program had the descriptors {report.descriptors}")
        good -= {"environment"}
    if plan.launcher == "bubblewrap" and not plan.disable_userns:
        gaps.append("namespaces: this bwrap cannot forbid further user namespaces; seccomp does")
    if report.uid == 0 and "cgroup" not in good:
        gaps.append("rlimits: the kernel does not count the processes of root; their number is not bounded")
    if "landlock" in good and "namespaces" not in good:
        gaps.append("landlock: /dev/shm is closed, too, so that locks and pools of multiprocessing cannot be made")
    if report.writes:
        gaps.append(f"work folder: it cannot be written to: {report.writes}")
    return good, gaps


def _strangers(variables: list[str]) -> list[str]:
    """Those that we did not give, and that no system adds by itself."""
    return [name for name in variables if name not in {*environment.NAMES, *_ADDED}]


def _is_nobody(report: _Report, plan: Plan, seen: _Seen) -> bool:
    if plan.root:
        return report.uid == seen.uid != 0 and report.powers == _NO_POWERS
    return report.uid == bubblewrap.UID and report.powers == _NO_POWERS
