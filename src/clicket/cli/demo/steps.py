"""The steps of the tour that one process takes. Each makes a call, shows it, and checks its outcome."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from clicket.cli.demo.output import TourOutput
from clicket.cli.search_view import SearchView
from clicket.kernel import State
from clicket.model.document import Citation
from clicket.runtime.runtime import Runtime
from clicket.search import Index, deep_search

__all__ = ["SAMPLES", "STEPS", "is_gone"]

SAMPLES = Path(__file__).parent / "sample_documents"
_QUESTION = "In which city is the institute where the designer of the Tarn Point lighthouse taught?"
_NEEDED = {"Tarn Point Lighthouse", "Agnes Holloway", "Marrow Institute"}
_UNTRUSTED = ("print(sum(range(101)))", 'open("/etc/shadow").read()', "while True: pass")


async def successful(output: TourOutput, runtime: Runtime) -> None:
    about = "found, allowed, validated, run, stored"
    record, _ = await output.call(runtime, "A successful call", about, "weather", {"city": "Lisbon"})
    expected = {"city": "Lisbon", "temperature": 21, "unit": "c"}
    output.outcome(record, {"the output is the weather": record.output == expected})


async def streamed(output: TourOutput, runtime: Runtime) -> None:
    code = 'async for event in rt.stream("tell_story"): …'
    about = "each word is stored before you read it"
    record, events = await output.call(runtime, "A streamed call", about, "tell_story", {}, code=code)
    words = [event.data["content"] for event in events if event.type == "output"]
    checks = {
        "the output is what was streamed": record.output == "".join(words) != "",
        "no event is missing": [event.seq for event in events] == list(range(1, len(events) + 1)),
    }
    output.outcome(record, checks)


async def retried(output: TourOutput, runtime: Runtime) -> None:
    about = "the tool declares its failure as transient"
    record, _ = await output.call(runtime, "A retry that succeeds", about, "exchange_rate", {"pair": "EURUSD"})
    output.outcome(record, {"the third attempt succeeds": record.success and len(record.attempts) == 3})


async def timed_out(output: TourOutput, runtime: Runtime) -> None:
    about = "after one second its whole process tree is killed"
    record, events = await output.call(runtime, "A stuck sync tool", about, "read_scan", {"file": "scan.tiff"})
    pids = [event.data[name] for event in events if event.type == "note" for name in ("pid", "child")]
    gone = len(pids) == 2 and all([await is_gone(pid) for pid in pids])
    output.outcome(record, {"it ends as timeout": record.state is State.TIMEOUT, "both processes are gone": gone})
    if gone:
        output.remark("; ".join(f"kill -0 {pid}: no such process" for pid in pids))


async def is_gone(pid: int) -> bool:
    """The kernel takes a moment to remove a killed process."""
    give_up_at = time.monotonic() + 5
    while time.monotonic() < give_up_at:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        await asyncio.sleep(0.03)
    return False


async def cancelled(output: TourOutput, runtime: Runtime) -> None:
    await output.step("A cancelled call", "the tool stops in the middle of its work", "await rt.cancel(handle.id)")
    handle = await runtime.submit("crawl", {"pages": 50}, thread="demo")
    await output.watch("crawl", handle.events(), steps=6)
    done = await runtime.cancel(handle.id, reason="six pages are enough")
    record = await runtime.get(handle.id)
    output.outcome(record, {"it ends as cancelled": done and record.state is State.CANCELLED})


async def invalid(output: TourOutput, runtime: Runtime) -> None:
    about = "all errors at once, each with its path; the tool does not run"
    record, _ = await output.call(runtime, "Invalid arguments", about, "weather", {"city": 5, "unti": "k"})
    code, message, details = (
        (record.error.code, record.error.message, record.error.details) if record.error else ("", "", {})
    )
    checks = {
        "it fails as invalid_input": code == "invalid_input",
        "both mistakes are named": {each["path"] for each in details.get("problems", ())} == {"/city", "/unti"},
        "the similar name is suggested": "Did you mean 'unit'" in message,
        "the tool did not run": not record.attempts,
    }
    output.outcome(record, checks)


async def misspelt(output: TourOutput, runtime: Runtime) -> None:
    record, _ = await output.call(runtime, "A misspelt name", "models misspell", "wether", {"city": "Lisbon"})
    message = record.error.message if record.error else ""
    output.outcome(record, {"the similar name is suggested": "Did you mean 'weather'" in message})


async def large(output: TourOutput, runtime: Runtime) -> None:
    about = "shortened for the model, stored whole for you"
    record, _ = await output.call(runtime, "A large result", about, "read_log", {"lines": 40_000})
    whole = await runtime.artifact(record.artifact) if record.artifact else b""
    size = len(record.content.encode())
    checks = {"the model gets at most 600 bytes": 0 < size <= 600, "the artifact is the whole": len(whole) == 1_148_890}
    output.outcome(record, checks)
    output.remark(f"the model reads {size} bytes; artifact {str(record.artifact)[:19]}… holds all {len(whole):,}")


async def untrusted(output: TourOutput, runtime: Runtime) -> None:
    code = 'await rt.call("code_interpreter", {"task": "```python …"})'
    about = "it runs in a sandbox, without the host's files; each block has one second"
    task = "".join(f"```python\n{block}\n```\n" for block in _UNTRUSTED)
    record, _ = await output.call(
        runtime, "Untrusted code", about, "code_interpreter", {"task": task}, code=code, watch=False
    )
    result = record.output if isinstance(record.output, dict) else {}
    ended = [block["status"] for block in result.get("blocks", ())]
    isolation = result.get("isolation", {"level": "none", "layers": []})
    checks = {
        "the first block computes": result.get("stdout", "").startswith("5050"),
        "the host's secrets are out of reach": ended[1:2] == ["error"] or isolation["level"] == "process",
        "the endless block is stopped": ended[2:] == ["interrupted"],
    }
    output.outcome(record, checks)
    for status, block in zip(ended, _UNTRUSTED, strict=False):
        output.remark(f"{status:<12} {block}")
    output.remark(f"isolation {isolation['level']}: {', '.join(isolation['layers'])}")


async def searched(output: TourOutput, runtime: Runtime) -> None:
    code = 'await rt.call("deep_search", {"query": "In which city is …"})'
    await output.step("A deep search", "no document has the whole answer; no model, no key, no network", code)
    with Index.open() as index:
        report = index.add_folder(SAMPLES)
        output.remark(f"{report.added} files indexed: {_QUESTION}")
        runtime.add(deep_search.tool(engine=index, k=2))  # two of twelve files, as ten of thousands
        handle = await runtime.submit("deep_search", {"query": _QUESTION}, thread="demo")
        view = SearchView(output)
        async for event in handle.events():
            if event.type == "output":
                view.take(event.data["content"])
        record = await runtime.get(handle.id)
        result = record.output if isinstance(record.output, dict) else {}
        cited = [Citation(**each) for each in result.get("citations", ())]
        documents = {each.id: each for each in index.fetch([each.doc for each in cited])}
    best = [each["title"] for each in result.get("documents", ())]
    checks = {
        "the answer is in a quotation": any("Ardley" in each.text for each in cited),
        "the three documents come first": set(best[:5]) >= _NEEDED,
        "it took more than one round": len(result.get("rounds", ())) > 1,
        "every quotation is word for word": bool(cited) and all(each.holds(documents[each.doc]) for each in cited),
    }
    output.outcome(record, checks)
    for number, each in enumerate(cited, 1):
        if documents[each.doc].title in _NEEDED:
            output.remark(f"[{number}] {documents[each.doc].title}: {' '.join(each.text.split())}", "green")


STEPS = (successful, streamed, retried, timed_out, cancelled, invalid, misspelt, large, untrusted, searched)
