"""Runs in the sandbox: tries what the layers should prevent, and reports what succeeded."""

from __future__ import annotations

import os

from clicket.interpreter.sandbox import frames

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main"]

_INET, _DATAGRAM = 2, 2


def main(commands: int, answers: int, settings: dict[str, Any], layers: list[str]) -> None:
    """`settings`: `hidden`, a path of the host; `orphan`, whether to test which process adopts an orphan."""
    found = {
        "type": "ready",
        "layers": layers,
        "uid": os.getuid(),
        "pid": os.getpid(),
        "variables": sorted(os.environ),
        "descriptors": _descriptors(),
        "capabilities": _capabilities(),
        "sees": os.path.exists(settings["hidden"]),
        "networks": _networks(),
        "socket": _tried(_socket),
        "device": _tried(_device),
        "bounds": _bounds(layers),
        "adopted": settings["orphan"] and _adopted(),
        "writes": _tried(_write),
    }
    frames.write(answers, found)
    frames.read(commands)


def _tried(attempt: Any) -> str:
    """Empty when it worked."""
    try:
        attempt()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _socket() -> None:
    import _socket

    _socket.socket(_INET, _DATAGRAM, 0).close()


def _device() -> None:
    """Every user may write to it: only Landlock prevents that."""
    os.close(os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC))


def _write() -> None:
    with open("probe", "w") as file:
        file.write("x")
    os.unlink("probe")


def _bounds(layers: list[str]) -> bool:
    """Whether a limit is set that cannot be raised."""
    import resource

    if "rlimits" not in layers:
        return False
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard + 1, hard + 1))
    except (ValueError, OSError):
        return hard != resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    return False  # it was raised, as root can


def _descriptors() -> list[int]:
    """The open ones, without the one that lists them."""
    try:
        names = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        names = list(range(256))
    found = []
    for fd in names:
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.append(fd)
    return sorted(found)


def _capabilities() -> str:
    """Permitted and effective capabilities as the kernel writes them, and 1 when no_new_privs is set."""
    found = []
    try:
        with open("/proc/self/status") as lines:
            found = [line.split()[1] for line in lines if line.startswith(("CapPrm", "CapEff", "NoNewPrivs"))]
    except OSError:
        return ""
    return " ".join(found)


def _networks() -> list[str]:
    try:
        with open("/proc/net/dev") as lines:
            return [line.split(":")[0].strip() for line in lines if ":" in line]
    except OSError:
        return []


def _adopted() -> bool:
    """Start a child that starts a child and exits. Whether the orphan's new parent is our own parent."""
    ours = os.getppid()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        middle = os.getpid()
        if os.fork() == 0:
            os.close(read)
            while os.getppid() == middle:
                os.sched_yield()
            os.write(write, b"y" if os.getppid() == ours else b"n")
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    answer = os.read(read, 1)
    os.close(read)
    return answer == b"y"
