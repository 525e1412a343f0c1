"""Which parts of the product a seed exercises. Not every seed has all: a seed with few of them goes deeper into their combinations."""

from __future__ import annotations

import random

__all__ = ["Features"]


class Features:
    """Drawn apart from the workload's own chance, so that a new feature leaves the other ones of a seed as they are."""

    def __init__(self, seed: int) -> None:
        def drawn(name: str, share: float) -> bool:
            return random.Random(f"{name} of {seed}").random() < share

        self.servers = drawn("servers", 0.3)
        """Some members serve HTTP, and some programs and people use it."""
        self.budgets = drawn("budgets", 0.3)
        """Budgets that are reached, of those seeds that have agents."""
        self.costs = drawn("costs", 0.25)
        """A tool that reports what it costs."""
        self.grants = drawn("grants", 0.25)
        """People grant several calls at once, and revoke it."""
        self.questions = drawn("questions", 0.2)
        """A tool that asks people."""
        self.background = drawn("background", 0.4)
        """Of the seeds with agents: background calls; agents that are called by agents that were called; turns that people stop."""
        self.deep = drawn("deep", 0.4)
        self.stops = drawn("stops", 0.3)
        self.credentials = drawn("credentials", 0.2)
        """A tool that needs a credential of its caller."""
        self.again = drawn("again", 0.3)
        """Ids are sent again, also with other arguments, also when their calls have ended."""
        self.favourite = drawn("favourite", 0.3)
        """Half of the calls are of one tool."""
        self.operators = drawn("operators", 0.3)
        """People look at lists, cordon and drain workers; other systems report on external calls."""
        self.sweeps = drawn("sweeps", 0.15)
        """Retention removes calls, and ids of removed calls are sent again."""
