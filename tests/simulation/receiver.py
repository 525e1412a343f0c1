"""Another system that receives webhooks. It is slow, refuses some, and takes some whose answer is lost."""

from __future__ import annotations

import asyncio
import json

from tests.simulation.scene import scene

from clicket.telemetry.webhooks.config import Endpoint
from clicket.telemetry.webhooks.sender import Answer

__all__ = ["WEBHOOKS", "SimulatedSender"]

WEBHOOKS = (
    {
        "name": "ops", "url": "https://ops.example/hook", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "events": ["call.ended", "approval.requested"], "retry": [1.0] * 30, "timeout": 1.0,
    },
)  # fmt: skip


class SimulatedSender:
    async def send(self, endpoint: Endpoint, id: str, at: float, body: bytes) -> Answer:
        here = scene()
        chance = here.world.chance
        await asyncio.sleep(chance.choice((0.0, 0.02, 0.3)))
        dice = chance.random() if here.is_storm else 1.0
        if dice < 0.1:
            return Answer(status=500, problem="it answered 500")
        told = json.loads(body)
        call = told["data"]["call"]
        here.webhooks.append((told["type"], call["thread"], call["id"], call["state"], id))
        await asyncio.sleep(chance.choice((0.0, 0.02)))
        return Answer(problem="it did not answer within 1 s") if dice < 0.2 else Answer(status=200)

    async def close(self) -> None:
        pass
