"""The protocol's own conformance suite and inspector, against our server with the tools that the suite expects."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.kit.children import PYTHONPATH
from tests.kit.forks import SERVER, forked
from tests.kit.waiting import PATIENCE, eventually_sync
from tests.mcp.npm_tools import ROOT, run_node
from tests.redis_server import free_port

CONFORMANCE = "conformance/dist/index.js"
INSPECTOR = "inspector/clients/launcher/build/index.js"
SLOW_TIMERS = Path(__file__).with_name("slow_timers.cjs")
TASKS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The fixture's server on SQLite, in its own process."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    command = [
        sys.executable,
        *forked("tests.mcp.serve", *SERVER),
        "-m",
        "tests.mcp.serve",
        str(port),
        f"sqlite:///{folder}/calls.db",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}/mcp"

        def answers() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            with suppress(httpx2.TransportError):
                httpx2.get(url)
                return True
            return False

        eventually_sync(answers)
        yield url
    finally:
        process.terminate()
        process.wait(PATIENCE)


def checks_in(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every check that ran, by scenario."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in folder.rglob("checks.json"):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name.removeprefix("server-"))
        found[scenario] = json.loads(file.read_text())
    return found


def failures(checks: list[dict[str, Any]]) -> list[str]:
    return [f"{check['id']}: {check.get('errorMessage')}" for check in checks if check["status"] == "FAILURE"]


def run_slowly(scenario: str, version: str, url: str, folder: Path) -> list[dict[str, Any]]:
    """The suite's own limits depend on how fast the machine is."""
    arguments = (
        "server",
        "--url",
        url,
        "--scenario",
        scenario,
        "--spec-version",
        version,
        "--force",
        "-o",
        str(folder),
    )
    run_node(
        CONFORMANCE, *arguments, cwd=folder.parent, timeout=PATIENCE, env={"NODE_OPTIONS": f"--require={SLOW_TIMERS}"}
    )
    return checks_in(folder)[scenario]


@pytest.mark.parametrize(("version", "scenarios", "least"), [("2026-07-28", 50, 190), ("2025-11-25", 33, 75)])
def test_every_scenario_passes(version: str, scenarios: int, least: int, url: str, tmp_path: Path) -> None:
    """Scored scenarios and informational ones, including the ten of the tasks extension."""
    arguments = ("server", "--url", url, "--requirements", version, "-o", str(tmp_path))
    done = run_node(CONFORMANCE, *arguments, cwd=tmp_path, timeout=PATIENCE)
    found = checks_in(tmp_path)
    assert found, done.stdout[-4_000:] + done.stderr[-2_000:]
    for scenario in [scenario for scenario, checks in found.items() if failures(checks)]:
        found[scenario] = run_slowly(scenario, version, url, tmp_path / "slow")
    assert {scenario: failed for scenario, checks in found.items() if (failed := failures(checks))} == {}
    assert len(found) >= scenarios, sorted(found)
    assert sum(check["status"] == "SUCCESS" for checks in found.values() for check in checks) >= least
    if version == "2026-07-28":
        assert set(TASKS) <= set(found)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_has_nothing_to_say_about_our_schemas(era: str, url: str, tmp_path: Path) -> None:
    shared = ("--cli", "--server-url", url, "--transport", "http", "--protocol-era", era)
    listed = run_node(INSPECTOR, *shared, "--strict", "--method", "tools/list", cwd=tmp_path, timeout=60)
    assert listed.returncode == 0, listed.stdout[-2_000:] + listed.stderr[-2_000:]
    assert "greet" in [each["name"] for each in json.loads(listed.stdout)["tools"]]
    called = run_node(
        INSPECTOR, *shared, "--method", "tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada",
        cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert called.returncode == 0, called.stdout[-2_000:] + called.stderr[-2_000:]
    assert json.loads(called.stdout)["content"][0]["text"] == "Hello, Ada!"


CLIENT = [
    ("2026-07-28", "tools_call"),
    ("2026-07-28", "request-metadata"),
    ("2026-07-28", "sep-2322-client-request-state"),
    ("2026-07-28", "http-standard-headers"),
    ("2026-07-28", "http-custom-headers"),
    ("2026-07-28", "http-invalid-tool-headers"),
    ("2026-07-28", "json-schema-ref-no-deref"),
    ("2026-07-28", "json-schema-2020-12-preservation"),
    ("2025-11-25", "initialize"),
    ("2025-11-25", "tools_call"),
    ("2025-11-25", "elicitation-sep1034-client-defaults"),
    ("2025-11-25", "sse-retry"),
]
"""Scenarios for clients, without those of OAuth."""


@pytest.mark.slow
@pytest.mark.parametrize(("version", "scenario"), CLIENT)
def test_every_scenario_for_clients_passes(version: str, scenario: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -m tests.mcp.conformance_client"
    arguments = ("client", "--command", command, "--scenario", scenario, "--spec-version", version, "-o", str(tmp_path))
    done = run_node("conformance/dist/index.js", *arguments, cwd=ROOT, timeout=110, env={"PYTHONPATH": PYTHONPATH})
    checks = [check for file in tmp_path.rglob("checks.json") for check in json.loads(file.read_text())]
    failed = [f"{check['id']}: {check.get('errorMessage')}" for check in checks if check["status"] == "FAILURE"]
    assert failed == [], done.stdout[-2_000:] + done.stderr[-2_000:]
    assert any(check["status"] == "SUCCESS" for check in checks), done.stdout[-4_000:] + done.stderr[-2_000:]
