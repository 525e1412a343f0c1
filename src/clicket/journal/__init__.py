"""advance -> append -> publish: the only writer of call state."""

from __future__ import annotations

from clicket.journal.journal import Fenced, Journal, Listener
from clicket.journal.live import LiveCall, Then

__all__ = ["Fenced", "Journal", "Listener", "LiveCall", "Then"]
