"""The first code inside a cage. It takes the layers that are put on from within, in the order rlimits, Landlock, seccomp, and
only then hands over to the program; a layer that was asked for and does not hold means that nothing runs."""

from __future__ import annotations

# `_signal` and not `signal`, no `typing`, no `contextlib`: each draws in `enum` or `re`, which cost more than all of this.
import os
import sys

from clicket.sandbox import frames

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn
else:
    import _signal

__all__ = ["main"]

REFUSED = 3
"""The exit status after a frame `refused`."""


class _Refused(Exception):
    """A layer that was asked for does not hold."""

    def __init__(self, layer: str, message: str) -> None:
        super().__init__(message)
        self.layer = layer


def main(commands: int, answers: int) -> NoReturn:
    """The process ends in here: nothing that the program has left to be done at exit will run."""
    try:
        order = frames.read(commands)
        if order is None:  # the host went away, or changed its mind
            os._exit(0)
        run, layers = _prepare(order, commands, answers)
    except BaseException as error:  # whatever it was: the host has to hear of it, and nothing may run
        _refuse(answers, error)
    try:
        run(commands, answers, order.get("settings", {}), layers)
    except BaseException:
        sys.__excepthook__(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def _prepare(order: dict[str, Any], commands: int, answers: int) -> tuple[Callable[..., Any], list[str]]:
    """Everything that is between the first frame and the program's own code."""
    _clean(commands, answers)
    layers = list(_apply(order))
    os.chdir(order["home"])
    sys.path += order.get("path", [])
    __import__(order["program"])
    return sys.modules[order["program"]].main, layers


def _apply(order: dict[str, Any]) -> Iterator[str]:
    """Put the layers on, and name each that holds."""
    for layer in ("rlimits", "landlock", "seccomp"):
        rules = order.get(layer)
        if rules is None:
            continue
        try:
            module = __import__(f"clicket.sandbox.{layer}", fromlist=["apply"])
            module.apply(rules)
        except Exception as error:
            raise _Refused(layer, f"{type(error).__name__}: {error}") from error
        yield layer


def _clean(commands: int, answers: int) -> None:
    """Undo what may have been inherited: descriptors, signals that are ignored or blocked, a generous umask.

    The process stays dumpable. The host reads its memory use from /proc as the same user, and the program its own
    descriptors; what others could do with that is tracing, and that is seccomp's to refuse.
    """
    os.umask(0o077)
    try:
        known = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        known = list(range(3, 256))
    for fd in known:
        if fd > 2 and fd not in {commands, answers}:
            _close(fd)
    for fd in (commands, answers):
        os.set_inheritable(fd, False)  # what the program starts shall not speak for it
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    pythons_own = {_signal.SIGPIPE, _signal.SIGXFSZ}  # ignored so that they come as exceptions
    for number in _signal.valid_signals() - pythons_own:
        if _signal.getsignal(number) == _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        return  # that of the listing


def _refuse(answers: int, error: BaseException) -> NoReturn:
    layer = error.layer if isinstance(error, _Refused) else "boot"
    message = str(error) if isinstance(error, _Refused) else f"{type(error).__name__}: {error}"
    try:
        frames.write(answers, {"type": "refused", "layer": layer, "message": message[:4000]})
    finally:
        os._exit(REFUSED)
