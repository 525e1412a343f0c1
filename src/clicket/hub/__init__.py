"""Tools across turns: dependencies, failures in a row, a person's hand; per thread, and shared by all processes."""

from __future__ import annotations

from clicket.hub.hub import Change, Hub
from clicket.hub.judge import ToolState, ToolView
from clicket.hub.thread import ThreadHub
from clicket.hub.webhook import Webhook

__all__ = ["Change", "Hub", "ThreadHub", "ToolState", "ToolView", "Webhook"]
