"""Puts the demonstration together: a store of its own, a runtime, an agent, webhook endpoints, and the traffic while the server runs."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from clicket.agents import Agent, ReActAgent
from clicket.cli.demo_server.model import DemoModel
from clicket.cli.demo_server.tools import POLICY, SAMPLES, TOOLS, interpreter
from clicket.cli.demo_server.traffic import Traffic
from clicket.cli.demo_server.webhook_receiver import WebhookReceiver
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.search import Index, deep_search

__all__ = ["Demo", "demo_store"]

_PRICES = [{"model": "rules", "input": 3.0, "output": 15.0, "max_output": 400}]
_BUDGETS = [
    {"scope": "all", "limit_usd": 0.5, "period": "month", "on_reached": "warn", "name": "everything"},
    {"scope": "agent", "limit_usd": 0.5, "period": "day", "on_reached": "stop", "name": "each agent"},
    {"scope": "thread", "limit_tokens": 40_000, "period": "total", "on_reached": "ask", "name": "each conversation"},
]
_SYSTEM = "You are the assistant of a demonstration."


@contextmanager
def demo_store(url: str | None) -> Iterator[str]:
    """The URL of the demonstration's store: `url`, or a file that is removed at the end."""
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="clicket-demo-", ignore_cleanup_errors=True) as folder:
        yield f"sqlite:///{Path(folder) / 'demo.db'}"


class Demo:
    """`pace`: seconds between two calls, on average; 0: only one call of each kind."""

    def __init__(self, settings: Settings, store: str, *, pace: float = 1.2) -> None:
        self._index = Index.open()
        self._index.add_folder(SAMPLES)
        self._store = store
        tools = [*TOOLS, interpreter(), deep_search.tool(engine=self._index, k=2)]
        self._receiver = WebhookReceiver()
        own = settings.replace(
            store=store, max_concurrency=16, webhooks=self._receiver.endpoints, prices=_PRICES, budgets=_BUDGETS
        )
        self.runtime = Runtime(tools, settings=own, policy=POLICY)
        self.agent: Agent = ReActAgent(self.runtime, DemoModel(), name="assistant", system=_SYSTEM)
        self._traffic = Traffic(self.runtime, self.agent, pace=pace)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Makes calls while the block runs. The runtime must be open."""
        if self._store.startswith("sqlite:"):
            self._traffic.start(self._traffic.unknown_outcome(self._store))
        async with self._receiver.running():
            traffic = asyncio.ensure_future(self._traffic.run())
            try:
                yield
            finally:
                traffic.cancel()
                with suppress(asyncio.CancelledError):
                    await traffic

    def close(self) -> None:
        """Close the documents that the demonstration searches, and its webhook endpoints. Call it when the runtime is closed."""
        self._index.close()
        self._receiver.close()
