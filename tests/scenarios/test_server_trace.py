"""The call of a request with a trace context is part of that trace."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import make
from tests.scenarios.otel_kit import Collector
from tests.scenarios.server_kit import TOOLS

from clicket.server import Options, serving
from clicket.telemetry import within_trace

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize("wait", [True, 5.0, False])
async def test_calls_join_the_trace_of_their_request(wait: Any) -> None:
    collector = Collector()
    runtime = make(TOOLS)
    collector.watch(runtime)
    async with (
        serving(runtime, port=0, options=Options(stop_timeout=2.0)) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
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


async def test_a_call_over_mcp_joins_the_trace_of_its_message_or_else_of_its_request() -> None:
    collector = Collector()
    runtime = make(TOOLS)
    collector.watch(runtime)
    other = "b9c7c989f97918e1"
    head = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    async with (
        serving(runtime, port=0, options=Options(stop_timeout=2.0)) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
    ):
        for id, headers, said in (
            ("request", head, {}),
            ("message", head, {"traceparent": f"00-{TRACE}-{other}-01"}),
            ("neither", {}, {}),
        ):
            meta = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.clicket/id": id,
            }
            params = {"name": "add", "arguments": {"a": 1, "b": 1}, "_meta": {**meta, **said}}
            kinds = {
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": "tools/call",
                "mcp-name": "add",
                "accept": "application/json, text/event-stream",
            }
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            assert (await client.post("/mcp", json=body, headers={**kinds, **headers})).status_code == 200
    parents = {id: span.parent and f"{span.parent.span_id:016x}" for id, span in collector.calls().items()}
    assert parents == {"request": SPAN, "message": other, "neither": None}


async def test_a_nearer_span_of_the_same_trace_stays_the_parent() -> None:
    """A tracing middleware around the server has read the header already."""
    collector = Collector()
    async with collector.watch(make(TOOLS)) as runtime:
        with collector.tracer.start_as_current_span("request") as span:
            near = span.get_span_context()
            with within_trace({"traceparent": f"00-{near.trace_id:032x}-{SPAN}-01"}):
                await runtime.call("add", {"a": 1, "b": 1}, id="near")
            with within_trace({"traceparent": f"00-{TRACE}-{SPAN}-01"}):
                await runtime.call("add", {"a": 1, "b": 1}, id="far")
    parents = {id: span.parent and span.parent.span_id for id, span in collector.calls().items()}
    assert parents == {"near": near.span_id, "far": int(SPAN, 16)}
