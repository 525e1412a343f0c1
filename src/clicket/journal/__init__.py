"""advance -> append -> publish: the only writer of call state."""

from __future__ import annotations

from clicket.journal.entry import Entry, OnDurable
from clicket.journal.journal import Journal
from clicket.journal.observers import Around, Listener, Observers
from clicket.journal.rebase import Fenced

__all__ = ["Around", "Entry", "Fenced", "Journal", "Listener", "Observers", "OnDurable"]
