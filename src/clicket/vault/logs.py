"""Masks secrets in our log records: tokens of well-known shapes, and declared values of calls that are under way."""

from __future__ import annotations

import logging
from weakref import ref

from clicket.vault.hiding import Secrets, hide_text

__all__ = ["SECRETS", "guard_logs", "hide_known", "watch_for"]

_OURS = "clicket"
_formatter = logging.Formatter()
_in_work: dict[int, ref[Secrets]] = {}
"""A plain dict, always copied in one step: records come from any thread, and calls end at any time."""


class _Filter(logging.Filter):
    """Formats a record's message, and keeps the formatted text only if something in it was masked."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            said = record.getMessage()
        except Exception:  # the handler reports a wrong format
            return True
        shown = hide_known(said)
        if shown != said:
            record.msg, record.args = shown, None
        if record.exc_info and record.exc_info[0] is not None:
            trace = _formatter.formatException(record.exc_info)
            hidden = hide_known(trace)
            if hidden != trace:  # a later formatter would print the exception itself
                record.exc_text, record.exc_info = hidden, None
        return True


SECRETS = _Filter()
"""For handlers that also get records of other libraries."""


def guard_logs() -> None:
    """Add the filter to every logger of ours: a logger's filter sees only the records of that logger."""
    for name in [name for name in logging.root.manager.loggerDict if name == _OURS or name.startswith(f"{_OURS}.")]:
        logging.getLogger(name).addFilter(SECRETS)  # a filter that is there already is not added again


def watch_for(secrets: Secrets) -> None:
    """Mask the values of a call in log records for as long as its `Secrets` are referenced."""
    key = id(secrets)
    _in_work[key] = ref(secrets, lambda _: _in_work.pop(key, None))


def hide_known(text: str) -> str:
    """Mask every secret that is known in this process, in a text that may be about any call."""
    text = hide_text(text)
    for each in _in_work.copy().values():
        secrets = each()
        if secrets is not None:
            text = hide_text(text, secrets)
    return text
