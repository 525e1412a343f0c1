"""`fcntl.flock` where the sandbox refuses it, by open file description locks on the whole file, as NFS does.

The kernel lets `flock` lock every readable file, so a program could block the host. The locks used here need a file that is open for
writing if they are exclusive, and a program cannot write host files."""

from __future__ import annotations

from clicket.interpreter.inside.safe_builtins import BUILTINS

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from typing import Any

__all__ = ["patch_flock"]

globals()["__builtins__"] = BUILTINS

_SET, _SET_AND_WAIT = 37, 38  # F_OFD_SETLK, F_OFD_SETLKW
_SHARED, _EXCLUSIVE, _NOT_NOW, _UNLOCK = 1, 2, 4, 8
_KINDS = {_SHARED: 0, _EXCLUSIVE: 1, _UNLOCK: 2}  # F_RDLCK, F_WRLCK, F_UNLCK
_REFUSED, _INVALID = 38, 22  # ENOSYS, EINVAL
_WHOLE = bytes(30)  # the rest of a `struct flock` for the whole file


def patch_flock(fcntl: Any) -> None:
    """Replace the module's `flock` by one that works here too. It calls the module's own first."""
    own, control = fcntl.flock, fcntl.fcntl

    def flock(fd: Any, operation: int, /) -> None:
        """Lock or unlock a file: LOCK_SH, LOCK_EX, LOCK_UN, with LOCK_NB."""
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
