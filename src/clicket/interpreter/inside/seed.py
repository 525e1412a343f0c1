"""Files that a library would otherwise make anew in every session, copied to where it looks for them."""

import os

__all__ = ["plant"]

_MOST = 8 * 1024 * 1024


def plant(folder: str, variable: str = "MPLCONFIGDIR") -> None:
    """Copy the files of a folder into the one that a variable names. Without them the library makes its own: no error counts."""
    target = os.environ.get(variable)
    try:
        names = os.listdir(folder) if target else []
        if not target or not names:
            return
        os.makedirs(target, mode=0o700, exist_ok=True)
        for name in names:
            _copy(f"{folder}/{name}", f"{target}/{name}")
    except OSError:
        return


def _copy(source: str, target: str) -> None:
    read = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(read).st_size > _MOST:
            return
        write = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            while piece := os.read(read, 1 << 20):
                os.write(write, piece)
        finally:
            os.close(write)
    finally:
        os.close(read)
