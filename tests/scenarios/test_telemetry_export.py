"""Telemetry that a setting or OpenTelemetry's variables turn on, exported over OTLP/HTTP to a collector on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.kit.forks import forked
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.otel_kit import Collector, facts
from tests.scenarios.test_recovery import TOOLS, crash

from clicket import Settings
from clicket.errors import UsageError
from clicket.model import Event
from clicket.stores.sqlite import SqliteStore
from clicket.telemetry import tracing_for

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import asyncio, sys
from clicket import Runtime, tool

@tool
async def add(a: int, b: int) -> int:
    from opentelemetry import trace
    with trace.get_tracer("own").start_as_current_span("inside"):
        return a + b

@tool
async def breaks() -> None:
    raise ValueError("no")

async def main():
    async with Runtime([add, breaks], store="memory://") as rt:
        assert (await rt.call("add", {"a": 1, "b": 2})).output == 3
        await rt.call("breaks")

asyncio.run(main())
"""
QUIET = """
import asyncio, json, os, sys
from clicket import Runtime, tool

@tool
async def add(a: int, b: int) -> int:
    return a + b

async def main():
    async with Runtime([add], store="memory://") as rt:
        await rt.call("add", {"a": 1, "b": 2})
        await rt.report()
        assert (await rt.get((await rt.history()).items[0].id)).events[0].data.keys().isdisjoint({"traceparent"})
        assert not rt.observers.listeners and not rt.observers.around

for environment in json.loads(sys.argv[1]):
    os.environ |= environment
    asyncio.run(main())
    print([name for name in sys.modules if name.startswith(("opentelemetry", "prometheus_client"))])
    for name in environment:
        del os.environ[name]
"""


class Receiver:
    """What a collector received, as the official messages."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        self.services: set[str] = set()

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.services |= {a.value.string_value for a in resource.resource.attributes if a.key == "service.name"}
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for part in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics += [metric for scope in part.scope_metrics for metric in scope.metrics]


@contextmanager
def receiver() -> Iterator[tuple[Receiver, str]]:
    taken = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.take(self.path, gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield taken, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(*program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "CLICKET_"))}
    return subprocess.run(
        [sys.executable, *program], cwd=folder, env={**kept, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip


def export(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process that has the SDK imported but not set up."""
    otlp = "opentelemetry.exporter.otlp.proto.http"
    modules = (
        "clicket.telemetry.export",
        "clicket.telemetry.otel",
        f"{otlp}.metric_exporter",
        f"{otlp}.trace_exporter",
    )
    return run(*forked(*modules), "-c", program, folder=folder, **environment)


@pytest.mark.parametrize(
    ("extra", "service"),
    [({}, "clicket"), ({"CLICKET_TELEMETRY": "otel"}, "clicket"), ({"OTEL_SERVICE_NAME": "shop"}, "shop")],
)
def test_spans_and_metrics_reach_a_collector(tmp_path: Path, extra: dict[str, str], service: str) -> None:
    with receiver() as (taken, url):
        done = export(PROGRAM, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=url, **extra)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    spans = {span.name: span for span in taken.spans}
    assert set(spans) == {"execute_tool add", "execute_tool breaks", "inside"}
    assert spans["inside"].parent_span_id == spans["execute_tool add"].span_id
    assert {a.key: a.value.string_value for a in spans["execute_tool breaks"].attributes}["error.type"] == "tool_error"
    assert taken.services == {service}
    (duration,) = {metric.name for metric in taken.metrics if metric.name.startswith("gen_ai.")}
    assert duration == "gen_ai.execute_tool.duration"
    counts = {
        attribute.value.string_value: point.count
        for metric in taken.metrics
        if metric.name == duration
        for point in metric.histogram.data_points
        for attribute in point.attributes
        if attribute.key == "gen_ai.tool.name"
    }
    assert counts == {"add": 1, "breaks": 1}


def test_a_collector_that_is_not_there_harms_no_call(tmp_path: Path) -> None:
    done = export(PROGRAM, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT="1")
    assert done.returncode == 0
    assert 'Traceback (most recent call last):\n  File "<string>"' not in done.stderr


def test_off_means_not_even_imported(tmp_path: Path) -> None:
    """One process, in which no step imports it: the first list that is not empty shows which environment does."""
    environments: list[dict[str, str]] = [
        {},
        {"CLICKET_TELEMETRY": "off", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"OTEL_SDK_DISABLED": "true", "CLICKET_TELEMETRY": "otel"},
    ]
    done = run("-c", QUIET, json.dumps(environments), folder=tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n" * len(environments), "")


@pytest.mark.parametrize("mode", ["otel", "auto"])
def test_without_the_packages(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With clicket's own setting it is an error; with OpenTelemetry's variables only a warning."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    if mode == "otel":
        with pytest.raises(UsageError, match=r"clicket\[telemetry\]"):
            tracing_for(mode, content=False, environ=environ)
    else:
        assert tracing_for(mode, content=False, environ=environ) is None


async def test_an_exporter_that_is_not_known_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    done = export(PROGRAM, tmp_path, OTEL_TRACES_EXPORTER="zipkin")
    assert done.returncode == 1
    assert "OTEL_TRACES_EXPORTER='zipkin'" in done.stderr
    console = export(PROGRAM, tmp_path, OTEL_TRACES_EXPORTER="console", OTEL_METRICS_EXPORTER="none")
    assert console.returncode == 0
    assert '"name": "execute_tool add"' in console.stdout


def test_the_setting_is_checked() -> None:
    with pytest.raises(UsageError, match="telemetry"):
        Settings(telemetry="jaeger")  # type: ignore[arg-type]
    assert Settings.load(environ={"CLICKET_TELEMETRY": "off", "CLICKET_TELEMETRY_CONTENT": "1"}).telemetry.content


async def test_calls_that_a_crash_left_get_a_span_of_their_own(tmp_path: Path) -> None:
    await crash(tmp_path, "plain", "idempotent")
    seen = Collector()
    async with seen.watch(make(TOOLS, sqlite_url(tmp_path))) as rt:
        for id in ("plain", "idempotent"):
            await asyncio.wait_for((await rt.handle(id)).result(), PATIENCE)
    spans = seen.calls()
    assert {id: facts(span)["clicket.state"] for id, span in spans.items()} == {
        "plain": "failed",
        "idempotent": "completed",
    }
    assert all(facts(span)["clicket.recovered"] is True for span in spans.values())
    assert facts(spans["plain"])["error.type"] == "outcome_unknown"
    assert facts(spans["idempotent"])["clicket.attempts"] == 2


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("given", [None, 5, "", "00-zz-zz-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", PARENT + "x"])
async def test_a_parent_that_makes_no_sense_is_none(given: object, tmp_path: Path) -> None:
    span = await _taken_up(tmp_path, given)
    assert span.parent is None
    assert span.links == ()


async def test_a_call_that_was_taken_over_is_linked_to_the_span_that_it_was_made_in(tmp_path: Path) -> None:
    span = await _taken_up(tmp_path, PARENT)
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert span.parent.is_remote
    (link,) = span.links
    assert link.context.span_id == span.parent.span_id


async def _taken_up(folder: Path, traceparent: object) -> Any:
    """The span of a call whose first event has this parent."""
    await crash(folder, "plain")
    seen = Collector()
    rt = make(TOOLS, sqlite_url(folder))
    seen.watch(rt)

    claim = SqliteStore.claim_orphans

    async def claimed(store: SqliteStore, *given: Any) -> Any:
        found = await claim(store, *given)
        for stored in found:
            first: Event = stored.events[0]
            first.data["traceparent"] = traceparent
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqliteStore, "claim_orphans", claimed)
        await rt.open()
    async with aclosing(SimpleNamespace(aclose=rt.close)):
        await asyncio.wait_for((await rt.handle("plain")).result(), PATIENCE)
    return seen.calls()["plain"]
