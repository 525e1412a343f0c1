"""Log lines of ours say no secret: neither a token of a well-known shape, nor a declared value of a call that is in work."""

from __future__ import annotations

import logging
from weakref import ref

from clicket.vault.hiding import Secrets, hide_text

__all__ = ["SECRETS", "guard_logs", "hide_known", "watch_for"]

_OURS = "clicket"
_formatter = logging.Formatter()
_in_work: dict[int, ref[Secrets]] = {}
"""A plain dict, always copied in one step: lines come from any thread, and calls end at any time."""


class _Filter(logging.Filter):
    """Renders what a line says, and keeps the rendering only where something was to be hidden."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            said = record.getMessage()
        except Exception:  # a wrong format is the handler's to complain about
            return True
        shown = hide_known(said)
        if shown != said:
            record.msg, record.args = shown, None
        if record.exc_info and record.exc_info[0] is not None:
            trace = _formatter.formatException(record.exc_info)
            hidden = hide_known(trace)
            if hidden != trace:  # the exception itself would tell whoever formats it again
                record.exc_text, record.exc_info = hidden, None
        return True


SECRETS = _Filter()
"""For handlers that other people's lines pass through."""


def guard_logs() -> None:
    """Put the filter on every logger of ours. A logger's filter sees only its own lines, so each one has it."""
    for name in [name for name in logging.root.manager.loggerDict if name == _OURS or name.startswith(f"{_OURS}.")]:
        logging.getLogger(name).addFilter(SECRETS)  # adding it twice is adding it once


def watch_for(secrets: Secrets) -> None:
    """Hide the values of a call for as long as somebody holds it."""
    key = id(secrets)
    _in_work[key] = ref(secrets, lambda _: _in_work.pop(key, None))


def hide_known(text: str) -> str:
    """A text that may be about any call: every secret that is known here is hidden in it."""
    text = hide_text(text)
    for each in _in_work.copy().values():
        secrets = each()
        if secrets is not None:
            text = hide_text(text, secrets)
    return text
