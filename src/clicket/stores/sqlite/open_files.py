"""Are the files that a store opened still the ones with their names? What is written to a removed file is lost."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["OpenFiles"]


class OpenFiles:
    """The database, its log and its index, by device and inode."""

    def __init__(self, path: Path) -> None:
        self._files = {name: _identity(name) for name in (str(path), f"{path}-wal", f"{path}-shm")}

    def were_replaced(self) -> bool:
        """Is one of them removed, or another file?"""
        for name, known in self._files.items():
            found = _identity(name)
            if known is None:
                self._files[name] = found
            elif found != known:
                return True
        return False


def _identity(path: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
