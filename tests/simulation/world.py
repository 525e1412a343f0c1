"""A simulated world: the system that clicket asks for time, ids and threads, and processes that crash, pause and come back."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from tests.simulation.loop import NODE, Node, Order, SimulatedLoop

from clicket import system
from clicket.errors import UsageError
from clicket.system import Done, Process, System, Threads

__all__ = ["EPOCH", "WRITER", "SimulatedSystem", "World"]

EPOCH = 1_800_000_000.0
WRITER = "clicket-sqlite-writer"
"""The thread that writes a SQLite file."""


class SimulatedSystem(System):
    """Time of the loop, randomness of the seed, threads that are callbacks at a moment of the seed's choice."""

    def __init__(self, loop: SimulatedLoop, chance: random.Random) -> None:
        self.digits = []
        self.loop, self.chance = loop, chance
        self.now = self._now  # type: ignore[method-assign]
        self.monotonic = self.uptime = loop.time  # type: ignore[method-assign]
        self.random_bytes = chance.randbytes  # type: ignore[method-assign]
        self.boots = 1
        self.waits: Callable[[str], float] = lambda name: 0.0
        """How long a function waits in a thread of this name before it runs: for a lock, say."""
        self.moment: Callable[[str], None] = lambda kind: None

    def _now(self) -> float:
        node = NODE.get()
        return EPOCH + self.loop.time() + (0.0 if node is None else node.skew)

    def process(self) -> Process:
        node, boot = NODE.get(), f"boot {self.boots}"
        return Process("outside", boot, 1) if node is None else Process(node.name, boot, node.number)

    def reboot(self) -> None:
        """The machine starts anew, and its clock of boots with it."""
        self.boots += 1
        since = self.loop.time()
        self.uptime = lambda: self.loop.time() - since  # type: ignore[method-assign]

    def threads(self, size: int, name: str) -> Threads:
        return _CallbackThreads(self, size, name)

    def repeat(self, function: Callable[[], bool], every: float, name: str) -> Callable[[], None]:
        """What watches the loop from a thread finds nothing here: no body blocks it."""
        return lambda: None


class _CallbackThreads:
    """A function runs in one callback, and its end is reported in another. At most `size` are between the two."""

    def __init__(self, simulated: SimulatedSystem, size: int, name: str) -> None:
        self._system, self._size, self._name = simulated, size, name
        self._waiting: list[tuple[Callable[[], Any], Done]] = []
        self._running = 0
        self._closed = False

    def submit(self, function: Callable[[], Any], done: Done) -> None:
        if self._closed:
            raise UsageError("the worker threads are closed")
        self._waiting.append((function, done))
        if self._running < self._size:
            self._running += 1
            self._later(self._run)

    def _later(self, callback: Callable[..., None], *args: Any) -> None:
        chance = self._system.chance
        delay = 0.0 if chance.random() < 0.5 else chance.expovariate(200)
        self._system.loop.call_later(delay, callback, *args)

    def _run(self) -> None:
        if not self._waiting:
            self._running -= 1
        elif wait := self._system.waits(self._name):
            self._system.loop.call_later(wait, self._call)
        else:
            self._call()

    def _call(self) -> None:
        function, done = self._waiting.pop(0)
        value, error = None, None
        try:
            value = function()
        except BaseException as raised:
            error = raised
        if self._name == WRITER:
            self._system.moment("write")
        self._later(self._end, done, value, error)

    def _end(self, done: Done, value: Any, error: BaseException | None) -> None:
        self._later(self._run)
        if self._name == WRITER:
            self._system.moment("answer")
        done(value, error)

    def close(self, patience: float) -> None:
        self._closed = True


class World:
    """One seed. `run` runs a coroutine in it, outside of every node."""

    def __init__(self, seed: int, *, order: Order | None = None, trace: bool = False) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        """For the workload and the faults. The loop has its own, or a change of the workload would change every order."""
        orders: tuple[Order, ...] = ("first", "uniform", "uniform", "priorities")
        self.loop = SimulatedLoop(
            random.Random(seed * 31 + 7),
            order or self.chance.choice(orders),
            slow=self.chance.choice((0.0, 0.0, 0.05, 0.5)),
        )
        if trace:
            self.loop.trace = []
        self.system = SimulatedSystem(self.loop, random.Random(seed * 17 + 3))
        self.problems: list[str] = []
        self.story: list[tuple[float, str, str]] = []
        """What happened, as a person would tell it: when, who, what."""
        self.log = _Log(self)
        self.nodes: list[Node] = []
        self.moment: Callable[..., None] = lambda *what: None
        """Called when the store has done a "write" of a node, and before the node has its "answer"."""
        self.system.moment = lambda kind: self.moment(kind, NODE.get())

    @property
    def now(self) -> float:
        return self.loop.time()

    def tell(self, who: Node | str, text: str) -> None:
        """For the timeline of a seed."""
        self.story.append((self.now, str(who), text))

    def wrong(self, rule: str, text: str) -> None:
        self.tell("judge", f"{rule}: {text}")
        self.problems.append(f"{rule}: {text} (at {self.now:.3f} s)")

    def add_node(self, name: str) -> Node:
        node = Node(f"{name}.{len(self.nodes) + 1}", len(self.nodes) + 1)
        self.nodes.append(node)
        return node

    def spawn(self, node: Node, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something as a part of a node."""
        context = Context()
        context.run(NODE.set, node)
        return context.run(self.loop.create_task, work)

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        before = system.use(self.system)
        collects = gc.isenabled()
        gc.disable()  # or a finalizer would run at a moment that depends on what ran before
        ours = logging.getLogger("clicket")
        ours.addHandler(self.log)
        ours.setLevel(logging.ERROR)  # nobody reads the warnings, and to format them costs time
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(main)
        except Exception as error:
            self.wrong("the world goes on", f"{type(error).__name__}: {error}")
            raise
        finally:
            ours.removeHandler(self.log)
            ours.setLevel(logging.NOTSET)
            asyncio.set_event_loop(None)
            self.loop.close()
            system.use(before)
            if collects:
                gc.enable()


_KNOWN = (
    "its events could not be stored for 10 s",
    "events of running calls cannot be stored, and new calls are refused until they can",
    "the disk failed to sync the database",
)
"""Errors that a seed provokes: a process that is cut off from its store, or whose disk fails, says so."""


class _Log(logging.Handler):
    """An error in the product's log is a finding: the workload provokes none."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        if not any(known in text for known in _KNOWN):
            self._world.wrong("no errors in the log", text)
