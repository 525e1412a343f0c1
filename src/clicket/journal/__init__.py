"""advance -> append -> publish: the only writer of call state."""

from __future__ import annotations

from clicket.journal.journal import Fenced, Journal
from clicket.journal.live import LiveCall, Then
from clicket.journal.observers import Around, Listener, Observers

__all__ = ["Around", "Fenced", "Journal", "Listener", "LiveCall", "Observers", "Then"]
