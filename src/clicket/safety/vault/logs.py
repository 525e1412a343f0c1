"""Masks secrets in our log records, and in those of the HTTP clients that we use: tokens of well-known shapes, declared values of
calls that are under way, and in a client's records the query of every address. In our own records control characters are escaped,
line breaks, too: names and ids come from outside, and must not look like a record of their own. Only a traceback has several lines,
and each of them is indented."""

from __future__ import annotations

import logging
import re
from weakref import ref

from clicket.model.printable import escaped, indented
from clicket.safety.vault.hiding import Secrets, hide_text

__all__ = ["LOGGERS", "SECRETS", "guard_logs", "hide_known", "watch_for"]

_OURS = "clicket"
LOGGERS = (
    "clicket.access", "clicket.agents", "clicket.bus", "clicket.calls", "clicket.credentials", "clicket.engine", "clicket.execution",
    "clicket.hub", "clicket.interpreter", "clicket.journal", "clicket.mcp", "clicket.mcp.server", "clicket.models",
    "clicket.oauth",
    "clicket.schedules",
    "clicket.server", "clicket.spend", "clicket.stores", "clicket.stores.postgres", "clicket.stores.redis", "clicket.stores.sqlite",
    "clicket.telemetry", "clicket.tools", "clicket.webhooks", "clicket.worker",
)  # fmt: skip
"""All loggers of ours, also of modules that are imported later."""
_CLIENTS = (
    "httpx", "httpx2", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks",
    "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy", "httpcore2.socks",
    "openai._base_client", "anthropic._base_client", "mcp.client.streamable_http", "mcp.client.sse",
)  # fmt: skip
"""Loggers that log whole addresses. Many services take their key in the query."""
_QUERY = re.compile(r"\?[^\s\"'<>]+")
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
        shown = self.shown(said)
        if shown != said:
            record.msg = shown
            record.args = None
        trace = record.exc_text
        if not trace and record.exc_info and record.exc_info[0] is not None:
            trace = _formatter.formatException(record.exc_info)
        if trace:
            hidden = self.shown_trace(trace)
            if hidden != trace:  # a later formatter would print the exception itself
                record.exc_text = hidden
                record.exc_info = None
        return True

    def shown(self, text: str) -> str:
        return hide_known(text)

    def shown_trace(self, text: str) -> str:
        return self.shown(text)


class _OwnFilter(_Filter):
    def shown(self, text: str) -> str:
        return escaped(hide_known(text))

    def shown_trace(self, text: str) -> str:
        return indented(escaped(hide_known(text).replace("\r\n", "\n"), lines=True))


class _ClientFilter(_Filter):
    def shown(self, text: str) -> str:
        return hide_known(_QUERY.sub("?…", text))


SECRETS = _Filter()
"""For handlers that also get records of other libraries."""
_ADDRESSES = _ClientFilter()
_OWN = _OwnFilter()


def guard_logs() -> None:
    """Add the filters to every logger of ours, and to those of HTTP clients: a logger's filter sees only its own records."""
    there = [name for name in logging.root.manager.loggerDict if name == _OURS or name.startswith(f"{_OURS}.")]
    for name in (*LOGGERS, *there):
        logging.getLogger(name).addFilter(_OWN)  # a filter that is there already is not added again
    for name in _CLIENTS:
        logging.getLogger(name).addFilter(_ADDRESSES)


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
