"""`fcntl.flock` where the sandbox refuses it: by locks on the whole file that belong to the open file, as NFS does it.

The kernel lets `flock` lock any file that can be read, so that a program could hold up the host. These locks want a file that is
open for writing when they are exclusive, and a program can write nothing of the host's."""

from __future__ import annotations

from clicket.interpreter.inside.safe_builtins import BUILTINS

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    from typing import Any

__all__ = ["adopt"]

globals()["__builtins__"] = BUILTINS

_SET, _SET_AND_WAIT = 37, 38  # F_OFD_SETLK, F_OFD_SETLKW
_SHARED, _EXCLUSIVE, _NOT_NOW, _UNLOCK = 1, 2, 4, 8
_KINDS = {_SHARED: 0, _EXCLUSIVE: 1, _UNLOCK: 2}  # F_RDLCK, F_WRLCK, F_UNLCK
_REFUSED, _INVALID = 38, 22  # ENOSYS, EINVAL
_WHOLE = bytes(30)  # from the start of the file, without an end; the kind stands before it


def adopt(fcntl: Any) -> None:
    """Give the module a `flock` that works here, too. The module's own is asked first."""
    own, control = fcntl.flock, fcntl.fcntl

    def flock(fd: Any, operation: int, /) -> None:
        """Lock a file, or take the lock off: LOCK_SH, LOCK_EX, LOCK_UN, with LOCK_NB."""
        try:
            own(fd, operation)
            if operation & _UNLOCK:
                control(fd, _SET, _KINDS[_UNLOCK].to_bytes(2, "little") + _WHOLE)
            return
        except OSError as error:
            kind = _KINDS.get(operation & ~_NOT_NOW)
            if error.errno != _REFUSED:
                raise
            if kind is None:
                raise OSError(_INVALID, "Invalid argument") from None
        control(fd, _SET if operation & _NOT_NOW else _SET_AND_WAIT, kind.to_bytes(2, "little") + _WHOLE)

    fcntl.flock = flock
