"""The process of the tour that is killed. It loads nothing of the command line, so that it starts soon."""

from __future__ import annotations

import asyncio

from clicket.cli.demo_tools import CHILD_TOOLS
from clicket.runtime import Runtime
from clicket.settings import Settings

__all__ = ["run_child"]


def run_child(store: str, index: str, payment: str) -> None:
    """The process that will be killed. It would end by itself, too, should its parent be gone."""

    async def work() -> None:
        async with Runtime(CHILD_TOOLS, settings=Settings(store=store)) as runtime:
            handles = [
                await runtime.submit("index_site", {"pages": 20}, id=index, thread="demo"),
                await runtime.submit("send_payment", {"amount": 250.0, "to": "ACME"}, id=payment, thread="demo"),
            ]
            for handle in handles:
                await handle.result()

    asyncio.run(work())
