"""Stats that survive restarts, anomalies of tools, and calls as OpenTelemetry spans below the caller's span.

Needs `pip install 'clicket[telemetry]'`. Without your own providers, OTEL_EXPORTER_OTLP_ENDPOINT alone turns tracing on.
"""

from __future__ import annotations

import asyncio
import tempfile

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from clicket import Runtime, tool
from clicket.telemetry import instrument


@tool
async def look_up(word: str) -> str:
    """Look up a word."""
    await asyncio.sleep(0.001 * len(word))
    return word.upper()


@tool
async def broken() -> None:
    """Always fails."""
    raise ValueError("the service is gone")


async def main() -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/calls.db"
        runtime = Runtime(tools=[look_up, broken], store=store)
        instrument(runtime, provider)
        async with runtime as rt:
            with provider.get_tracer("demo").start_as_current_span("a turn of an agent"):
                for word in ("a", "tool", "call", "durably"):
                    await rt.call("look_up", {"word": word})
                for number in range(5):
                    await rt.call("broken", thread=f"t{number}")

        # Later, another runtime: the store has aggregated the stats.
        async with Runtime(store=store) as rt:
            report = await rt.report()
            for each in report.tools.values():
                p95 = "-" if each.p95 is None else f"{each.p95 * 1000:.1f} ms"
                print(
                    f"{each.tool:8} {each.total} calls, {each.success_rate:.0%} success, p95 {p95}, errors {each.errors}"
                )
            for anomaly in await rt.anomalies():
                print("anomaly:", anomaly.message)

    turn = next(span for span in spans.get_finished_spans() if span.name == "a turn of an agent")
    children = [s for s in spans.get_finished_spans() if s.parent and s.parent.span_id == turn.context.span_id]
    print(f"{len(children)} spans under {turn.name!r}, the first is {children[0].name!r}")


if __name__ == "__main__":
    asyncio.run(main())
