"""The tour's search: a folder of documents that comes with clicket, and a question that none of them answers alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clicket.cli.demo_stage import Stage
from clicket.cli.words import short
from clicket.model.document import Citation
from clicket.runtime import Runtime
from clicket.search import Index, deep_search

__all__ = ["searched"]

SAMPLES = Path(__file__).parent / "sample_documents"
QUESTION = "In which city is the institute where the designer of the Tarn Point lighthouse taught?"
_NEEDED = {"Tarn Point Lighthouse", "Agnes Holloway", "Marrow Institute"}


async def searched(stage: Stage, runtime: Runtime) -> None:
    await stage.scene(
        "A deep search",
        "no document answers it alone: one names the next; no model, no key, no network",
        'await rt.call("deep_search", {"query": "In which city is …"})',
    )
    with Index.open() as index:
        report = index.add_folder(SAMPLES)
        stage.remark(f"{report.added} files indexed: {QUESTION}", "bright_black")
        runtime.add(deep_search.tool(engine=index, k=2))  # two of twelve files, as ten of thousands
        handle = await runtime.submit("deep_search", {"query": QUESTION}, thread="demo")
        known: set[str] = set()
        async for event in handle.events():
            if event.type == "output":
                _show(stage, event.data["content"], known)
        record = await runtime.get(handle.id)
        output = record.output if isinstance(record.output, dict) else {}
        cited = [Citation(**one) for one in output.get("citations", ())]
        documents = {one.id: one for one in index.fetch([one.doc for one in cited])}
    best = [one["title"] for one in output.get("documents", ())]
    stage.outcome(
        record,
        {
            "the answer is in what it quotes": any("Ardley" in one.text for one in cited),
            "the three documents come first": set(best[:5]) >= _NEEDED,
            "it took more than one round": len(output.get("rounds", ())) > 1,
            "every quotation is word for word": bool(cited) and all(one.holds(documents[one.doc]) for one in cited),
        },
    )
    for number, one in enumerate(cited, 1):
        if documents[one.doc].title in _NEEDED:
            stage.remark(f"[{number}] {documents[one.doc].title}: {' '.join(one.text.split())}", "green")


def _show(stage: Stage, message: dict[str, Any], known: set[str]) -> None:
    """A round: what was asked, and what of it is new."""
    if message["messageType"] != "search":
        return
    found = message["searchResult"]
    for query, documents in zip(found["query"], found["docs"], strict=True):
        new = [one["title"] for one in documents if one["id"] not in known]
        known.update(one["id"] for one in documents)
        told = f"{len(new)} new: {', '.join(new[:3])}{', …' if len(new) > 3 else ''}" if new else "nothing new"
        stage.remark(f"round {message['loop']}  {short(query, 60)}  → {told}", "bright_black")
