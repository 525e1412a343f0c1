"""`/healthz` and `/readyz`, for probes. They need no key, and reveal nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

import msgspec

from clicket import system
from clicket.errors import ClicketError
from clicket.model.ports import Store
from clicket.server.operations import Operation, ResponseSpec, tagged
from clicket.server.request import Request
from clicket.server.responses import JSON, Response, json_response
from clicket.server.shutdown import Shutdown

__all__ = ["HealthHandlers"]

_STORE_TIMEOUT = 3.0
_VALID_FOR = 1.0


class Health(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """`reason`: why it is not ready: `not_started`, `shutting_down` or `store_unavailable`."""

    ready: bool
    reason: str | None = None


class HealthHandlers:
    def __init__(self, store: Callable[[], Store], shutdown: Shutdown) -> None:
        self._store = store
        self._shutdown = shutdown
        self.last_check: tuple[float, str | None] = (float("-inf"), None)
        """When the store was checked last, and why it was not ready; None: it was ready."""
        self._checking: asyncio.Future[str | None] | None = None

    async def healthz(self, request: Request) -> Response:
        return Response(200, b'{"status":"ok"}', JSON)

    async def readyz(self, request: Request) -> Response:
        reason = await self._reason()
        headers = () if reason is None else ((b"retry-after", b"2"),)
        return json_response(Readiness(ready=reason is None, reason=reason), 200 if reason is None else 503, *headers)

    async def _reason(self) -> str | None:
        if not self._shutdown.started:
            return "not_started"
        return "shutting_down" if self._shutdown.begun else await self._check()

    async def _check(self) -> str | None:
        """Check the store at most once a second, one check at a time: requests without a key must not load it."""
        at, reason = self.last_check
        if system.monotonic() - at < _VALID_FOR:
            return reason
        if self._checking is None:
            self._checking = asyncio.ensure_future(self._check_store())
        return await asyncio.shield(self._checking)

    async def _check_store(self) -> str | None:
        reason = None
        try:
            async with asyncio.timeout(_STORE_TIMEOUT):
                await self._store().document("ping", "ping")
        except (ClicketError, TimeoutError):
            reason = "store_unavailable"
        finally:
            self._checking = None
        self.last_check = (system.monotonic(), reason)
        return reason

    def operations(self) -> tuple[Operation, ...]:
        return tagged(
            "health",
            Operation(
                route="GET /healthz",
                description="The process is alive.",
                handler=self.healthz,
                public=True,
                responses={200: ResponseSpec(description="It is.", schema=Health)},
            ),
            Operation(
                route="GET /readyz",
                description="Store and engine can take calls.",
                handler=self.readyz,
                public=True,
                responses={
                    200: ResponseSpec(description="They can.", schema=Readiness),
                    503: ResponseSpec(
                        description="They cannot now.", schema=Readiness, headers={"Retry-After": "Seconds."}
                    ),
                },
            ),
        )
