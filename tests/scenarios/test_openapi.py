"""The OpenAPI document is complete: a fuzzer that knows only the document finds no 500 and no undocumented status, header or body."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import settings
from tests.kit import unicode_ranges
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import served, serving_in_thread

SHORT = settings.get_current_profile_name() == "short"
EXAMPLES = 2 if SHORT else 50  # of a stateful or random phase
KEY = "a-bare-secret-of-good-length"
WITH_KEY = {"x-api-key": KEY}
# A short run takes the limits of every parameter one by one; random data, which would be the same in each short run, is for long runs.
# The document has no examples today: looking for them takes a second of each run.
PHASES = "coverage,stateful" if SHORT else "examples,coverage,fuzzing,stateful"
ENDLESS = (
    "/events",
    "/agents/{threadId}/events",
)  # they end with the server; see test_server_events, test_server_agents

# No schema can describe a range beyond the end, a tool's own schema for its arguments, or the schema of an agent's answer. A filter whose
# fields are all null matches everything, and is refused; a call with refused arguments needs new ones to run again;
# a chart has a bounded number of points. Agents refuse media and tools of the server's own names; JSON-RPC has its errors in the body.
# A server without a key keeps no credentials, and has no links without its address. A fact is more than spaces, and no caller is forgotten
# while one of its calls runs.
CONFIG = """
[[operations]]
include-path-regex = "/artifacts/.*|/calls/.*/result"
checks.positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 409, 416, "5xx"]
[[operations]]
include-path-regex = "^/ag-ui/|^/ai-sdk/"
checks.positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 409, 422, "5xx"]
[[operations]]
include-path-regex = "^/a2a/"
checks.negative_data_rejection.expected-statuses = ["2xx", "4xx"]
[[operations]]
include-path-regex = "^/agents/.*/(undo|fork|rerun|resume)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 422, "5xx"]
[[operations]]
include-path-regex = "^/calls$|^/agents/.*/messages$"
checks.positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 409, 422, "5xx"]
[[operations]]
include-path-regex = "^/bulk$|^/calls/.*/again$|^/series$|^/schedules/|^/credentials/|^/memory|^/forget$"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 422, "5xx"]
"""

# A path that does not have a method refuses it in one place for all methods: a short run tries one of them on each path.
ONE_OTHER_METHOD = """
[phases.coverage]
unexpected-methods = ["TRACE"]
"""


# The document and the checks are the same for each store; one that writes to a disk tests more.
@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.slow), "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    store = "memory://" if request.param == "memory" else sqlite_url(tmp_path)
    # The fuzzer finds the server among the workers and drains it: with this lease the server notices after the test.
    with serving_in_thread(options={"api_keys": (KEY,)}, store=store, agents=agents(tmp_path), lease=3600.0) as url:
        yield url


def agents(folder: Path) -> dict[str, Any]:
    script = {"answers": [[["add", {"a": 1, "b": 2}], ["fail", {}]], "Done."], "repeat": True}
    (folder / "script.json").write_text(json.dumps(script))
    return {
        "helper": {"model": f"script:{folder / 'script.json'}"},
        "default": {"model": f"script:{folder / 'script.json'}"},
    }


def document(url: str) -> dict[str, Any]:
    whole: dict[str, Any] = httpx2.get(f"{url}/openapi.json", headers=WITH_KEY).json()
    return whole


def fill(url: str) -> tuple[str, str]:
    """Two calls, one of them named `known`, and an artifact. Returns the other call's id and the artifact's."""
    made = httpx2.post(f"{url}/calls", json={"tool": "long", "wait": True}, headers=WITH_KEY).json()
    known = {"tool": "echo", "id": "known", "arguments": {"value": 1}, "wait": True}
    httpx2.post(f"{url}/calls", json=known, headers=WITH_KEY)
    kept = httpx2.post(f"{url}/artifacts", content=b"some bytes", headers=WITH_KEY).json()
    return made["call_id"], kept["id"]


def fuzz(url: str, whole: dict[str, Any], folder: Path, *options: str) -> None:
    """Every check of schemathesis, with valid and invalid data, and each operation without the key that the document requires."""
    if SHORT:  # HEAD is GET without its body: one function serves both
        for methods in whole["paths"].values():
            methods.pop("head", None)
    # The fuzzer gives each scheme a value beside the key that it is told to send, and two keys are one too many: no request would get in.
    del whole["components"]["securitySchemes"]["apiKey"]
    for methods in whole["paths"].values():
        for operation in methods.values():
            if "security" in operation:
                operation["security"] = [scheme for scheme in operation["security"] if "apiKey" not in scheme]
    unicode_ranges.save(folder)
    (folder / "openapi.json").write_text(json.dumps(whole))
    (folder / "schemathesis.toml").write_text((ONE_OTHER_METHOD if SHORT else "") + CONFIG)
    command = [
        str(Path(sys.executable).parent / "st"), "--config-file", "schemathesis.toml", "run", "openapi.json", "--url", url,
        *(f"--exclude-path={path}" for path in ENDLESS), "--max-examples", str(EXAMPLES), "--seed", "7", "--generation-database", "none",
        "--phases", PHASES, "--request-timeout", "30", "--no-color", "--header", f"Authorization: Bearer {KEY}", *options,
    ]  # fmt: skip
    # For each of thousands of requests the fuzzer reads the whole environment, looking for proxies: it gets a small one.
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "Authentication failed" not in done.stdout, "the requests got in"
    count = sum(len(methods) for methods in whole["paths"].values())
    endless = sum(len(whole["paths"].get(path, ())) for path in ENDLESS)
    assert f"Selected: {count - endless}/{count}" in done.stdout, "all but the endless streams"


@pytest.mark.first
def test_nothing_but_what_the_document_says(url: str, tmp_path: Path) -> None:
    fill(url)
    fuzz(url, document(url), tmp_path)


@pytest.mark.first
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_also_of_things_that_exist(url: str, tmp_path: Path) -> None:
    """Restricted to existing tools, calls and artifacts: the code behind the 404s."""
    made, kept = fill(url)
    whole = document(url)
    names = {"id": [made, "known"], "name": ["add", "echo"], "threadId": ["default", "t 1"]}
    names["provider"] = ["github"]
    names["token"] = ["ckx_" + "a" * 43 + "-a25vd24"]
    names["agent"], names["messageId"], names["run"] = ["helper"], ["unknown"], ["unknown"]
    fact = httpx2.post(f"{url}/memory", json={"text": "a fact"}, headers=WITH_KEY).json()
    names["factId"] = [fact["id"]]
    del whole["paths"]["/forget"]  # the things would exist no more
    for path, methods in whole["paths"].items():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    there = [kept] if path.startswith("/artifacts") else names[parameter["name"]]
                    parameter["schema"] = {"type": "string", "enum": there}
    body = whole["components"]["schemas"]["CallRequest"]["properties"]
    body["tool"] = {"type": "string", "enum": ["add", "echo", "fail", "count"]}
    whole["components"]["schemas"]["MessageRequest"]["properties"]["agent"] = {"enum": ["helper", "default", None]}
    if SHORT:  # all others are the same as in the test above, which has the same calls and the same artifact
        named = "CallRequest", "MessageRequest"
        whole["paths"] = {
            path: methods
            for path, methods in whole["paths"].items()
            if "{" in path or any(f'/{name}"' in json.dumps(methods) for name in named)
        }
    fuzz(url, whole, tmp_path, "--mode", "positive")  # other names are harmless, which looks like a wrong schema


async def test_every_route_is_in_the_document_and_the_other_way_round() -> None:
    async with served() as it:
        whole = (await it.get("/openapi.json")).json()
        documented = {(method.upper(), path) for path, methods in whole["paths"].items() for method in methods}
        table = it.parts.operations
        heads = {("HEAD", operation.path) for operation in table if operation.head}
        assert documented == {(operation.method, operation.path) for operation in table} | heads
        assert whole["openapi"] == "3.1.0"
        names = [operation["operationId"] for methods in whole["paths"].values() for operation in methods.values()]
        assert len(set(names)) == len(names)


async def test_every_reference_resolves_to_one_schema() -> None:
    """Two schemas of one name would get the names of their modules, and references to the plain name would lead nowhere."""
    async with served() as it:
        whole = (await it.get("/openapi.json")).json()
    prefix, schemas = "#/components/schemas/", whole["components"]["schemas"]
    references = set(references_in(whole))
    assert {reference for reference in references if reference.removeprefix(prefix) not in schemas} == set()
    assert [name for name in schemas if not name.isidentifier()] == []
    bodies = whole["paths"]
    report = bodies["/report"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    reported = bodies["/agents/{threadId}/tool-states/{name}/report"]["post"]["requestBody"]["content"]
    assert report["$ref"] != reported["application/json"]["schema"]["$ref"]


def references_in(part: Any) -> Iterator[str]:
    for name, value in part.items() if isinstance(part, dict) else enumerate(part):
        if name == "$ref":
            yield value
        elif isinstance(value, dict | list):
            yield from references_in(value)
