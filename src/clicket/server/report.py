"""`/report`, `/anomalies`, `/series`, `/metrics`, `/queue` and `/audit`. A key sees the figures of its own calls, an admin those of all."""

from __future__ import annotations

from typing import get_args

import msgspec

from clicket.engine.people.audit import AuditEntry
from clicket.model.queue import QueueReport
from clicket.server.call_lookup import CALLER, visible_runtime
from clicket.server.operations import Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter, instant, limit_of
from clicket.server.request import Request
from clicket.server.responses import Response, json_response
from clicket.telemetry import Anomaly, Report
from clicket.telemetry.series import Series
from clicket.telemetry.series_rows import Metric

__all__ = ["OPERATIONS"]

_TOOL = Parameter(name="tool", description="Only this tool.")
_SINCE = instant("since", "Only calls made at or after this time (seconds since 1970), as far as the journal goes.")


class Anomalies(msgspec.Struct, frozen=True, kw_only=True):
    items: list[Anomaly]


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first; `before` with the last number fetches the next page."""

    items: list[AuditEntry]


async def report(request: Request) -> Response:
    return json_response(await request.principal.sees.report(request.query("tool"), since=request.query("since")))


async def anomalies(request: Request) -> Response:
    found = await request.principal.sees.anomalies(request.query("tool"), since=request.query("since"))
    return json_response(Anomalies(items=found))


async def series(request: Request) -> Response:
    which = {name: request.query(name) for name in ("tool", "since", "until")}
    metric, step = request.query("metric", "calls"), request.query("step", 60)
    return json_response(await visible_runtime(request).series(metric, **which, step=step))


async def metrics(request: Request) -> Response:
    from clicket.telemetry.prometheus import scrape

    body, kind = await scrape(request.principal.sees, request.header(b"accept") or "")
    return Response(200, body, kind.encode())


async def queue(request: Request) -> Response:
    # For an admin, `sees` is the runtime itself.
    return json_response(await request.principal.sees.queue(request.query("tool")))


async def audit(request: Request) -> Response:
    # For an admin, `sees` is the runtime itself.
    entries = await request.principal.sees.audit.list(limit=request.query("limit", 100), before=request.query("before"))
    return json_response(AuditPage(items=list(entries)))


OPERATIONS = tagged(
    "figures",
    Operation(
        route="GET /report",
        description="Counts and run times of ended calls by tool.",
        handler=report,
        scopes=("read",),
        parameters=(_TOOL, _SINCE),
        responses={200: ResponseSpec(description="The report.", schema=Report)},
    ),
    Operation(
        route="GET /anomalies",
        description="Tools under 80 % success or over 30 s on average, with at least 5 runs.",
        handler=anomalies,
        scopes=("read",),
        parameters=(_TOOL, _SINCE),
        responses={200: ResponseSpec(description="The anomalies.", schema=Anomalies)},
    ),
    Operation(
        route="GET /series",
        description="Points of a chart at equal steps: outcomes of calls, error codes, run times in seconds, or the length of the queue. "
        "Kept in the store by the minute, and after a day by the hour. The last point is under way.",
        handler=series,
        scopes=("read",),
        parameters=(
            Parameter(name="metric", description="What is shown; `calls` if left out.", choices=get_args(Metric)),
            _TOOL,
            instant("since", "From this time on (seconds since 1970); an hour ago if left out."),
            instant("until", "Up to this time (seconds since 1970); now if left out."),
            Parameter(
                name="step",
                description="Seconds between two points, a multiple of 60; 60 if left out. There are at most 2,000 points.",
                kind="integer",
                minimum=60,
                maximum=86_400,
                schema={"type": "integer", "minimum": 60, "maximum": 86_400, "multipleOf": 60},
            ),
            CALLER,
        ),
        responses={200: ResponseSpec(description="The points, the oldest first.", schema=Series)},
    ),
    Operation(
        route="GET /metrics",
        description="Prometheus metrics: of everything for an admin, else of the key's own calls.",
        handler=metrics,
        scopes=("read",),
        responses={200: ResponseSpec(description="The metrics.", media_type="text/plain")},
    ),
    Operation(
        route="GET /queue",
        description="The calls that wait for a worker, in the whole store: how many, and how long the oldest has waited.",
        handler=queue,
        scopes=("admin",),
        parameters=(_TOOL,),
        responses={200: ResponseSpec(description="The queue.", schema=QueueReport)},
    ),
    Operation(
        route="GET /audit",
        description="Decisions of people and of the policy, newest first.",
        handler=audit,
        scopes=("admin",),
        parameters=(
            limit_of("Entries"),
            Parameter(
                name="before",
                description="Only entries with a smaller number.",
                kind="integer",
                minimum=0,
                maximum=2**53,
            ),
        ),
        responses={200: ResponseSpec(description="The entries.", schema=AuditPage)},
    ),
)
