"""Which tools a thread may use: dependencies, consecutive failures, and statuses that a person set. All processes share it."""

from __future__ import annotations

from clicket.hub.hub import Change, Hub
from clicket.hub.judge import ToolState, ToolView
from clicket.hub.thread import ThreadHub
from clicket.hub.webhook import Webhook

__all__ = ["Change", "Hub", "ThreadHub", "ToolState", "ToolView", "Webhook"]
