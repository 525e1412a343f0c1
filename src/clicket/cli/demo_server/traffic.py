"""Makes calls for as long as the demonstration runs: first one of each kind, then a few every second, in several threads."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from typing import Any

from clicket.agents import Agent
from clicket.cli.demo.crash import killed_child, wait_until_running
from clicket.cli.demo_server.people import People
from clicket.cli.demo_server.tools import transfer
from clicket.errors import ClicketError
from clicket.model.ids import new_id
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings

__all__ = ["Traffic", "run_transfer"]

_THREADS = ("ann", "bert", "chen", "dora", "nightly-import")
_CITIES = ("Lisbon", "Oslo", "Kyoto", "Nairobi", "Lima", "Graz")
_NOTEBOOK = """```python
values = [n * n for n in range(10)]
print(values)
```
```python
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(5, 2.5))
axes.plot(values, marker="o")
axes.set_title("Squares")
plt.show()
```
```python
import pandas as pd
pd.DataFrame({"n": range(10), "square": values})
```"""
_QUESTION = "In which city is the institute where the designer of the Tarn Point lighthouse taught?"
_CHATS = (
    ("support-1", "What is the weather in Oslo?"),
    ("support-2", "Please refund 80 EUR for order A-1009"),
    ("support-3", "Plot the ferry's passengers"),
)


def run_transfer(store: str, id: str) -> None:
    """The main function of a process that is killed while its call runs."""

    async def work() -> None:
        async with Runtime([transfer], settings=Settings(store=store)) as runtime:
            await (await runtime.submit("transfer", {"amount": 250.0, "to": "ACME"}, id=id, thread="dora")).result()

    asyncio.run(work())


class Traffic:
    """`pace`: seconds between two calls, on average; 0: no calls after the first ones."""

    def __init__(self, runtime: Runtime, agent: Agent, *, pace: float = 1.2) -> None:
        self._runtime = runtime
        self._agent = agent
        self._pace = pace
        self._random = random.Random(11)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        try:
            await self._one_of_each()
            while self._pace > 0:
                await self._submit(*self._any())
                await asyncio.sleep(self._random.expovariate(1 / self._pace))
            await asyncio.Event().wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def unknown_outcome(self, store: str) -> None:
        """Leave a call whose process was killed while it ran. This runtime finds it when it recovers."""
        id = new_id()
        async with killed_child("clicket.cli.demo_server.traffic:run_transfer", store, id) as child:
            await wait_until_running(self._runtime, child, id)
        await self._runtime.recover()

    async def _one_of_each(self) -> None:
        self.start(People(self._runtime, pause=0.3 if self._pace else 0.0).run())
        for thread, message in _CHATS:
            self.start(self._chat(thread, message))
        first: list[tuple[str, str, dict[str, Any]]] = [
            ("weather", "ann", {"city": "Lisbon"}),
            ("exchange_rate", "ann", {"pair": "EURUSD"}),
            ("crawl", "nightly-import", {"url": "https://example.com/docs", "pages": 60}),
            ("write_summary", "bert", {"topic": "durable execution"}),
            ("weather", "bert", {"city": 5, "unti": "k"}),
            ("wether", "bert", {"city": "Oslo"}),
            ("publish_report", "chen", {"title": "Links of the week"}),
            ("legacy_export", "chen", {"month": "2026-10"}),
            ("refund", "ann", {"order": "A-1007", "amount": 129.0, "reason": "arrived broken", "notify": True}),
            ("refund", "bert", {"order": "A-1012", "amount": 48.5, "reason": "wrong colour"}),
            ("transfer", "dora", {"amount": 50_000.0, "to": "ACME"}),
            ("code_interpreter", "chen", {"task": _NOTEBOOK}),
            ("deep_search", "dora", {"query": _QUESTION}),
            ("company_lookup", "bert", {"name": "ACME"}),
            ("company_lookup", "chen", {"name": "Globex"}),
        ]
        first += [("stock_level", "chen", {"sku": f"X-{number}"}) for number in range(4)]
        for tool, thread, arguments in first:
            await self._submit(tool, thread, arguments)
            await asyncio.sleep(0.15 if self._pace else 0)
        cancelled = await self._submit("crawl", "ann", {"url": "https://example.org", "pages": 80})
        if cancelled is not None:
            await asyncio.sleep(1.0 if self._pace else 0.1)
            await self._runtime.cancel(cancelled, reason="enough pages")

    def _any(self) -> tuple[str, str, dict[str, Any]]:
        thread, chance = self._random.choice(_THREADS), self._random.random()
        if chance < 0.4:
            return "weather", thread, {"city": self._random.choice(_CITIES)}
        if chance < 0.6:
            return "exchange_rate", thread, {"pair": "EURUSD"}
        if chance < 0.75:
            return "stock_level", thread, {"sku": f"S-{self._random.randint(1, 99)}"}
        if chance < 0.85:
            return "write_summary", thread, {"topic": self._random.choice(("queues", "leases", "journals"))}
        if chance < 0.93:
            return "crawl", thread, {"url": "https://example.com", "pages": self._random.randint(4, 14)}
        if chance < 0.945:
            return "company_lookup", thread, {"name": self._random.choice(("ACME", "Globex", "Initech"))}
        if chance < 0.96:
            return "legacy_export", thread, {"month": "2026-10"}
        return "refund", thread, {"order": f"A-{self._random.randint(1000, 9999)}", "amount": 9.5, "reason": "late"}

    async def _submit(self, tool: str, thread: str, arguments: dict[str, Any]) -> str | None:
        try:
            return (await self._runtime.submit(tool, arguments, thread=thread)).id
        except ClicketError:  # the queue is full, or the server is shutting down
            return None

    async def _chat(self, thread: str, message: str) -> None:
        with contextlib.suppress(ClicketError):
            await self._agent.run(message, thread=thread)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
