"""The only writer of call state: check the table, append to the store, then publish.

- `journal`: `Journal`, which appends staged events, and publishes them when they are durable
- `staging`: `Staging`, the events of the next commit; every change of a call's state is checked against the table here
- `entry`: `Entry`, one call in the journal
- `rebase`: what another process wrote into a call; `Fenced`, if that process owns it now
- `observers`: listeners to durable events, and contexts around a tool's body
"""

from __future__ import annotations

from clicket.engine.journal.entry import Entry, OnDurable, Then
from clicket.engine.journal.journal import Journal
from clicket.engine.journal.observers import Around, Listener, Observers
from clicket.engine.journal.rebase import Fenced

__all__ = ["Around", "Entry", "Fenced", "Journal", "Listener", "Observers", "OnDurable", "Then"]
