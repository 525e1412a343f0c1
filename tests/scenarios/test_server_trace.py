"""A request that belongs to a trace: its call is a part of it."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.scenarios.kit import make
from tests.scenarios.otel_kit import Collector
from tests.scenarios.server_kit import TOOLS

from clicket.server import Options, serving

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize("wait", [True, 5.0, False])
async def test_calls_join_the_trace_of_their_request(wait: Any) -> None:
    collector = Collector()
    runtime = make(TOOLS)
    collector.watch(runtime)
    async with (
        serving(runtime, port=0, options=Options(stop_timeout=2.0)) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=30) as client,
    ):
        for id, headers in (
            ("joined", {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=b"}),
            ("alone", {}),
            ("odd", {"traceparent": "nonsense"}),
        ):
            body = {"tool": "add", "arguments": {"a": 1, "b": 1}, "id": id, "wait": wait}
            assert (await client.post("/calls", json=body, headers=headers)).status_code in (200, 202)
            assert (await (await runtime.handle(id)).result()).success
    calls = collector.calls()
    parent = calls["joined"].parent
    assert parent is not None
    assert (f"{parent.trace_id:032x}", f"{parent.span_id:016x}") == (TRACE, SPAN)
    assert parent.trace_state.get("a") == "b"
    assert calls["alone"].parent is None
    assert calls["odd"].parent is None
