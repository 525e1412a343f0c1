"""The first code in the sandboxed child: applies rlimits, Landlock and seccomp in this order, then calls the program's `main`.

If a requested layer cannot be applied, the program does not run.
"""

from __future__ import annotations

# `_signal` and not `signal`, no `typing`, no `contextlib`: each imports `enum` or `re`, which would double the start-up time.
import os
import sys

from clicket.interpreter.sandbox import frames

TYPE_CHECKING = False  # type checkers treat this name as true
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
    """A requested layer could not be applied."""

    def __init__(self, layer: str, message: str) -> None:
        super().__init__(message)
        self.layer = layer


def main(commands: int, answers: int) -> NoReturn:
    """Never returns: the process ends here, without the program's exit handlers."""
    try:
        config = frames.read(commands)
        if config is None:  # the host has exited or given up
            os._exit(0)
        run, layers = _prepare(config, commands, answers)
    except BaseException as error:  # report any error to the host and run nothing
        _refuse(answers, error)
    try:
        run(commands, answers, config.get("settings", {}), layers)
    except BaseException:
        sys.__excepthook__(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def _prepare(config: dict[str, Any], commands: int, answers: int) -> tuple[Callable[..., Any], list[str]]:
    """The program's `main`, and the layers that were applied."""
    _clean(commands, answers)
    layers = list(_apply(config))
    os.chdir(config["home"])
    sys.path += config.get("path", [])
    __import__(config["program"])
    return sys.modules[config["program"]].main, layers


def _apply(config: dict[str, Any]) -> Iterator[str]:
    """Apply the layers and yield the name of each."""
    for layer in ("rlimits", "landlock", "seccomp"):
        rules = config.get(layer)
        if rules is None:
            continue
        try:
            module = __import__(f"clicket.interpreter.sandbox.{layer}", fromlist=["apply"])
            module.apply(rules)
        except Exception as error:
            raise _Refused(layer, f"{type(error).__name__}: {error}") from error
        yield layer


def _clean(commands: int, answers: int) -> None:
    """Reset what may be inherited: open descriptors, ignored or blocked signals, the umask.

    The process stays dumpable: the host reads its memory use from /proc as the same user, and the program its own descriptors.
    Seccomp refuses the tracing that this would allow.
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
        os.set_inheritable(fd, False)  # the program's children must not write to the host
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    pythons_own = {_signal.SIGPIPE, _signal.SIGXFSZ}  # Python ignores them and raises exceptions instead
    for number in _signal.valid_signals() - pythons_own:
        if _signal.getsignal(number) == _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        return  # the descriptor that listed the others


def _refuse(answers: int, error: BaseException) -> NoReturn:
    layer = error.layer if isinstance(error, _Refused) else "boot"
    message = str(error) if isinstance(error, _Refused) else f"{type(error).__name__}: {error}"
    try:
        frames.write(answers, {"type": "refused", "layer": layer, "message": message[:4000]})
    finally:
        os._exit(REFUSED)
