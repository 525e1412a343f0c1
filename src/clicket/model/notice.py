"""A notice: a fact that is sent to one webhook endpoint. Not to be confused with the notices between processes
(`model/ports/bus.py`)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["NOTICE_TYPES", "DeliveryAttempt", "Notice", "NoticeFigures", "NoticePage", "NoticeState", "NoticeType"]

NoticeType = Literal[
    "approval.requested", "call.ended", "call.unknown", "turn.waiting", "turn.ended", "tool.health", "budget.reached", "worker.lost",
    "alert.raised", "alert.cleared",
]  # fmt: skip
NOTICE_TYPES: tuple[NoticeType, ...] = (
    "approval.requested", "call.ended", "call.unknown", "turn.waiting", "turn.ended", "tool.health", "budget.reached", "worker.lost",
    "alert.raised", "alert.cleared",
)  # fmt: skip
NoticeState = Literal["pending", "delivered", "failed"]


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One request to the endpoint. `status` is None when no response came; `problem` is empty when it was accepted."""

    at: float
    seconds: float
    status: int | None = None
    problem: str = ""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the `webhook-id` of every request. `endpoint` is the endpoint's name in the settings. Times are seconds since the epoch."""

    id: str
    type: NoticeType
    endpoint: str
    state: NoticeState = "pending"
    created_at: float
    """When it happened."""
    tries: int = 0
    """Attempts since it was made, or since it was replayed last."""
    next_at: float | None = None
    """When it is sent next, or when its claim by a process ends; None: it is not sent any more."""
    ended_at: float | None = None
    replays: int = 0
    attempts: list[DeliveryAttempt] = []
    """The last ones, the oldest first."""
    payload: dict[str, Any] | None = None
    """What is sent, without the approval link. None in lists."""

    @property
    def problem(self) -> str:
        """Why the last attempt failed; empty if it did not."""
        return self.attempts[-1].problem if self.attempts else ""


class NoticePage(msgspec.Struct, frozen=True, kw_only=True):
    """Notices, the newest first. `cursor` fetches the next page; None: there is none."""

    items: list[Notice]
    cursor: str | None = None


class NoticeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """`delivered` and `failed` since this process began; `pending` and the age of the oldest in the whole store."""

    delivered: int = 0
    failed: int = 0
    pending: int = 0
    oldest_seconds: float = 0.0
