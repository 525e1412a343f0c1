"""Files and folders of ours are their owner's alone from the moment they are there. What is there already keeps its mode."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["HOME", "create", "make_folder", "opener"]

HOME = ".clicket"
"""The folder beside a project where clicket keeps what it makes. Version control leaves it out."""

_IGNORE = "# Made by clicket: calls, results and indexes of this project.\n*\n"


def make_folder(path: Path) -> list[Path]:
    """Make a folder, and those above it that are missing; which were made, the outermost first."""
    if path.is_dir():
        return []
    made = make_folder(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():  # nobody made it meanwhile: it is a file
            raise
        return made
    if path.name == HOME:
        _keep_out_of_version_control(path)
    return [*made, path]


def create(path: Path) -> None:
    """Make an empty file, unless there is one."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def opener(path: str, flags: int) -> int:
    """For `open(…, opener=opener)`: a file that is made by it is its owner's alone."""
    return os.open(path, flags, 0o600)


def _keep_out_of_version_control(folder: Path) -> None:
    with contextlib.suppress(OSError), open(folder / ".gitignore", "x", encoding="utf-8", opener=opener) as file:
        file.write(_IGNORE)
