"""Log records with the id, thread and tool of their call, as text or as JSON lines: `follow(runtime); configure("json")`.

Records that a tool's code logs have them too: a context variable holds the call while its tool runs, also in threads.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from textwrap import dedent
from typing import Any, Literal, TextIO

import msgspec

from clicket.engine.journal import Entry
from clicket.errors import UsageError
from clicket.kernel import State
from clicket.model import Event, ToolError
from clicket.model.codec import clean
from clicket.model.printable import escaped, escaped_json, indented
from clicket.safety.vault.logs import SECRETS, hide_known
from clicket.telemetry.tracing import Observed

__all__ = ["CALL", "CallFilter", "Format", "JsonFormatter", "SecretHidingFormatter", "configure", "follow"]

Format = Literal["text", "json"]
CALL: ContextVar[Entry | None] = ContextVar("clicket_call", default=None)
"""The call whose tool runs in this context."""

logger = logging.getLogger("clicket.calls")
_TEXT = "%(asctime)s %(levelname)-7s %(name)s %(message)s%(call_suffix)s"
_MAX_REASON = 300
"""Characters of the reason of a failure in its log record."""
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "call_suffix", "color_message"}
_OURS = ("call_id", "call_thread", "tool", "attempt")
_encoder = msgspec.json.Encoder(enc_hook=str)


class CallFilter(logging.Filter):
    """Adds `call_id`, `call_thread`, `tool` and `attempt` to records. (`thread` is taken: logging means the OS's by it.)"""

    def filter(self, record: logging.LogRecord) -> bool:
        call = CALL.get()
        if call is not None and not hasattr(record, "call_id"):
            record.call_id, record.call_thread = call.id, call.thread
            record.tool, record.attempt = call.tool, call.attempts
        known = getattr(record, "call_id", "")
        record.call_suffix = f" [call {escaped(str(known))}]" if known else ""
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `at level logger message`, the call's `call_id thread tool attempt`, the ids of the trace if there is
    one, and all that `extra` has."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in _OURS:
            if getattr(record, name, ""):
                line["thread" if name == "call_thread" else name] = getattr(record, name)
        line.update(_trace())
        for name, value in vars(record).items():
            if name not in _USUAL and name not in line and name not in _OURS:
                line[name] = value
        if record.exc_text:  # it is masked; `exc_info` might not be
            line["exception"] = dedent(record.exc_text)
        elif record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        try:
            return _encoder.encode(line).decode()
        except (ValueError, TypeError, RecursionError):  # a value without a JSON form must not lose the record
            plain = {name: clean(value if isinstance(value, str) else repr(value)) for name, value in line.items()}
            return _encoder.encode(plain).decode()


class SecretHidingFormatter(logging.Formatter):
    """Hides known secrets and control characters in another formatter's output.

    All lines but the first of a record are indented, so that none looks like another record.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner
        self._is_json = isinstance(inner, JsonFormatter)

    def format(self, record: logging.LogRecord) -> str:
        text = hide_known(self._inner.format(record))
        if self._is_json:
            return escaped_json(text)
        first, separator, rest = escaped(text.replace("\r\n", "\n"), lines=True).partition("\n")
        return first + separator + indented(rest) if separator else first


def configure(
    format: Format = "text", *, level: int | str = logging.INFO, stream: TextIO | None = None
) -> logging.Handler:
    """Log all records of the program to stderr in this format. Returns the handler, which can be removed again."""
    if format not in ("text", "json"):
        raise UsageError(f"the log format must be text or json, not {format!r}.")
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(SecretHidingFormatter(JsonFormatter() if format == "json" else logging.Formatter(_TEXT)))
    handler.addFilter(SECRETS)  # tools log through this handler, too
    handler.addFilter(CallFilter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    return handler


def follow(runtime: Observed, *, completed: bool = True) -> None:
    """Add the call to records that its tool logs, and log the end of each call. The runtime may be open or not.

    `completed=False`: log only calls that did not complete. A second call changes nothing.
    """
    observers = runtime.observers
    if _enter not in observers.around:
        observers.around.append(_enter)
        observers.add(_log_end if completed else _log_failure)


def _enter(entry: Entry) -> Callable[[], object]:
    token = CALL.set(entry)
    return lambda: CALL.reset(token)


def _log_failure(entry: Entry, events: Sequence[Event]) -> None:
    if events[-1].state.is_terminal and events[-1].state is not State.COMPLETED:
        _log_end(entry, events)


def _log_end(entry: Entry, events: Sequence[Event]) -> None:
    """One record per ended call, without its arguments and its result. The reason of a failure is masked, and may quote an argument."""
    end = next((event for event in events if event.is_terminal), None)
    if end is None:
        return
    error = end.data.get("error")
    level = logging.WARNING if error else logging.INFO
    if logger.isEnabledFor(level):
        facts: dict[str, Any] = {"state": end.state.value, "duration": round(end.data.get("duration", 0.0), 6)}
        tool = entry.tool
        why = ""
        if error:
            facts["code"] = error["code"]
            reason = str(msgspec.convert(error, ToolError))
            why = f": {reason if len(reason) <= _MAX_REASON else reason[:_MAX_REASON] + '…'}"
        known = {"call_id": entry.id, "call_thread": entry.thread, "tool": tool, "attempt": entry.attempts}
        logger.log(level, "%s %s%s", tool, end.state.value, why, extra={**known, **facts})


def _trace() -> dict[str, str]:
    """The ids of the current span, if the program has imported OpenTelemetry."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return {}
    current = api.get_current_span().get_span_context()
    if not current.is_valid:
        return {}
    return {"trace_id": f"{current.trace_id:032x}", "span_id": f"{current.span_id:016x}"}


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"
