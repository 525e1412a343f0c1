"""The OpenAPI document says exactly what the JSON has: no field is undocumented, and one is required only if it is always there."""

from __future__ import annotations

from random import Random
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from tests.kit.call_histories import history_by

from clicket import Runtime
from clicket.agents import Plan, Step
from clicket.model import fold
from clicket.model.chat import ChatMessage, ToolUse, Usage
from clicket.runtime.schedules import Firing
from clicket.server import create_app
from clicket.server.schemas import record_json, summary_of

DOCUMENT = create_app(Runtime(store="memory://")).openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]


def validator(name: str) -> Any:
    """Refuses fields that the document does not have."""
    closed = {
        each: {"additionalProperties": False, **schema} if "properties" in schema else schema
        for each, schema in SCHEMAS.items()
    }
    return jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{name}", "components": {"schemas": closed}})


def test_every_record_summary_and_event() -> None:
    record, summary, event, of_feed = map(validator, ("Record", "CallSummary", "Event", "FeedEvent"))
    for seed in range(500):
        history = history_by(Random(seed))
        whole = fold(history)
        record.validate(msgspec.json.decode(record_json(whole)))
        summary.validate(msgspec.to_builtins(summary_of(whole)))
        last = msgspec.to_builtins(history[-1])
        event.validate(last)
        of_feed.validate({**last, "thread": "t", "caller": "", "tool": "pay"})


@pytest.mark.parametrize(
    "smallest",
    [
        Firing(due=1.0, outcome="fired", at=2.0), ChatMessage(role="user"), ToolUse(id="u", name="add"), Usage(), Plan(), Step(text="look"),
    ],
)  # fmt: skip
def test_what_is_required_of_a_response_is_always_there(smallest: msgspec.Struct) -> None:
    """Some types leave out fields that have their default value."""
    assert SCHEMAS[type(smallest).__name__]["required"] == list(msgspec.to_builtins(smallest))


def test_a_request_needs_no_field_that_has_a_default() -> None:
    bulk, approve = validator("BulkRequest"), validator("Decision")
    bulk.validate({"action": "cancel", "filter": {"thread": "t"}})
    bulk.validate({"action": "cancel", "ids": [{"id": "c1"}]})
    approve.validate({"grant": {"uses": 3}})


def test_the_types_of_events_are_named() -> None:
    named = {
        path: methods["get"]["responses"]["200"]["content"]["text/event-stream"]["x-event-data"]["$ref"]
        for path, methods in DOCUMENT["paths"].items()
        if path in ("/events", "/calls/{id}/events", "/agents/{threadId}/events")
    }
    assert named == {
        "/calls/{id}/events": "#/components/schemas/Event",
        "/events": "#/components/schemas/FeedEvent",
        "/agents/{threadId}/events": "#/components/schemas/AgentEvent",
    }
