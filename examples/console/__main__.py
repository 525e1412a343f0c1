"""The console with something on every screen: a server with sample tools, an agent, and calls in every state. No keys, loopback only.

    python examples/console [PORT]

Needs `pip install 'clicket[server]'`. The calls are kept in a temporary file, until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_bytes
from typing import Any

from shop import POLICY, TOOLS, Rules, tokens

from clicket import Event, Runtime, Settings
from clicket.agents import ReActAgent
from clicket.cli.demo.steps import SAMPLES
from clicket.errors import ClicketError
from clicket.interpreter import code_interpreter
from clicket.search import Index, deep_search
from clicket.server import serve

PRICES = [{"model": "rules", "input": 3.0, "output": 15.0, "max_output": 400}]
BUDGETS = [
    {"scope": "all", "limit_usd": 0.5, "period": "month", "on_reached": "warn", "name": "everything"},
    {"scope": "agent", "limit_usd": 0.5, "period": "day", "on_reached": "stop", "name": "each agent"},
    {"scope": "thread", "limit_tokens": 40_000, "period": "total", "on_reached": "ask", "name": "each conversation"},
]
NOTEBOOK = """```python
values = [n * n for n in range(10)]
print(values)
```
```python
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(5, 2.5))
axes.plot(values, marker="o")
axes.set_title("Squares")
plt.show()
```
```python
import pandas as pd
pd.DataFrame({"n": range(10), "square": values})
```"""
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("weather", "ann", {"city": "Lisbon"}),
    ("exchange_rate", "ann", {"pair": "EURUSD"}),
    ("crawl", "nightly-import", {"url": "https://example.com/docs", "pages": 60}),
    ("write_summary", "bert", {"topic": "durable execution"}),
    ("weather", "bert", {"city": 5, "unti": "k"}),
    ("wether", "bert", {"city": "Oslo"}),
    ("publish_report", "chen", {"title": "Links of the week"}),
    ("legacy_export", "chen", {"month": "2026-10"}),
    ("refund", "ann", {"order": "A-1007", "amount": 129.0, "reason": "arrived broken", "notify": True}),
    ("refund", "bert", {"order": "A-1012", "amount": 48.5, "reason": "wrong colour"}),
    ("transfer", "dora", {"amount": 50_000.0, "to": "ACME"}),
    ("transfer", "dora", {"amount": 250.0, "to": "ACME"}),
    ("charge_card", "dora", {"customer": "C-207", "cents": 4_900}),
    ("code_interpreter", "chen", {"task": NOTEBOOK}),
    (
        "deep_search",
        "dora",
        {"query": "In which city is the institute where the designer of the Tarn Point lighthouse taught?"},
    ),
    ("company_lookup", "bert", {"name": "ACME"}),
    ("company_lookup", "chen", {"name": "Globex"}),
    *(("stock_level", "chen", {"sku": f"X-{number}"}) for number in range(4)),
]
CHATS = {
    "support-1": "What is the weather in Oslo?",
    "support-2": "Please refund 80 EUR for order A-1009",
    "support-3": "Plot the ferry's passengers",
}
LATER_CALLS = [
    *(("weather", {"city": city}) for city in ("Lisbon", "Oslo", "Kyoto", "Lima", "Graz")),
    *(("exchange_rate", {"pair": "EURUSD"}),) * 2,
    *(("stock_level", {"sku": f"S-{number}"}) for number in (7, 33)),
    ("write_summary", {"topic": "leases"}),
    ("crawl", {"url": "https://example.com", "pages": 8}),
    ("refund", {"order": "A-2001", "amount": 9.5, "reason": "late"}),
]


async def schedules(rt: Runtime) -> None:
    await rt.schedule("rates", "* * * * *", "exchange_rate", {"pair": "EURUSD"}, by="Maria", overlap="skip")
    nightly: dict[str, Any] = {"timezone": "Europe/Berlin", "catch_up": "last"}
    await rt.schedule("nightly-summary", "30 2 * * *", "write_summary", {"topic": "last night"}, by="Maria", **nightly)
    await rt.schedule("monthly-export", "0 6 1 * *", "legacy_export", {"month": "2026-10"}, by="Maria")
    await rt.schedules.pause("monthly-export", by="Maria")


async def approvals(rt: Runtime) -> None:
    """A person approves a refund and later small ones with it, answers another one, and approves as one of two."""
    small = {"type": "object", "properties": {"amount": {"type": "number", "maximum": 60}}, "required": ["amount"]}
    refund = {"order": "A-1020", "amount": 45.0, "reason": "arrived late"}
    first = await submit_until(rt, "refund", "erin", refund, is_question)
    grant: Any = {"uses": 5, "seconds": 3600, "thread": "erin", "arguments": small}
    await rt.approve(first, by="Maria", reason="small refunds are fine today", grant=grant)
    for amount in (38.0, 52.5):
        await rt.submit("refund", {**refund, "amount": amount}, thread="erin")
    paid = await submit_until(rt, "refund", "frank", {**refund, "amount": 300.0}, is_question)
    await rt.respond(paid, "300.00 EUR were paid back by hand yesterday", by="Maria", reason="done already")
    account = await submit_until(rt, "close_account", "dora", {"customer": "C-311", "keep_data": False}, is_question)
    await rt.approve(account, by="Maria", reason="the customer wrote to us")


async def contracts(rt: Runtime) -> None:
    """Two documents are to be signed: one was opened, the other one is signed."""
    opened, signed = [
        await submit_until(rt, "sign_contract", "chen", {"customer": customer}, is_outside)
        for customer in ("ACME", "Globex")
    ]
    await rt.report_progress(tokens[opened], 1, 3, "the customer has opened the document")
    await rt.complete(tokens[signed], {"signed": True, "by": "Globex"})


async def a_cancelled_call(rt: Runtime) -> None:
    long = await submit_until(
        rt, "crawl", "ann", {"url": "https://example.org", "pages": 80}, lambda event: event.type == "progress"
    )
    await rt.cancel(long, reason="enough pages")


async def other_calls(rt: Runtime) -> None:
    await rt.submit("weather", {"city": "Graz"}, thread="ann", not_before=time.time() + 4 * 3600)
    for tool, thread, arguments in CALLS:
        await rt.submit(tool, arguments, thread=thread)
    choose = random.Random(11)
    while True:
        await asyncio.sleep(choose.expovariate(0.8))
        tool, arguments = choose.choice(LATER_CALLS)
        await rt.submit(tool, arguments, thread=choose.choice(("ann", "bert", "chen", "dora")))


def is_question(event: Event) -> bool:
    return event.type == "approval_requested"


def is_outside(event: Event) -> bool:
    return event.data.get("waiting_for") == "external"


async def submit_until(
    rt: Runtime, tool: str, thread: str, arguments: dict[str, Any], is_there: Callable[[Event], bool]
) -> str:
    """Submit a call. Returns its id once it has such an event."""
    handle = await rt.submit(tool, arguments, thread=thread)
    async for event in handle.events():
        if is_there(event):
            break
    return handle.id


@contextlib.contextmanager
def webhooks() -> Iterator[tuple[dict[str, Any], ...]]:
    """Two endpoints on loopback: one takes every notice, the other one is out of order."""

    class Chat(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(204 if self.path == "/chat" else 500)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{receiver.server_port}"
        events = ["approval.requested", "call.unknown", "budget.reached"]
        common = {"secret": "whsec_" + b64encode(token_bytes(32)).decode(), "allow_private": True, "timeout": 5.0}
        yield (
            {**common, "url": f"{url}/chat", "name": "team chat", "events": events},
            {**common, "url": f"{url}/pager", "name": "pager", "events": events[1:], "retry": [3.0, 6.0]},
        )
        receiver.shutdown()


async def main(port: int) -> None:
    with tempfile.TemporaryDirectory() as folder, webhooks() as endpoints, Index.open() as index:
        index.add_folder(SAMPLES)
        interpreter = code_interpreter(require="process", timeout=30, warm=False, files=str(SAMPLES))
        tools = [*TOOLS, interpreter, deep_search.tool(engine=index, k=2)]
        settings = Settings(store=f"sqlite:///{folder}/console.db", webhooks=endpoints, prices=PRICES, budgets=BUDGETS)
        rt = Runtime(tools, settings=settings, policy=POLICY)
        agent = ReActAgent(rt, Rules(), name="assistant")
        async with rt, asyncio.TaskGroup() as tasks:
            work = [act(rt) for act in (schedules, approvals, contracts, a_cancelled_call, other_calls)]
            work += [chat(agent, thread, message) for thread, message in CHATS.items()]
            running = [tasks.create_task(quietly(each)) for each in work]
            try:
                await serve(rt, port=port, agents=[agent], ready=lambda server: print(server.url, flush=True))
            finally:
                for task in running:
                    task.cancel()


async def chat(agent: ReActAgent, thread: str, message: str) -> None:
    await agent.run(message, thread=thread)


async def quietly(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(ClicketError):  # the server ends
        await work


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000))
