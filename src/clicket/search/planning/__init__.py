"""What to ask next, given what was found."""

from __future__ import annotations

from clicket.search.planning.planner import BridgePlanner

__all__ = ["BridgePlanner"]
