"""Child processes of tools, simulated: they start late or not at all, die under their body, fall silent, or take long to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.crash.judge import Effect
from tests.simulation.loop import NODE
from tests.simulation.scene import Body, scene

from clicket.engine.executors.processes.handle import ToolProcessDied
from clicket.engine.executors.processes.target import Target
from clicket.model.codec import decode, encode

__all__ = ["SimulatedProcess"]


class SimulatedProcess:
    """What the pool of processes asks of a child (`engine/executors/processes/handle.py`)."""

    def __init__(self, grace: float, ended: Callable[[Any], None]) -> None:
        self.pid = 0
        self._grace, self._ended = grace, ended
        self._spoiled = self._gone = False
        self._running: asyncio.Future[bytes] | None = None

    @classmethod
    def spawn(cls, *, memory: int | None, grace: float, ended: Callable[[Any], None]) -> SimulatedProcess:
        return cls(grace, ended)

    async def ready(self) -> None:
        chance = scene().world.chance
        await asyncio.sleep(chance.uniform(0, 0.3))
        if chance.random() < 0.03:
            self._end()
            raise ToolProcessDied("the tool process ended before it was ready")
        self.pid = chance.randint(1_000, 30_000)

    @property
    def free(self) -> bool:
        return bool(self.pid) and self._running is None and not self._spoiled

    async def run(
        self,
        target: Target,
        arguments: bytes,
        *,
        context: dict[str, Any],
        started: Callable[[], None],
        message: Any,
        deps: Any = None,
    ) -> bytes | None:
        loop, chance = asyncio.get_running_loop(), scene().world.chance
        self._running = answer = loop.create_future()
        life = loop.create_task(self._work(answer, decode(arguments), context, started, message))
        if chance.random() < 0.1:  # at any moment, also before the body has begun
            loop.call_later(chance.expovariate(1), self._die, answer, life)
        try:
            return await answer
        except BaseException:
            self._spoiled = True
            raise
        finally:
            life.cancel()
            self._running = None

    async def _work(
        self,
        answer: asyncio.Future[bytes],
        given: dict[str, Any],
        context: dict[str, Any],
        started: Callable[[], None],
        message: Any,
    ) -> None:
        here = scene()
        await asyncio.sleep(here.world.chance.choice((0, 0.05)))
        if answer.done():
            return
        started()
        body = here.began(
            Body(context["call_id"], context["attempt"], context["tool"], NODE.get(), here.world.now, given["before"])
        )
        try:
            await asyncio.sleep(given["before"])
            here.effects.append(
                Effect(context["call_id"], context["attempt"], context["idempotency_key"], context["tool"])
            )
            message("progress", {"step": 1, "total": 2, "text": ""})
            await asyncio.sleep(given["after"])
            if not answer.done() and given["before"] != SILENT:
                answer.set_result(encode({"id": context["call_id"], "attempt": context["attempt"]}))
        finally:
            body.ended = here.world.now

    def _die(self, answer: asyncio.Future[bytes], life: asyncio.Task[None]) -> None:
        if not answer.done():
            life.cancel()
            answer.set_exception(ToolProcessDied("the tool process was killed", signal=9))
            self._end()

    async def stop(self) -> None:
        chance = scene().world.chance
        self._spoiled = True
        if self._running is not None and not self._running.done():
            self._running.set_exception(ToolProcessDied("the tool process was ended", stopped=True))
        await asyncio.sleep(chance.choice((0, 0.01, self._grace)))
        self._end()

    def _end(self) -> None:
        self._spoiled = True
        if not self._gone:
            self._gone = True
            self._ended(self)


SILENT = 1.4
"""Bodies with this wait before their effect never answer."""
