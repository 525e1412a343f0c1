"""The status of one tool in one thread: may the model be offered it now, and if not, why."""

from __future__ import annotations

from clicket.kernel.table import StrEnum, Table

__all__ = ["TOOL_STATUS", "ToolStatus"]


class ToolStatus(StrEnum):
    AVAILABLE = "available"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    MAINTENANCE = "maintenance"


TOOL_STATUS = Table(
    "tool status",
    ToolStatus,
    ToolStatus.AVAILABLE,
    {
        ToolStatus.AVAILABLE: {ToolStatus.FAILED, ToolStatus.UNAVAILABLE, ToolStatus.MAINTENANCE},
        ToolStatus.FAILED: {ToolStatus.AVAILABLE, ToolStatus.UNAVAILABLE, ToolStatus.MAINTENANCE},
        ToolStatus.UNAVAILABLE: {ToolStatus.AVAILABLE, ToolStatus.MAINTENANCE},
        ToolStatus.MAINTENANCE: {ToolStatus.AVAILABLE, ToolStatus.UNAVAILABLE},
    },
)
