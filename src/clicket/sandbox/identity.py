"""The layer `identity`: a program of root's runs as a user that nobody else is, without any capability, for good."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
from collections.abc import Iterable

__all__ = ["choose", "drop", "give_back", "is_root", "shed", "tool"]

# Above what distributions, directory services and containers give out, below what signed numbers can hold.
_FREE = (0x7000_0000, 0x7FFF_FFF0)
_USUAL_END = 61_184  # from here to 65,535 systemd has plans
_FEWEST = 4096
_given: set[int] = set()


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def tool() -> str | None:
    """The program that changes the user and lets go of everything else."""
    return shutil.which("setpriv")


def choose() -> int | None:
    """A user number that no account has and no other cage of this process has now; None where there are too few."""
    low, high = _range(_mapped())
    taken = _accounts()
    if high - low < _FEWEST:
        return None
    for _ in range(1000):
        uid = low + secrets.randbelow(high - low)
        if uid not in taken and uid not in _given:
            _given.add(uid)
            return uid
    _given.clear()  # a small range, used up by cages that are mostly gone
    return choose()


def give_back(uid: int | None) -> None:
    """Nothing of that cage is left: the number may be somebody else's again."""
    _given.discard(uid or 0)


def drop(setpriv: str, uid: int) -> list[str]:
    """What is put before a command to run it as that user: real, effective and saved, no groups, nothing to regain."""
    return [
        setpriv,
        f"--reuid={uid}",
        f"--regid={uid}",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--ambient-caps=-all",
        "--no-new-privs",
        "--",
    ]


def shed(setpriv: str) -> list[str]:
    """What is put before a command of root's that has to stay root: it is left no power but to be uid 0."""
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs", "--"]


def _mapped() -> list[tuple[int, int]]:
    """The numbers that mean somebody here: in a container they are few."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as lines:
            rows = [line.split() for line in lines]
        return [(int(first), int(first) + int(length)) for first, _, length in rows]
    except (OSError, ValueError):
        return [(0, 1 << 16)]


def _range(mapped: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """From which number to which one (not included) a cage's user is taken."""
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
