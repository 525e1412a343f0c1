"""Finds the layers that work on this host by running a probe program with them. Only what was seen to hold counts."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator

import msgspec

from clicket.interpreter.sandbox import bubblewrap, environment, identity, landlock, seccomp
from clicket.interpreter.sandbox.descriptors import wait_readable
from clicket.interpreter.sandbox.isolation import LAYERS, Isolation, isolation_of
from clicket.interpreter.sandbox.launch_resources import Plan, SandboxFailed, SandboxResources
from clicket.interpreter.sandbox.launchers import launch
from clicket.interpreter.sandbox.limits import Limits
from clicket.interpreter.sandbox.process import SandboxProcess
from clicket.interpreter.sandbox.usage_monitor import memory_of, usage

__all__ = ["ProbeResult", "probe"]

_ANSWER_TIMEOUT = 60.0
_RETRY_AFTER = 60.0
"""Seconds until a failed probe is repeated."""
_ADDED = ("LC_CTYPE", "PWD", "__CF_USER_TEXT_ENCODING")
"""Variables that Python, bubblewrap and macOS add."""
_NO_CAPABILITIES = f"{0:016} {0:016} 1"
_known: dict[tuple[object, ...], ProbeResult] = {}


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """How programs are started on this host, and the isolation that gives."""

    plan: Plan
    isolation: Isolation
    failed: bool = False
    """A start failed. The machine may have lacked memory or processes just then."""
    found_at: float = msgspec.field(default_factory=time.monotonic)


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `probe_program`."""

    type: str
    layer: str = ""
    message: str = ""
    layers: list[str] = []
    uid: int = -1
    pid: int = -1
    variables: list[str] = []
    descriptors: list[int] = []
    capabilities: str = ""
    sees: bool = True
    networks: list[str] = []
    socket: str = ""
    device: str = ""
    bounds: bool = False
    adopted: bool = False
    writes: str = ""


async def probe(shared: SandboxResources, without: frozenset[str]) -> ProbeResult:
    """The result is kept in this process, by Python, layers, installed tools and readable folders."""
    key = (shared.python.executable, shared.readable, without, bubblewrap.tool(), identity.tool(), sys.platform)
    known = _known.get(key)
    if known is None or (known.failed and time.monotonic() - known.found_at > _RETRY_AFTER):
        known = _known[key] = await _try_plans(shared, without)
    return known


async def _try_plans(shared: SandboxResources, without: frozenset[str]) -> ProbeResult:
    wanted, gaps = _possible(shared, without)
    failed = False
    for plan in _plans(wanted, gaps):
        while True:
            try:
                report, host = await _run_probe(shared, plan)
            except SandboxFailed as error:
                gaps.append(f"{_failed_layer(plan)}: {error}")
                failed = True
                break
            if report.type == "ready":
                layers, found = _working_layers(report, plan, host)
                if "landlock" in layers and "namespaces" not in layers:  # beside namespaces it is only a second barrier
                    found += landlock.gaps(landlock.version())
                plan = msgspec.structs.replace(plan, layers=layers)  # noqa: PLW2901 -- with the layers that hold
                return ProbeResult(plan=plan, isolation=isolation_of(layers, (*gaps, *found)), failed=failed)
            gaps.append(f"{report.layer}: {report.message}")
            if report.layer not in plan.layers:
                break
            plan = msgspec.structs.replace(plan, layers=plan.layers - {report.layer})  # noqa: PLW2901 -- without it
    nothing = Plan(launcher="plain", layers=frozenset(), root=identity.is_root())
    return ProbeResult(plan=nothing, isolation=isolation_of((), gaps), failed=failed)


def _possible(shared: SandboxResources, without: frozenset[str]) -> tuple[frozenset[str], list[str]]:
    """The layers to try, and why the others cannot work here."""
    gaps: list[str] = []
    missing: set[str] = set(without)
    if not sys.platform.startswith("linux"):
        missing |= {"namespaces", "identity", "seccomp", "landlock", "cgroup", "subreaper"}
        gaps.append(f"system: most layers need Linux; this is {sys.platform}")
        return frozenset(LAYERS) - missing, gaps
    if "namespaces" not in missing and bubblewrap.tool() is None:
        missing.add("namespaces")
        gaps.append("namespaces: the program bwrap is not installed (package bubblewrap)")
    elif "namespaces" not in missing and (reason := bubblewrap.obstacle(shared.python)) is not None:
        missing.add("namespaces")
        gaps.append(f"namespaces: {reason}")
    if "seccomp" not in missing and (gap := seccomp.gap()) is not None:
        missing.add("seccomp")
        gaps.append(gap)
    if "landlock" not in missing and landlock.version() == 0:
        missing.add("landlock")
    if "cgroup" not in missing and not shared.parents.bounds:
        missing.add("cgroup")
    if "identity" not in missing and identity.is_root():
        if identity.tool() is None:
            missing.add("identity")
            gaps.append("identity: the program setpriv is not installed (package util-linux)")
        elif (uid := identity.allocate_uid()) is None:
            missing.add("identity")
            gaps.append("identity: this container has too few user ids to give one to each program")
        else:
            identity.release_uid(uid)
    return frozenset(LAYERS) - missing, gaps


def _plans(wanted: frozenset[str], gaps: list[str]) -> Iterator[Plan]:
    """From the strongest to the weakest; the next one is tried when a start fails."""
    root = identity.is_root()
    if "namespaces" in wanted:
        layers = wanted - {"subreaper"}
        yield Plan(launcher="bubblewrap", layers=layers, root=root)
        if not root:
            yield Plan(launcher="bubblewrap", layers=layers, root=root, disable_userns=False)
    layers = wanted - {"namespaces"}
    if "subreaper" in layers:
        if root and "identity" in layers:
            yield Plan(launcher="supervisor", layers=layers, root=root)
        yield Plan(launcher="supervisor", layers=layers - {"identity"}, root=root)
    yield Plan(launcher="plain", layers=layers - {"identity", "subreaper"}, root=root)


def _failed_layer(plan: Plan) -> str:
    """The layer to blame for a failed start."""
    if plan.launcher == "bubblewrap":
        return "namespaces"
    return "identity" if "identity" in plan.layers else "subreaper"


class _HostView(msgspec.Struct, frozen=True, kw_only=True):
    """What the host itself measured of the probe program."""

    uid: int | None
    grouped: bool
    watched: bool


async def _run_probe(shared: SandboxResources, plan: Plan) -> tuple[_Report, _HostView]:
    process = await launch(
        shared,
        plan,
        program="clicket.interpreter.sandbox.probe_program",
        settings={"hidden": str(shared.workdirs.path), "orphan": plan.launcher == "supervisor"},
        limits=Limits(),
        isolation=isolation_of(()),
        on_closed=lambda _: None,
    )
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT):
            report = msgspec.json.decode(await _first_frame(process), type=_Report)
        pids = process.pids()
        watched = memory_of(pids) > 0 and usage(process.work_fd, size=1 << 40, entries=100).entries >= 0
        return report, _HostView(uid=process.uid, grouped=process.grouped(), watched=watched)
    except (TimeoutError, EOFError, msgspec.DecodeError) as error:
        raise SandboxFailed(f"the probe program in the sandbox gave no valid answer: {error!r}.") from error
    finally:
        await process.close()


async def _first_frame(process: SandboxProcess) -> bytes:
    found = b""
    while len(found) < 4 or len(found) < 4 + int.from_bytes(found[:4], "big"):
        await wait_readable(process.answers)
        piece = os.read(process.answers, 65536)
        if not piece:
            raise EOFError("the frame is incomplete")
        found += piece
    return found[4:]


def _working_layers(report: _Report, plan: Plan, host: _HostView) -> tuple[frozenset[str], list[str]]:
    """The layers of the plan that hold, and what is wrong with the others."""
    holds = {
        "environment": (not _inherited(report.variables), f"the program was given {_inherited(report.variables)}"),
        "namespaces": (
            not report.sees and report.pid < 10 and report.networks in ([], ["lo"]),
            "files, processes or networks of the host could be seen from inside",
        ),
        "identity": (
            _has_no_rights(report, plan, host),
            "the program had a user id or capabilities that it should not have",
        ),
        "seccomp": (bool(report.socket), "a socket to the network could be opened"),
        "landlock": (bool(report.device), "a device could be written to"),
        "rlimits": (report.bounds, "the program could raise a limit"),
        "cgroup": (host.grouped, "the program was not in the cgroup that was made for it"),
        "watch": (host.watched, "the memory of the program could not be read"),
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


def _inherited(variables: list[str]) -> list[str]:
    """Variables that neither we nor the system added."""
    return [name for name in variables if name not in {*environment.NAMES, *_ADDED}]


def _has_no_rights(report: _Report, plan: Plan, host: _HostView) -> bool:
    expected = host.uid if plan.root else bubblewrap.UID
    return report.uid == expected != 0 and report.capabilities == _NO_CAPABILITIES
