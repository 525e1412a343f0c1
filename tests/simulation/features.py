"""Which parts of the product a seed exercises. Not every seed has all: a seed with few of them goes deeper into their combinations."""

from __future__ import annotations

import random

from tests.simulation.focus import Focus, focus_of

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
        self.moments = drawn("moments", 0.4)
        """Faults, cancels and stops at moments that matter (`moments.py`)."""
        self.crossings = drawn("crossings", 0.15)
        """People and other systems answer just when the time for it ends."""
        self.flaky = drawn("flaky", 0.12)
        """Many requests to the store, or their answers, are lost."""
        self.bursts = drawn("bursts", 0.25)
        """Equal calls at the same time, in all processes."""
        self.refusals = drawn("refusals", 0.3)
        """Models refuse some requests, and background calls fail."""
        self.later = drawn("later", 0.15)
        """Many calls have a time before which they do not run."""
        self.hesitations = drawn("hesitations", 0.25)
        """People look at a question, and decide a while later."""
        self.deaf = drawn("deaf", 0.2)
        """A tool whose bodies do not stop when they are cancelled."""
        self.short_queue = drawn("short queue", 0.1)
        """Few calls may wait in a process, of seeds without agents."""
        self.sweeps = drawn("sweeps", 0.15)
        """Retention removes calls, and ids of removed calls are sent again."""
        self.clerks = drawn("clerks", 0.25)
        """Of the seeds with agents: one with a chain of models, middleware, checks and typed answers, to which programs send messages."""
        self.focus = focus_of(seed) or Focus("")
        for name in self.focus.on.split():
            setattr(self, name, True)
        for name in self.focus.off.split():
            setattr(self, name, False)
