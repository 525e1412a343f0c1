"""The tour's agent: a scripted model plans, searches, computes and draws; its process is killed, and another one ends the turn."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from clicket.agents import AgentEvent, AgentResult, PlanExecuteAgent
from clicket.cli.chat_view import PlanView
from clicket.cli.demo_search import SAMPLES
from clicket.cli.demo_stage import Stage
from clicket.cli.words import short
from clicket.interpreter import code_interpreter
from clicket.model import Record
from clicket.model.chat import ChatRequest
from clicket.runtime import Runtime
from clicket.search import Index, deep_search
from clicket.settings import Settings
from clicket.testing import ScriptedModel

__all__ = ["agents_turn", "run_agent_child"]

THREAD = "agent-demo"
QUESTION = "Who runs the ferry to Orme Island, and how have its passengers changed since 2018? Draw them."
_CHILD = "import sys; from clicket.cli.demo_agent import run_agent_child; run_agent_child(sys.argv[1])"
_SEARCH = "Which company owns the ferry that crosses to Orme Island?"
_COMPUTE = """\
import csv
rows = list(csv.DictReader(open("passengers.csv")))
first, last = int(rows[0]["ferry_passengers"]), int(rows[-1]["ferry_passengers"])
print(f"from {first:,} in {rows[0]['year']} to {last:,} in {rows[-1]['year']}: {100 * (last - first) / first:+.1f} %")
"""
# Slow on purpose: there must be a middle in which a process can die.
_DRAW = """\
```python
import csv, time
rows = [(row["year"], int(row["ferry_passengers"])) for row in csv.DictReader(open("passengers.csv"))]
for year, count in rows:
    print(year, "#" * (count // 4000), f"{count:,}", flush=True)
    time.sleep(0.2)
```
```python
try:
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(6, 3))
    axes.bar(*zip(*rows))
    axes.set_title("Ferry passengers")
    figure.savefig("ferry.png")
    plt.close(figure)
except ImportError:
    bars = (f'<rect x="{40 * n}" y="{120 - count // 1000}" width="30" height="{count // 1000}"/>' for n, (_, count) in enumerate(rows))
    open("ferry.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="280" height="120">' + "".join(bars) + "</svg>")
```
"""
_STEPS = ["Find out who runs the ferry to Orme Island", "Compute how its passengers changed", "Draw them, year by year"]
_FILES = {"file_names": ["passengers.csv"]}


def _script() -> list[Any]:
    """What the model says, one after the other. It thinks nothing, but what it says of results it takes from them."""
    return [
        [("plan", {"command": "create", "title": "The ferry to Orme Island", "steps": _STEPS})],
        [("deep_search", {"query": _SEARCH})],
        lambda request: f"Found: {_owner(request)}",
        [("code_interpreter", {"task": _COMPUTE, **_FILES})],
        lambda request: f"Ferry passengers went {_printed(request)}.",
        [("code_interpreter", {"task": _DRAW, **_FILES})],
        lambda request: "It is drawn." if _printed(request).startswith("20") else "It could not be drawn.",
        lambda request: " ".join(
            one.content for one in request.messages if one.content.startswith(("Found:", "Ferry "))
        ),
    ]


def _heard(request: ChatRequest) -> Any:
    """What the last tool said; a text if it failed."""
    content = next(one.content for one in reversed(request.messages) if one.role == "tool")
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(content)
    return content


def _owner(request: ChatRequest) -> str:
    heard = _heard(request)
    quoted = [one["text"] for one in heard["citations"]] if isinstance(heard, dict) else []
    return next((" ".join(text.split()) for text in quoted if "owned" in text), "nobody says who owns it.")


def _printed(request: ChatRequest) -> str:
    heard = _heard(request)
    printed = heard.get("stdout", "") if isinstance(heard, dict) else ""
    return printed.strip() or f"I do not know how: {short(str(heard), 80)}"


@contextlib.contextmanager
def _tools() -> Iterator[list[Any]]:
    # The strongest sandbox that this machine gives, as in the scene of the interpreter.
    interpreter = code_interpreter(require="process", timeout=20, warm=False, files=str(SAMPLES))
    with Index.open() as index:
        index.add_folder(SAMPLES)
        yield [deep_search.tool(engine=index), interpreter]


def _agent(runtime: Runtime) -> tuple[PlanExecuteAgent, ScriptedModel]:
    model = ScriptedModel(_script(), position="transcript")
    return PlanExecuteAgent(runtime, model, name="tour"), model


def run_agent_child(store: str) -> None:
    """The process that will be killed. It tells what happens, a line of JSON for each event."""

    async def work() -> None:
        with _tools() as tools:
            async with Runtime(tools, settings=Settings(store=store)) as runtime:
                agent, _ = _agent(runtime)
                async for event in agent.stream(QUESTION, thread=THREAD):
                    print(msgspec.json.encode(event).decode(), flush=True)

    asyncio.run(work())


async def agents_turn(stage: Stage, store: str) -> None:
    await stage.scene(
        "An agent and kill -9",
        "the model is scripted: it plans, searches, computes and draws; its tools are real",
        "async for event in PlanExecuteAgent(rt, model).stream(question, thread=…): …",
    )
    stage.remark(f"> {QUESTION}", "bold")
    show = _Show(stage)
    killed_at, asked_before, drawing = await _until_killed(stage, show, store)
    with _tools() as tools:
        async with Runtime(tools, settings=Settings(store=store)) as runtime:
            agent, model = _agent(runtime)
            async for event in agent.stream(QUESTION, thread=THREAD):
                if event.at > killed_at:  # what came before was told before
                    show.take(event)
            result = await agent.wait(THREAD, turn=1)
            page = await runtime.history(thread=THREAD, limit=10)
            calls = sorted(page.items, key=lambda record: record.created_at)
            plot = await _save(runtime, calls[-1], store)
    assert result is not None
    _judge(stage, calls, result, asked_before, len(model.requests), drawing)
    if plot is not None:
        stage.remark(f"the plot is {plot}", "green")


async def _until_killed(stage: Stage, show: _Show, store: str) -> tuple[float, int, bool]:
    """A process takes the turn, and dies while it draws: when, how often it had asked the model by then, and whether it drew."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CHILD, store, env=environment, stdout=asyncio.subprocess.PIPE, limit=1 << 24
    )
    assert child.stdout is not None
    asked, draws, seen = 0, "", False
    try:
        async for line in child.stdout:
            event = msgspec.json.decode(line, type=AgentEvent)
            asked += event.type == "usage"
            show.take(event)
            if event.type == "tool_started" and _DRAW[:20] in event.data["arguments"].replace("\\n", "\n"):
                draws = event.data["call_id"]
            if event.type == "tool_progress" and event.data["call_id"] == draws and _bar(event):
                seen = True
                break
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGKILL)
        killed_at = time.time()
        await child.communicate()
    stage.remark(f"kill -9 {child.pid}, then a new runtime opens the store and the same question is asked:", "yellow")
    return killed_at, asked, seen


class _Show:
    """What happens, line by line."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._plans = PlanView(plain=stage.terminal.plain)

    def take(self, event: AgentEvent) -> None:
        data, remark = event.data, self._stage.remark
        if event.type == "plan":
            for line in self._plans.take(data):
                self._stage.indented(line)
        elif event.type == "tool_started" and data["tool"] != "plan":
            remark(f"    {data['tool']} {short(data['arguments'], 90)}", "bright_black")
        elif event.type == "tool_progress":
            for printed in _bar(event).splitlines():
                remark(f"      {printed}", "green")
        elif event.type == "tool_result" and not data["success"]:
            remark(f"    {data['tool']}: {short(data['content'], 200)}", "red")
        elif event.type == "message" and data["role"] == "assistant" and data.get("fork"):
            remark(f"    {short(data['text'], 110)}")
        elif event.type == "final":
            remark(f"{data['stopped']} after {data['steps']} steps: {data['text']}", "bold")


def _bar(event: AgentEvent) -> str:
    """What the drawing printed, if this tells of it."""
    content = event.data.get("content")
    printed = content.get("content", "") if isinstance(content, dict) and content.get("type") == "stdout" else ""
    return printed if "##" in printed else ""


def _judge(stage: Stage, calls: list[Record], result: AgentResult, before: int, after: int, drawing: bool) -> None:
    """What was told, checked. Where no program can be run here, that is said, and the drawing is nobody's promise."""
    asked = sorted(use.id for one in result.new_messages for use in one.uses)
    answered = sorted(one.use_id for one in result.new_messages if one.role == "tool")
    stage.remark(f"the model was asked {before} times before it was killed, and {after} times after", "bright_black")
    runs = all(record.success for record in calls[1:])
    if not runs:
        stage.remark("no sandbox is to be had on this machine, so nothing was computed or drawn", "yellow")
    whole = {
        "the turn finishes": result.stopped == "finished" and "Northern Line Company" in result.text,
        "no answer is asked for twice": before + after == result.steps,
        "every tool call has one result": asked == answered,
    }
    for number, record in enumerate(calls):
        again = len(record.attempts) > 1
        told = "under way, so it was run again" if again else "on record, so it was not run again"
        stage.remark(f"{record.tool}: {told}", "bright_black")
        checks = dict(whole) if number == 0 else {}
        if runs:
            drawn = number == 2
            checks["it is run again only if it was under way"] = again == drawn
            checks["it was killed while it drew"] = drawing
        stage.outcome(record, checks)


async def _save(runtime: Runtime, drawn: Record, store: str) -> Path | None:
    """The plot as a file beside the store."""
    files = drawn.output.get("files", ()) if isinstance(drawn.output, dict) else ()
    for file in files:
        if file["name"].startswith("ferry.") and file.get("artifact"):
            path = Path(unquote(urlsplit(store).path[1:])).with_name(f"demo-{file['name']}")
            path.write_bytes(await runtime.artifact(file["artifact"]))
            return path
    return None
