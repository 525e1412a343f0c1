"""The OpenAPI document is true: a fuzzer that only knows the document finds no 500, no status, header or body it does not tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import served, serving_in_thread

EXAMPLES = 12
ENDLESS = "/events"  # it ends with the server; see test_server_events


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = "memory://" if request.param == "memory" else sqlite_url(tmp_path_factory.mktemp("openapi"))
    with serving_in_thread(store=store) as url:
        yield url


def document(url: str) -> dict[str, Any]:
    whole: dict[str, Any] = httpx2.get(f"{url}/openapi.json").json()
    return whole


def load(url: str, whole: dict[str, Any]) -> Any:
    config = SchemathesisConfig.from_dict({"base-url": url, "generation": {"deterministic": True}})
    schema = schemathesis.openapi.from_dict(whole, config=config)
    return schema.exclude(path=ENDLESS)


def with_names_that_exist(url: str) -> dict[str, Any]:
    """The document, narrowed to tools, calls and artifacts that are there: beyond the 404s."""
    made = httpx2.post(f"{url}/calls", json={"tool": "long", "wait": True}).json()
    httpx2.post(f"{url}/calls", json={"tool": "echo", "id": "known", "arguments": {"value": 1}, "wait": True})
    kept = httpx2.post(f"{url}/artifacts", content=b"some bytes").json()
    whole = document(url)
    names = {"id": [made["call_id"], "known"], "name": ["add", "echo"], "threadId": ["default", "t/1"]}
    for path, methods in whole["paths"].items():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    known = [kept["id"]] if path.startswith("/artifacts") else names[parameter["name"]]
                    parameter["schema"] = {"type": "string", "enum": known}
    body = whole["components"]["schemas"]["CallRequest"]["properties"]
    body["tool"] = {"type": "string", "enum": ["add", "echo", "fail", "count"]}
    return whole


@pytest.fixture
def anything(url: str) -> Any:
    return load(url, document(url))


@pytest.fixture
def known(url: str) -> Any:
    return load(url, with_names_that_exist(url))


few = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
fuzzed = schemathesis.pytest.from_fixture("anything")
informed = schemathesis.pytest.from_fixture("known")


@fuzzed.parametrize()
@few
def test_nothing_but_what_the_document_says(case: Any) -> None:
    case.call_and_validate()


@informed.parametrize()
@few
def test_also_of_things_that_exist(case: Any) -> None:
    case.call_and_validate()


async def test_every_route_is_in_the_document_and_the_other_way_round() -> None:
    async with served() as it:
        whole = (await it.get("/openapi.json")).json()
        app_routes = {
            (method, operation.path)
            for operation in it.context.operations
            for method in [operation.method]
        }
        told = {(method.upper(), path) for path, methods in whole["paths"].items() for method in methods}
        assert told == app_routes
        assert whole["openapi"] == "3.1.0"
        assert len({op["operationId"] for methods in whole["paths"].values() for op in methods.values()}) == len(told)
        assert json.dumps(whole).count("problem+json") > len(told)


assert GenerationMode.NEGATIVE  # the fuzzer's default has both: what fits the document, and what does not
