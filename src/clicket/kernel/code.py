"""The code interpreter's machine: every block passes executing and monitoring; any state that is not the end may fail."""

from __future__ import annotations

from clicket.kernel.table import StrEnum, Table

__all__ = ["CODE", "CodeState"]


class CodeState(StrEnum):
    PARSING = "parsing"
    VALIDATING = "validating"
    PREPARING = "preparing"
    EXECUTING = "executing"
    MONITORING = "monitoring"
    COLLECTING = "collecting"
    COMPLETED = "completed"
    ERROR = "error"


CODE = Table(
    "code",
    CodeState,
    CodeState.PARSING,
    {
        CodeState.PARSING: {CodeState.VALIDATING, CodeState.ERROR},
        CodeState.VALIDATING: {CodeState.PREPARING, CodeState.ERROR},
        CodeState.PREPARING: {CodeState.EXECUTING, CodeState.ERROR},
        CodeState.EXECUTING: {CodeState.MONITORING, CodeState.ERROR},
        CodeState.MONITORING: {CodeState.EXECUTING, CodeState.COLLECTING, CodeState.ERROR},
        CodeState.COLLECTING: {CodeState.COMPLETED, CodeState.ERROR},
    },
)
