"""An agent with a scripted model plans, searches, computes and draws. Its process is killed, and another one finishes the turn."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from clicket.agents import AgentEvent, AgentResult, PlanExecuteAgent
from clicket.cli.chat.turn_view import PlanView
from clicket.cli.demo.crash import killed_child
from clicket.cli.demo.output import TourOutput
from clicket.cli.demo.steps import SAMPLES
from clicket.cli.formatting import short
from clicket.interpreter import code_interpreter
from clicket.model import Record
from clicket.model.chat import ChatRequest
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.search import Index, deep_search
from clicket.testing import ScriptedModel

__all__ = ["QUESTION", "agent_step", "check_turn", "make_agent", "run_turn"]

THREAD = "agent-demo"
QUESTION = "Who runs the ferry to Orme Island, and how have its passengers changed since 2018? Draw them."
_SEARCH = "Which company owns the ferry that crosses to Orme Island?"
_COMPUTE = """\
import csv
rows = list(csv.DictReader(open("passengers.csv")))
first, last = int(rows[0]["ferry_passengers"]), int(rows[-1]["ferry_passengers"])
print(f"from {first:,} in {rows[0]['year']} to {last:,} in {rows[-1]['year']}: {100 * (last - first) / first:+.1f} %")
"""
_DRAW = (Path(__file__).parent / "draw_ferry.md").read_text()
"""Slow on purpose, so that the process can be killed in the middle."""
_PLAN = ["Find out who runs the ferry to Orme Island", "Compute how its passengers changed", "Draw them, year by year"]
_FILES = {"file_names": ["passengers.csv"]}


def make_agent(runtime: Runtime) -> tuple[PlanExecuteAgent, ScriptedModel]:
    """The model's answers are scripted; what they say of results they take from the results."""
    script = [
        [("plan", {"command": "create", "title": "The ferry to Orme Island", "steps": _PLAN})],
        [("deep_search", {"query": _SEARCH})],
        lambda request: f"Found: {_owner(request)}",
        [("code_interpreter", {"task": _COMPUTE, **_FILES})],
        lambda request: f"Ferry passengers went {_printed(request)}.",
        [("code_interpreter", {"task": _DRAW, **_FILES})],
        lambda request: "It is drawn." if _printed(request).startswith("20") else "It could not be drawn.",
        lambda request: " ".join(
            each.content for each in request.messages if each.content.startswith(("Found:", "Ferry "))
        ),
    ]
    model = ScriptedModel(script, position="transcript")
    return PlanExecuteAgent(runtime, model, name="tour"), model


def _last_result(request: ChatRequest) -> dict[str, Any]:
    """The output of the last tool call; empty if it failed."""
    content = next(each.content for each in reversed(request.messages) if each.role == "tool")
    with contextlib.suppress(msgspec.DecodeError):
        return dict(msgspec.json.decode(content))
    return {}


def _owner(request: ChatRequest) -> str:
    quoted = [" ".join(each["text"].split()) for each in _last_result(request).get("citations", ())]
    return next((text for text in quoted if "owned" in text), "no document names the owner.")


def _printed(request: ChatRequest) -> str:
    return str(_last_result(request).get("stdout", "")).strip() or "in an unknown way"


@contextlib.contextmanager
def _tools() -> Iterator[list[Any]]:
    interpreter = code_interpreter(require="process", timeout=20, warm=False, files=str(SAMPLES))
    with Index.open() as index:
        index.add_folder(SAMPLES)
        yield [deep_search.tool(engine=index), interpreter]


def run_turn(store: str) -> None:
    """The main function of the process that is killed. It prints each event as a line of JSON."""

    async def work() -> None:
        with _tools() as tools:
            async with Runtime(tools, settings=Settings(store=store)) as runtime:
                async for event in make_agent(runtime)[0].stream(QUESTION, thread=THREAD):
                    print(msgspec.json.encode(event).decode(), flush=True)

    asyncio.run(work())


async def agent_step(output: TourOutput, store: str) -> None:
    await output.step(
        "An agent and kill -9",
        "the model is scripted, its tools are real: it plans, searches, computes and draws",
        "async for event in PlanExecuteAgent(rt, model).stream(question, thread=…): …",
    )
    output.remark(f"> {QUESTION}", "bold")
    plans = PlanView(plain=output.plain)
    killed_at, requests_before, was_drawing = await _run_until_killed(output, plans, store)
    with _tools() as tools:
        async with Runtime(tools, settings=Settings(store=store)) as runtime:
            agent, model = make_agent(runtime)
            async for event in agent.stream(QUESTION, thread=THREAD):
                if event.at > killed_at:  # the others were shown before
                    _show(output, plans, event)
            result = await agent.wait(THREAD, turn=1)
            page = await runtime.history(thread=THREAD, limit=10)
            calls = sorted(page.items, key=lambda record: record.created_at)
            plot = await _save_plot(runtime, calls[-1], store)
    assert result is not None
    check_turn(output, calls, result, requests_before, len(model.requests), was_drawing)
    if plot is not None:
        output.remark(f"the plot is {plot}", "green")


async def _run_until_killed(output: TourOutput, plans: PlanView, store: str) -> tuple[float, int, bool]:
    """Run the turn in a child process, and kill it while it draws. Returns when, the number of model requests until then, and
    whether the drawing had begun."""
    requests, drawing = 0, False
    pipe: dict[str, Any] = {"stdout": asyncio.subprocess.PIPE, "limit": 1 << 24}
    async with killed_child("clicket.cli.demo.agent:run_turn", store, **pipe) as child:
        assert child.stdout is not None
        async for line in child.stdout:
            event = msgspec.json.decode(line, type=AgentEvent)
            requests += event.type == "usage"
            _show(output, plans, event)
            drawing = event.type == "tool_progress" and bool(_printed_bars(event))
            if drawing:
                break
    output.remark(f"kill -9 {child.pid}, then a new runtime opens the store and the same question is asked:", "yellow")
    return time.time(), requests, drawing


def _show(output: TourOutput, plans: PlanView, event: AgentEvent) -> None:
    data = event.data
    remark = output.remark
    if event.type == "plan":
        for line in plans.take(data):
            output.say(line)
    elif event.type == "tool_started" and data["tool"] != "plan":
        remark(f"    {data['tool']} {short(data['arguments'], 90)}")
    elif event.type == "tool_progress":
        for bar in _printed_bars(event).splitlines():
            remark(f"      {bar}", "green")
    elif event.type == "tool_result" and not data["success"]:
        remark(f"    {data['tool']}: {short(data['content'], 200)}", "red")
    elif event.type == "message" and data["role"] == "assistant" and data.get("branch"):
        remark(f"    {short(data['text'], 110)}", "")
    elif event.type == "final":
        remark(f"{data['stopped']} after {data['steps']} steps: {data['text']}", "bold")


def _printed_bars(event: AgentEvent) -> str:
    content = event.data.get("content")
    printed = content.get("content", "") if isinstance(content, dict) and content.get("type") == "stdout" else ""
    return printed if "##" in printed else ""


def check_turn(
    output: TourOutput, calls: list[Record], result: AgentResult, before: int, after: int, was_drawing: bool
) -> None:
    """Print the outcome of each call. On a machine without a sandbox the drawing is not checked."""
    asked = sorted(use.id for each in result.new_messages for use in each.uses)
    answered = sorted(each.use_id for each in result.new_messages if each.role == "tool")
    output.remark(f"the model was asked {before} times before the process was killed, and {after} times after")
    has_sandbox = all(record.success for record in calls[1:])
    if not has_sandbox:
        output.remark("no sandbox is available on this machine, so nothing was computed or drawn", "yellow")
    checks = {
        "the turn finishes": result.stopped == "finished" and "Northern Line Company" in result.text,
        "the model is not asked twice for an answer": before + after == result.steps,
        "every tool call has one result": asked == answered,
    }
    for number, record in enumerate(calls):
        again = len(record.attempts) > 1
        output.remark(
            f"{record.tool}: {'was running, so it was run again' if again else 'on record, so not run again'}"
        )
        if has_sandbox:
            checks["it is run again only if it was running"] = again == (number == 2)
            checks["the process was killed while it drew"] = was_drawing
        output.outcome(record, checks)
        checks = {}


async def _save_plot(runtime: Runtime, drawing: Record, store: str) -> Path | None:
    """Save the plot beside the store."""
    files = drawing.output.get("files", ()) if isinstance(drawing.output, dict) else ()
    for file in files:
        if file["name"].startswith("ferry.") and file.get("artifact"):
            path = Path(unquote(urlsplit(store).path[1:])).with_name(f"demo-{file['name']}")
            path.write_bytes(await runtime.artifact(file["artifact"]))
            return path
    return None
