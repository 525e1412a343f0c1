"""A process whose answer was lost erases the call that it then refused, but not one whose id another process has acknowledged."""

from __future__ import annotations

import asyncio

from tests.simulation.network import Network, NetworkSession
from tests.simulation.store_model import StoreModel
from tests.simulation.world import World

from clicket import Runtime, tool
from clicket.errors import StoreUnavailable
from clicket.runtime.settings import Settings


@tool
async def later(ctx: object = None) -> str:
    return "done"


def test_a_call_whose_id_another_process_has_acknowledged_is_not_erased() -> None:
    world, model = World(1, order="first"), StoreModel(claims_by_append=True)
    network = Network(world, lost=0.0, unheard=0.0, late=0.0, messages_lost=0.0)
    network.calm()
    said: list[str] = []
    kept: list[str] = []

    async def makes(runtime: Runtime, name: str) -> None:
        async with runtime:
            said.append(f"{name} is open")
            try:
                await runtime.submit("later", id="a", not_before=world.system.now() + 30)
                said.append(f"{name} was answered")
            except StoreUnavailable:
                said.append(f"{name} was refused")
            await asyncio.sleep(12)  # what it erases is erased when it closes

    async def main() -> None:
        first, second = world.add_node("first"), world.add_node("second")
        runtimes = [
            Runtime([later], store=NetworkSession(network, node, model, bus=True), settings=Settings(lease=60.0))
            for node in (first, second)
        ]
        world.moment = lambda kind, node, *what: network.cut.update(
            {node: world.now + 10} if kind == "append" and node is first else {}
        )
        lives = [world.spawn(first, makes(runtimes[0], "first"))]
        while not model.calls:
            await asyncio.sleep(0.01)
        lives.append(world.spawn(second, makes(runtimes[1], "second")))
        await asyncio.sleep(18)
        kept.extend(call.id for call in model.calls.values())
        await asyncio.wait(lives)

    world.run(main())
    assert said == ["first is open", "second is open", "second was answered", "first was refused"]
    assert kept == ["a"]
    assert world.problems == []
