"""The server that the console's tests open, as a program: `python -m tests.browser.console_server STORE PORT [SEED]`.

It prints its URL when it listens. SEED calls are made before that.
"""

from __future__ import annotations

import asyncio
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes
from tempfile import TemporaryDirectory
from typing import Any

from tests.kit.pictures import png
from tests.kit.webhook_receiver import Receiver

from clicket import File, Image, Policy, Record, Rule, Runtime, Settings, ToolCall, ToolContext, Undo, tool
from clicket.agents import Ask, Check, PlanExecuteAgent, ReActAgent, Refuse, pii
from clicket.engine.executors.sink import questions
from clicket.errors import RetryableError
from clicket.interpreter import code_interpreter
from clicket.model.chat import ChatReply, ChatRequest, Delta
from clicket.models import Fallback
from clicket.search import Index, deep_search
from clicket.server import serve
from clicket.testing import ScriptedModel
from clicket.tools import DidNotHappen, Happened, Unknown
from clicket.tools.question import InputQuestion
from clicket.tools.rest import OutcomeUnknown

HOSTILE = "<img src=x onerror=window.pwned=1>\"'><script>window.pwned=1</script>{{7*7}}${alert(1)}"
MARKDOWN = (
    f"# {HOSTILE}\n\n**{HOSTILE}** [click](javascript:window.pwned=1) [far](https://example.com/x)\n\n"
    f"![picture](https://example.com/a.png)\n\n- {HOSTILE}\n\n```html\n{HOSTILE}\n```\n\n<iframe src=https://example.com></iframe>"
)


@tool(read_only=True)
async def echo(text: str = "hello", count: int = 1) -> dict[str, Any]:
    """Return what it gets."""
    return {"text": text, "count": count}


@tool(timeout=120)
async def slow(ctx: ToolContext, steps: int = 2_000, until: str = "") -> str:
    """Report progress and output for a long time, or until this file is there."""
    for step in range(1, steps + 1):
        if until and Path(until).exists():
            break
        ctx.progress(step, steps, f"step {step}")
        ctx.emit(f"line {step}\n")
        await asyncio.sleep(0.05)
    return "done"


@tool(max_retries=2, retry_delay=0.05)
async def unsteady(ctx: ToolContext) -> str:
    """Succeed at the second attempt."""
    if ctx.attempt == 1:
        raise RetryableError("busy")
    return "fine"


@tool(failure_threshold=2, max_retries=0)
async def broken() -> str:
    """Fail each time."""
    raise ValueError("the index is being rebuilt")


@tool
async def pay(to: str, cents: int) -> str:
    """Make a payment; a person approves it first."""
    return f"paid {cents} to {to}"


@tool
async def effect() -> str:
    """Take long, and do not repeat after a crash."""
    await asyncio.sleep(60)
    return "never"


@tool
async def charge(cents: int) -> str:
    """Lose the connection: whether it charged is not known."""
    raise OutcomeUnknown("the connection broke after the request was sent")


@tool
async def wire(to: str, cents: int) -> str:
    """Send money; two people approve it first."""
    return f"sent {cents} to {to}"


@tool
async def order(ctx: ToolContext) -> str:
    """Ask a person in the middle."""
    form = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    answer = questions(ctx).ask(
        InputQuestion(key="q", source="the shop", message=f"Which size? {HOSTILE}", schema=form), None
    )
    return f"{answer.action} {answer.content}"


@tool(external=True, timeout=3600)
async def render(token_file: str, ctx: ToolContext) -> None:
    """Hand the work over; the test finds the token in a file."""
    pending = ctx.pending(token_for=f"render farm {HOSTILE}")
    await asyncio.to_thread(Path(token_file).write_text, pending.token)


_checks: dict[str, int] = {}


async def _look(call: Any, ctx: ToolContext) -> Happened | DidNotHappen | Unknown:
    """Fails at the first try; then it finds what the call's argument says."""
    _checks[call.id] = _checks.get(call.id, 0) + 1
    if _checks[call.id] == 1:
        raise RetryableError(f"busy {HOSTILE}")
    return Happened("charged once") if call.arguments["found"] else Unknown(f"no trace {HOSTILE}")


@tool(reconcile=_look, max_retries=2, retry_delay=0.05)
async def charge_checked(found: bool) -> str:
    """Lose the connection; the tool's own check finds out what happened."""
    raise OutcomeUnknown("the connection broke after the request was sent")


@tool
async def lookup(company: str, ctx: ToolContext) -> str:
    """Cost something."""
    ctx.spend(usd=0.25, tokens=1_200)
    ctx.spend(usd=0.5, key="second")
    return f"{company} has 12 employees"


async def _release(call: Record, ctx: ToolContext) -> str:
    if call.arguments["seat"] == "stuck":
        raise ValueError("the seat is taken")
    return "released"


@tool(undo=Undo(_release, max_retries=0))
async def reserve(seat: str) -> str:
    return f"seat {seat}"


@tool(background=True)
async def report(topic: str) -> str:
    """Work in the background."""
    return f"the report on {topic}"


@tool
async def hostile(kind: str) -> str:
    """Answer, or fail, with text that tries to be code."""
    if kind == "error":
        raise ValueError(HOSTILE)
    return HOSTILE


@tool(description=HOSTILE)
async def evil() -> dict[str, str]:
    return {HOSTILE: HOSTILE}


@tool
async def draw() -> list[str | File]:
    """Answer with a picture."""
    return ["drawn:", Image(png(40, 30), name=f"drawing {HOSTILE}"), File(b"x,y\n1,2\n", name="points.csv")]


POLICY = Policy(
    rules=[
        Rule(verdict="ask", tools=["pay"], reason="payments need a person", timeout=600),
        Rule(verdict="ask", tools=["wire"], reason="big sums need two people", timeout=600, approvers=2),
    ]
)
_BUDGETS = [
    {"scope": "all", "limit_usd": 3.0, "period": "month", "on_reached": "warn", "name": f"in all {HOSTILE}"},
    {"scope": "thread", "limit_tokens": 1_000_000, "period": "total", "on_reached": "warn", "name": "each thread"},
]
_DOCUMENTS = [
    {"id": "a", "title": "Lighthouse", "text": "The lighthouse at Tarn Point was designed by Agnes Holloway."},
    {"id": "b", "title": "Engineer", "text": "Agnes Holloway taught at the Marrow Institute."},
]


def _answers(request: Any) -> Any:
    """One tool call for a question, then the answer."""
    last = request.messages[-1]
    if last.role == "tool":
        return MARKDOWN if "hostile" in str(request.messages) else f"The tool said: {last.content}"
    if last.content.startswith("end as "):
        ended: Any = last.content.removeprefix("end as ")
        return ChatReply(text="" if ended == "empty" else "Half an answer", ended="stop" if ended == "empty" else ended)
    if last.content.startswith("report on "):
        return [("report", {"topic": last.content.removeprefix("report on ")})]
    if last.content.startswith("reserve"):
        return [("reserve", {"seat": "1A"}), ("echo", {"text": "x"}), ("evil", {})]
    if last.content.startswith("draw"):
        return [("draw", {})]
    return [("echo", {"text": last.content})]


class Breaks:
    """Begins an answer, and fails once a reader may have seen it."""

    name = "first"

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise RetryableError("HTTP 503", reason="unavailable")

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        tell(Delta("text", "Half an answer"))
        return await self.chat(request)


_SCHEMA = {"type": "object", "properties": {"euros": {"type": "number"}}, "required": ["euros"]}


def _guarded(request: Any) -> str:
    return f'{{"euros": {sum(message.role == "assistant" for message in request.messages)}}}'


def _polite(turn: Any, value: str) -> Refuse | None:
    return Refuse(f"Ask politely. {HOSTILE}") if value.startswith("damn") else None


def _sums(turn: Any, value: str) -> Refuse | Ask | None:
    if "ask" in turn.message:
        return Ask("May it go on?")
    return Refuse("It is more.") if "strict" in turn.message and '"euros":0' in value else None


_CHECKS = [
    Check(_polite, on="input", name="polite"),
    Check(pii(), on="input"),
    Check(_sums, on="output", name="sums"),
]


async def main(store: str, port: int, seed: int) -> None:
    with Index.open() as index, TemporaryDirectory() as folder, Receiver(Path(folder)) as receiver:
        index.add(_DOCUMENTS)
        tools = [
            echo,
            slow,
            unsteady,
            broken,
            pay,
            effect,
            charge,
            hostile,
            evil,
            wire,
            render,
            charge_checked,
            lookup,
            report,
            order,
            draw,
            reserve,
        ]
        tools += [deep_search.tool(engine=index), code_interpreter(require="process", timeout=30, warm=False)]
        events = ["approval.requested", "call.unknown", "budget.reached"]
        common = {"secret": "whsec_" + b64encode(token_bytes(32)).decode(), "allow_private": True, "timeout": 5.0}
        good = {**common, "url": receiver.url("/ok"), "name": "team chat", "events": events}
        bad = {
            **common,
            "url": receiver.url("/fail/1000"),
            "name": HOSTILE[:100],
            "retry": [0.05],
            "events": events[1:2],
        }
        settings = Settings.load(store=store).replace(
            max_concurrency=20,
            webhooks=(good, bad),
            budgets=_BUDGETS,
            prices=[{"model": "scripted", "input": 1.0, "output": 2.0}],
        )
        runtime = Runtime(tools, settings=settings, policy=POLICY)
        async with runtime:
            if seed:
                await runtime.call_many([ToolCall("echo", {"count": n}, thread=f"t{n % 7}") for n in range(seed)])
            model = ScriptedModel([_answers] * 200)
            planner = ScriptedModel(
                [
                    [("plan", {"command": "create", "title": "Two steps", "steps": ["Echo", "Report"]})],
                    "first",
                    "second",
                    "both",
                ],
                position="transcript",
            )
            second = ScriptedModel([[("pay", {"to": "ann", "cents": 5})], "paid"], name="second", position="transcript")
            guarded = ScriptedModel([_guarded] * 50)
            agents = [
                ReActAgent(runtime, model, name="helper"),
                PlanExecuteAgent(runtime, planner, name="planner"),
                ReActAgent(runtime, Fallback(Breaks(), second), name="careful"),
                ReActAgent(runtime, guarded, name="guarded", checks=_CHECKS, output=_SCHEMA),
            ]
            await serve(runtime, port=port, agents=agents, ready=lambda served: print(served.url, flush=True))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
