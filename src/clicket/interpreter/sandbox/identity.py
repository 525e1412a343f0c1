"""The layer `identity`: when the host is root, each program runs under a user id of its own, without capabilities."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
from collections.abc import Iterable

__all__ = ["allocate_uid", "is_root", "no_capabilities_prefix", "release_uid", "run_as_prefix", "tool"]

# Above what distributions, directory services and containers assign, below the signed 32-bit limit.
_FREE = (0x7000_0000, 0x7FFF_FFF0)
_USUAL_END = 61_184  # systemd reserves the range from here to 65,535
_MIN_RANGE = 4096
in_use: set[int] = set()


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def tool() -> str | None:
    """`setpriv`, which changes the user id and drops groups and capabilities."""
    return shutil.which("setpriv")


def allocate_uid() -> int | None:
    """A user id that no account and no other program of this process has; None where the range is too small."""
    low, high = _range(_mapped())
    taken = _accounts()
    if high - low < _MIN_RANGE:
        return None
    for _ in range(1000):
        uid = low + secrets.randbelow(high - low)
        if uid not in taken and uid not in in_use:
            in_use.add(uid)
            return uid
    in_use.clear()  # a small range, used up mostly by programs that have ended
    return allocate_uid()


def release_uid(uid: int | None) -> None:
    """Call it when nothing of the program is left: another program may get the user id."""
    in_use.discard(uid or 0)


def run_as_prefix(setpriv: str, uid: int) -> list[str]:
    """The prefix of a command that runs as that user (real, effective and saved), without groups and capabilities."""
    program, *without_capabilities = no_capabilities_prefix(setpriv)
    return [program, f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *without_capabilities]


def no_capabilities_prefix(setpriv: str) -> list[str]:
    """The prefix of a command that stays root but loses all capabilities."""
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs", "--"]


def _mapped() -> list[tuple[int, int]]:
    """The ranges of user ids that exist here: in a container they are small."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as lines:
            rows = [line.split() for line in lines]
        return [(int(first), int(first) + int(length)) for first, _, length in rows]
    except (OSError, ValueError):
        return [(0, 1 << 16)]


def _range(mapped: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The range, without its end, from which user ids of programs are taken."""
    start, end = max(mapped, key=lambda part: min(part[1], _FREE[1]) - part[0])
    if end >= _FREE[1] and start <= _FREE[0]:
        return _FREE
    end = min(end, _FREE[1])
    if start < _USUAL_END < end <= 1 << 16:
        end = _USUAL_END
    return max(start + (end - start) // 2, 1), end


@functools.lru_cache(maxsize=1)
def _accounts() -> frozenset[int]:
    numbers: set[int] = set()
    for path in ("/etc/passwd", "/etc/group"):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                parts = line.split(":")
                if len(parts) > 2 and parts[2].isdigit():
                    numbers.add(int(parts[2]))
    return frozenset(numbers)
