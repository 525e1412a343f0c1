"""One process of a fleet: `python -m tests.scenarios.fleet_child STORE TOOLS SETTINGS`, then one request per line of stdin."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import msgspec
from tests.scenarios.fleet_tools import POLICY, TOOLS

from clicket import ClicketError, Runtime, Settings


def respond(number: int, **answer: Any) -> None:
    sys.stdout.write(json.dumps({"number": number, **answer}) + "\n")
    sys.stdout.flush()


class Orders:
    """Requests of a test; all other names are methods of the runtime itself."""

    def __init__(self, rt: Runtime) -> None:
        self.rt = rt

    async def open(self) -> None:
        """Answers once the runtime is open."""

    async def submit(self, tool: str, arguments: Any, **options: Any) -> str:
        return (await self.rt.submit(tool, arguments, **options)).id

    async def submit_many(self, tool: str, count: int, arguments: Any, **options: Any) -> list[str]:
        return [await self.submit(tool, arguments, **options) for _ in range(count)]

    async def call_many(self, tool: str, count: int, arguments: Any) -> list[Any]:
        return list(await asyncio.gather(*(self.rt.call(tool, arguments) for _ in range(count))))

    async def result(self, id: str) -> Any:
        return await (await self.rt.handle(id)).result()

    async def watch(self, id: str, after: int = 0) -> list[Any]:
        return [event async for event in (await self.rt.handle(id)).events(after)]

    async def stats(self) -> Any:
        return await self.rt.cache.stats()


async def main(store: str, tools: str, settings: str) -> None:
    wanted = json.loads(tools)
    chosen = [each for each in TOOLS if not wanted or each.name in wanted]
    given = {"cancel_grace": 0.5, "close_timeout": 10.0, **json.loads(settings)}
    lines = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    leaving = 0
    async with Runtime(chosen, policy=POLICY, settings=Settings(store=store, **given)) as rt:
        orders = Orders(rt)

        async def obey(order: dict[str, Any]) -> None:
            what, number = order["do"], order["number"]
            method = getattr(orders, what, None) or getattr(rt, what)
            try:
                value = await method(*order["args"], **order["given"])
                respond(number, value=msgspec.to_builtins(value))
            except ClicketError as error:
                respond(number, error=error.code)
            except Exception as error:
                respond(number, error=repr(error))

        async with asyncio.TaskGroup() as group:
            async for line in lines:
                order = json.loads(line)
                if order["do"] == "close":
                    leaving = order["number"]
                    await rt.close()  # waiting requests get an error then
                    break
                group.create_task(obey(order))
    respond(leaving, value=None)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
