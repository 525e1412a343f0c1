"""Figures: `/report`, `/anomalies`, `/metrics`, and the audit log. A key sees the figures of its own calls, an admin all."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.server.operations import Answer, Operation
from clicket.server.parameters import Parameter
from clicket.server.replies import Reply, json_reply
from clicket.server.request import Request
from clicket.telemetry import Anomaly, Report

__all__ = ["OPERATIONS"]

_TOOL = Parameter(name="tool", about="Only this tool.")
_SINCE = Parameter(
    name="since", about="Only calls made at or after this time (seconds since 1970), as far as the journal goes.",
    kind="number", least=0, most=1e11,
)  # fmt: skip


class Anomalies(msgspec.Struct, frozen=True, kw_only=True):
    anomalies: list[Anomaly]


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    at: float
    who: str
    what: str
    details: dict[str, Any] = {}


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first; `before` with the last number fetches the next page."""

    entries: list[AuditLine]


async def report(request: Request) -> Reply:
    return json_reply(await request.principal.sees.report(request.query("tool"), since=request.query("since")))


async def anomalies(request: Request) -> Reply:
    found = await request.principal.sees.anomalies(request.query("tool"), since=request.query("since"))
    return json_reply(Anomalies(anomalies=found))


async def metrics(request: Request) -> Reply:
    from clicket.telemetry.prometheus import scrape

    body, kind = await scrape(request.principal.sees, request.header(b"accept") or "")
    return Reply(200, body, kind.encode())


async def audit(request: Request) -> Reply:
    # An admin sees everything: its view is the runtime itself.
    entries = await request.principal.sees.audit.list(limit=request.query("limit", 100), before=request.query("before"))
    return json_reply({"entries": [msgspec.to_builtins(entry) for entry in entries]})


OPERATIONS = (
    Operation(
        method="GET",
        path="/report",
        about="Counts and run times of ended calls by tool.",
        handler=report,
        scopes=("read",),
        parameters=(_TOOL, _SINCE),
        answers={200: Answer(about="The report.", model=Report)},
        tag="figures",
    ),
    Operation(
        method="GET",
        path="/anomalies",
        about="Tools under 80 % success or over 30 s on average, with at least 5 runs.",
        handler=anomalies,
        scopes=("read",),
        parameters=(_TOOL, _SINCE),
        answers={200: Answer(about="What stands out.", model=Anomalies)},
        tag="figures",
    ),
    Operation(
        method="GET",
        path="/metrics",
        about="Prometheus metrics: of everything for an admin, else of the key's own calls.",
        handler=metrics,
        scopes=("read",),
        answers={200: Answer(about="The metrics.", kind="text/plain")},
        tag="figures",
    ),
    Operation(
        method="GET",
        path="/audit",
        about="What people and the policy decided, newest first.",
        handler=audit,
        scopes=("admin",),
        parameters=(
            Parameter(name="limit", about="Lines on a page; 100 if left out.", kind="integer", least=1, most=1_000),
            Parameter(name="before", about="Only lines with a smaller number.", kind="integer", least=0, most=2**53),
        ),
        answers={200: Answer(about="The lines.", model=AuditPage)},
        tag="figures",
    ),
)
