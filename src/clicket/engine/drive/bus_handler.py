"""Handles messages of other processes: hints of the store, and messages with a body.

A message decides nothing. A hint makes a part look at the store sooner; what a message says is checked by the next commit.
"""

from __future__ import annotations

import msgspec

from clicket.engine.core import Core
from clicket.engine.fleet.offers import Offers
from clicket.engine.fleet.placement import Placement
from clicket.engine.recovery.chores import Chores
from clicket.model import load_events

__all__ = ["BusHandler"]

_decode_events = msgspec.json.Decoder(tuple[str, msgspec.Raw]).decode
"""The call's id, and a unit of its events as it is stored."""


class BusHandler:
    def __init__(self, core: Core, chores: Chores, placement: Placement, offers: Offers) -> None:
        self._stored_calls = core.stored_calls
        self._hub = core.hub
        self._claimer = core.claimer
        self._gate = core.gate
        self._flights = core.flights
        self._chores = chores
        self._placement = placement
        self._offers = offers

    def on_hint(self, kind: str, key: int) -> None:
        """A hint from another process. Without it each part would read the store later."""
        if kind in ("events", "any"):
            self._stored_calls.on_news(None if kind == "any" else key)
        if kind in ("health", "any"):
            self._hub.invalidate()
        if kind in ("work", "any"):
            self._claimer.nudge()
        if kind in ("slot", "any"):
            self._gate.look_again()
            self._flights.slot_freed()
        if kind in ("signal", "any"):
            self._chores.read_signals_soon()

    def on_message(self, kind: str, key: int, body: bytes) -> None:
        """A message with a body, signed by a process of this store."""
        if kind == "events":
            self._on_events(key, body)
        elif kind == "work":
            self._offers.on_offer(key, body)
        elif kind == "room":
            self._placement.on_room(key, body)
        elif kind == "rooms":
            self._offers.announce_room()

    def _on_events(self, key: int, body: bytes) -> None:
        try:
            id, unit = _decode_events(body)
            events = load_events(id, bytes(unit))
        except (ValueError, TypeError, RecursionError):  # msgspec's errors are ValueErrors
            self._stored_calls.on_news(key)
            return
        if events and events[-1].state.is_terminal:
            self._placement.ended(key)
        self._stored_calls.on_events(key, id, events)
