"""When the tool process must exit: after SIGTERM, and at once if it is a copy that a tool forked."""

from __future__ import annotations

import os
import signal
import traceback

__all__ = ["check_process", "handle_term", "is_original", "is_stopping", "process_id"]

process_id = os.getpid()
_STOPPED = 128 + signal.SIGTERM
_stopping = False


def is_original() -> bool:
    """Is this the tool process, or a process that a tool forked from it?"""
    return os.getpid() == process_id


def is_stopping() -> bool:
    return _stopping


def check_process(error: BaseException | None = None) -> None:
    """After a body: exit if the tool process got SIGTERM, or if this is a forked copy, which must not answer a second time."""
    if not is_original():
        if error is not None and not isinstance(error, SystemExit):
            traceback.print_exception(error)
        os._exit(0 if error is None else 1)
    if _stopping:
        raise SystemExit(_STOPPED)


def handle_term() -> None:
    """Turn SIGTERM into an exception in the body, so that its `finally` blocks and context managers run within the grace."""
    signal.signal(signal.SIGTERM, _stop)


def _stop(_number: int, _frame: object) -> None:
    global _stopping
    if not is_original():  # a process that the tool forked has inherited this handler, and should just end
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        return
    _stopping = True
    raise SystemExit(_STOPPED)
