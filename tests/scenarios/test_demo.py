"""The demo checks itself: with and without a terminal, twice in one folder, and in a read-only folder."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.forks import FORKED
from tests.kit.waiting import PATIENCE

from clicket.cli.demo.agent import QUESTION, check_turn, make_agent
from clicket.cli.demo.crash import wait_until_running
from clicket.cli.demo.output import TourOutput
from clicket.cli.demo.steps import is_gone, successful
from clicket.cli.demo.tools import TOUR_TOOLS
from clicket.cli.demo.tour import tour_store
from clicket.cli.terminal import Terminal
from clicket.kernel import State
from clicket.runtime.runtime import Runtime
from clicket.tools import tool

EXPECTED = [
    ("weather", "completed", 1, None),
    ("tell_story", "completed", 1, None),
    ("exchange_rate", "completed", 3, None),
    ("read_scan", "timeout", 1, "timeout"),
    ("crawl", "cancelled", 1, "cancelled"),
    ("weather", "failed", 0, "invalid_input"),
    ("wether", "failed", 0, "tool_not_found"),
    ("read_log", "completed", 1, None),
    ("code_interpreter", "completed", 1, None),
    ("deep_search", "completed", 1, None),
    ("index_site", "completed", 2, None),
    ("send_payment", "failed", 1, "outcome_unknown"),
    ("charge_card", "completed", 1, None),
    ("deep_search", "completed", 1, None),
    ("code_interpreter", "completed", 1, None),
    ("code_interpreter", "completed", 2, None),
]

# What the demo computes and finds. Its wording is not tested.
FACTS = [
    "Did you mean 'weather'?",
    "/city",
    "1,148,890",
    "isolation full",
    "12 files indexed",
    "city of Ardley",
    "117,000 in 2024: +21.9 %",
    "the Northern Line Company",
    "8 steps",
]


def run(folder: Path, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *FORKED, "-m", "clicket", *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@pytest.mark.first
async def test_tour_runs_in_a_folder_that_had_one_and_can_be_looked_at_afterwards(
    tmp_path: Path, clean_env: dict[str, str]
) -> None:
    async with Runtime((), store=f"sqlite:///{tmp_path}/.clicket/demo.db") as runtime:
        await runtime.call("of_an_earlier_tour")
    done = run(tmp_path, clean_env, "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    shown = " ".join(done.stdout.split())
    for name, state, _, error in EXPECTED:
        assert name in shown
        assert (error or state) in shown
    for fact in FACTS:
        assert fact in shown
    assert "\x1b" not in done.stdout
    plot = tmp_path / done.stdout.rpartition("the plot is ")[2].split()[0]
    assert plot.read_bytes().startswith(b"\x89PNG")

    store = ["--store", "sqlite:///.clicket/demo.db"]
    listed = json.loads(run(tmp_path, clean_env, "ps", "--all", "--json", *store).stdout)["calls"]
    found = [(c["tool"], c["state"], c["attempts"], (c["error"] or {}).get("code")) for c in listed]
    assert sorted(found, key=str) == sorted([("agent:tour", "completed", 2, None), *EXPECTED], key=str)
    payment = next(c["id"] for c in listed if c["tool"] == "send_payment")
    short = next(word for word in done.stdout.split() if len(word) >= 14 and payment.startswith(word))
    assert "outcome_unknown" in run(tmp_path, clean_env, "show", short, *store).stdout


@pytest.mark.slow
def test_tour_as_json_twice(tmp_path: Path, clean_env: dict[str, str]) -> None:
    for _ in range(2):
        done = run(tmp_path, clean_env, "demo", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        output = json.loads(done.stdout)
        assert output["ok"]
        assert 0 < output["duration"] < PATIENCE
        assert [(c["tool"], c["state"], c["attempts"], c["error"]) for c in output["calls"]] == EXPECTED


def test_store_is_the_tours_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with tour_store("sqlite:///mine.db") as url:
        assert url == "sqlite:///mine.db"
    with tour_store(None) as url:
        assert url == "sqlite:///.clicket/demo.db"
        Path(".clicket/demo.db").write_text("old")
        with tour_store(None) as other:  # another demo runs here
            assert other.startswith(f"sqlite:///{tmp_path}/clicket-demo-")
        assert Path(".clicket/demo.db").exists()
    with tour_store(None), open(".clicket/demo.lock") as lock:
        assert not Path(".clicket/demo.db").exists()  # each demo starts with an empty store
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    shutil.rmtree(tmp_path / ".clicket")
    (tmp_path / ".clicket").write_text("in the way")
    with tour_store(None) as url:
        assert url.startswith(f"sqlite:///{tmp_path}/clicket-demo-")


async def test_a_failed_check_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    @tool
    async def weather(city: str) -> str:
        return "rain"

    output = TourOutput(Terminal())
    async with Runtime([weather], store="memory://") as runtime:
        await successful(output, runtime)
    (outcome,) = output.outcomes
    assert outcome.state is State.COMPLETED
    assert outcome.problems == ["the output is the weather"]
    output.summary("sqlite:///x", 1.0)
    out = capsys.readouterr().out
    assert out.count("the output is the weather") == 1
    assert out.lower().count("not as expected") == 2


@pytest.mark.parametrize("broken", [False, True])
async def test_an_agent_without_a_sandbox_says_so(capsys: pytest.CaptureFixture[str], broken: bool) -> None:
    """Without a sandbox the script continues, and the drawing is not checked; a repeated model request is still a
    failed check."""

    @tool(name="deep_search")
    async def searched(query: str) -> dict[str, Any]:
        return {"citations": [{"text": "It is owned by the Northern Line Company."}]}

    @tool(name="code_interpreter")
    async def interpreted(task: str, file_names: list[str]) -> dict[str, Any]:
        raise OSError("no sandbox")

    output = TourOutput(Terminal())
    async with Runtime([searched, interpreted], store="memory://") as runtime:
        agent, model = make_agent(runtime)
        result = await agent.run(QUESTION, thread="t")
        page = await runtime.history(thread="t", limit=10)
    calls = sorted(page.items, key=lambda record: record.created_at)
    before = result.steps - len(model.requests) + broken
    check_turn(output, calls, result, before, len(model.requests), was_drawing=False)
    assert "no sandbox" in capsys.readouterr().out
    assert "It could not be drawn." in [message.content for message in result.messages]
    problems = [problem for outcome in output.outcomes for problem in outcome.problems]
    assert problems == (["the model is not asked twice for an answer"] if broken else [])


async def test_child_that_does_not_start_is_an_error_and_not_a_hang(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "raise SystemExit(7)")
    await child.wait()
    async with Runtime((), store=f"sqlite:///{tmp_path}/x.db") as runtime:
        with pytest.raises(Exception, match="exit code 7"):
            await wait_until_running(runtime, child, "one", "two")


async def test_living_process_is_not_called_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1_000, 3))
    monkeypatch.setattr("clicket.cli.demo.steps.time.monotonic", lambda: next(clock))
    assert not await is_gone(os.getpid())


async def test_outcomes_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    output = TourOutput(Terminal(json=True))
    output.print("not to be seen")
    output.summary("sqlite:///x", 2.0)
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert printed == {"ok": True, "store": "sqlite:///x", "duration": 2.0, "calls": []}
    async with Runtime(TOUR_TOOLS, store="memory://") as runtime:
        await successful(output, runtime)
    output.summary("sqlite:///x", 2.0)
    printed = json.loads(capsys.readouterr().out)
    assert [(c["tool"], c["state"], c["attempts"], c["error"]) for c in printed["calls"]] == EXPECTED[:1]
    assert printed["ok"]
