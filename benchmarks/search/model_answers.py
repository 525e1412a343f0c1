"""`make bench-answers`: answers of a small model beside those without one, on the questions about documentation that were held back.

`python -m benchmarks.search.model_answers [--half HALF] [--take N] [--seconds S] [--threads N] [--full]`. Every question is asked twice:
without a model, and with one that writes the answer (`brief=True`). Each result is kept at once, so a run that was stopped goes on where it
ended; `--again` begins anew. `--judge` asks no model: what it answered before is checked and judged again, as long as the prompts are the
same. A run of the held-back half writes its section of SEARCH.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.report import commit
from benchmarks.search.documents import QUESTIONS, SETS
from benchmarks.search.figures import has
from benchmarks.search.model_section import PAGE, section, with_section
from benchmarks.search.model_server import MODEL, ModelServer, model_server
from clicket.model.chat import ChatReply, ChatRequest, Usage
from clicket.model.text.terms import terms
from clicket.models import OpenAIModel
from clicket.search import Budget, Index, SearchResult, deep_search
from clicket.search.llm.numbers import numbers_in

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "bench" / "search"
_ENOUGH = 2 / 3
"""The share of the new terms of a known answer that a sentence must have."""


def main(words: list[str]) -> int:
    options = _options(words)
    if not (CACHE / "documents").is_dir():
        print(
            "bench-answers: first: python -m benchmarks.search.documents .cache/bench/search/documents", file=sys.stderr
        )
        return 2
    kept = CACHE / f"model-{options.half}{'-full' if options.full else ''}.jsonl"
    if options.again:
        kept.unlink(missing_ok=True)
    where = {
        "commit": commit(),
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "load": os.getloadavg()[0],
        "model": MODEL,
        "threads": options.threads,
        "seconds": options.seconds,
    }
    rows = _read(kept)
    if options.judge:
        kept.write_text("", encoding="utf-8")
        asyncio.run(_judge_again(options, rows, kept))
    else:
        with model_server(options.threads) as server:
            asyncio.run(_ask_all(options, server, kept, {row["question"] for row in rows}))
    rows = _read(kept)
    made = section(rows, where)
    print(made)
    if options.half == "held-back" and not options.full:
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    return 0


def _read(kept: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.exists() else []


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench-answers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=("held-back", "tuning"), default="held-back")
    parser.add_argument(
        "--take", type=int, default=1, metavar="N", help="every Nth of the questions that have an answer (all)"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="the time for an answer (60)")
    parser.add_argument("--threads", type=int, default=2, help="of the model's server (2)")
    parser.add_argument("--full", action="store_true", help="the model also plans and judges; writes no page")
    parser.add_argument("--judge", action="store_true", help="judge kept answers again, without a model")
    parser.add_argument("--again", action="store_true", help="forget what an earlier run kept")
    return parser.parse_args(words)


def _questions(half: str, take: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The questions of each set, every `take`th of those that have an answer. The model is asked few of the others."""
    for name in SETS:
        lines = (QUESTIONS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        asked = [one for one in map(json.loads, lines) if one["half"] == half]
        yield from ((name, one) for one in [one for one in asked if one["answers"]][::take])
        yield from ((name, one) for one in asked if not one["answers"])


async def _ask_all(options: argparse.Namespace, server: ModelServer, kept: Path, done: Collection[str]) -> None:
    model = Counted(OpenAIModel("qwen", base_url=f"{server.address}/v1", timeout=600, options={"temperature": 0}))
    with _indexes() as indexes:
        await _warm_up(indexes[next(iter(SETS))], model)
        for name, asked in _questions(options.half, options.take):
            if asked["question"] not in done:
                _keep(kept, name, await _ask(indexes[name], asked, model, server.cpu, options))
    await model.close()


async def _judge_again(options: argparse.Namespace, rows: Sequence[Mapping[str, Any]], kept: Path) -> None:
    with _indexes() as indexes:
        for row in rows:
            model = Counted(Replayed(row))
            made = await _ask(indexes[row["set"]], row, model, lambda: 0.0, options)
            _keep(kept, row["set"], {**made, **{name: row[name] for name in ("seconds", "cpu", "tokens")}})


@contextmanager
def _indexes() -> Iterator[dict[str, Index]]:
    with ExitStack() as opened:
        indexes = {name: opened.enter_context(Index.open(CACHE / f"documents-{name}.db")) for name in SETS}
        for name, index in indexes.items():
            index.add_folder(CACHE / "documents" / name)
        yield indexes


def _keep(kept: Path, name: str, row: Mapping[str, Any]) -> None:
    with kept.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"set": name, **row}, ensure_ascii=False) + "\n")
    answer = " ".join(row["answer"].split())[:90]
    print(f"{row['seconds']:5.1f} s  {row['outcome']:<11} {row['question'][:60]} -> {answer}", flush=True)


async def _warm_up(index: Index, model: Any) -> None:
    """The weights and the constant part of the prompt are read once, not by the first question."""
    await deep_search("What is Debian?", engine=index, model=model, brief=True)


class Counted:
    """A model that remembers what its last requests used."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.name: str = model.name
        self.usage = Usage()
        self.answers: list[str] = []
        self.prompts: list[str] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.prompts.append(sha256(request.text.encode()).hexdigest()[:16])
        reply: ChatReply = await self._model.chat(request)
        self.usage += reply.usage
        self.answers.append(reply.text)
        return reply

    async def close(self) -> None:
        await self._model.close()


class Replayed:
    """Answers what the model answered to the same prompts; it has no answer to others, or if the model was late."""

    name = "openai:qwen"

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._answers = dict(zip(row["prompts"], row["raw"], strict=False))

    async def chat(self, request: ChatRequest) -> ChatReply:
        prompt = sha256(request.text.encode()).hexdigest()[:16]
        if prompt not in self._answers:
            raise LookupError("the prompt has changed, or the model was late")
        return ChatReply(text=self._answers[prompt])


async def _ask(
    index: Index, asked: Mapping[str, Any], model: Counted, server_cpu: Callable[[], float], options: argparse.Namespace
) -> dict[str, Any]:
    question, answers = asked["question"], asked["answers"]
    budget = Budget(synthesizing=options.seconds / 0.9, decomposing=options.seconds, analyzing=options.seconds)
    plain = await deep_search(question, engine=index)
    model.usage, model.answers, model.prompts = Usage(), [], []
    begun, cpu = time.monotonic(), server_cpu()
    result = await deep_search(question, engine=index, model=model, brief=not options.full, budget=budget)
    seconds, cpu = time.monotonic() - begun, server_cpu() - cpu
    sentences = [one.text for one in plain.citations]
    return {
        "question": question,
        "answers": answers,
        "answer": result.answer,
        "cited": [one.text for one in result.citations],
        "outcome": outcome(result, asked=bool(model.prompts)),
        "answered": result.answered,
        "right": says(result.answer, answers, question),
        "unsupported": list(result.unsupported),
        "notes": list(result.notes),
        "raw": model.answers,
        "prompts": model.prompts,
        "seconds": seconds,
        "cpu": cpu,
        "tokens": [model.usage.input_tokens, model.usage.cached_tokens, model.usage.output_tokens],
        "plain": {
            "answered": plain.answered,
            "first": sentences[0] if sentences else "",
            "right": [any(says(one, answers, question) for one in sentences[:most]) for most in (1, 3, 8)],
            "word_for_word": [any(has(sentences[:most], one) for one in answers) for most in (1, 3, 8)],
        },
    }


def outcome(result: SearchResult, *, asked: bool) -> str:
    """How the answer came about, from its notes: the model wrote it, or why it did not."""
    notes = " ".join(result.notes)
    if "did not answer within" in notes:
        return "late"
    if "found no answer" in notes:
        return "refused"
    if "gave no statement" in notes:
        return "unsupported"
    if "the answer is made of" in notes:
        return "failed"
    return "written" if asked else "not asked"


def says(sentence: str, answers: Sequence[str], question: str) -> bool:
    """Does the sentence say one of the known answers? It has two thirds of what the answer adds to the question, and its numbers."""
    said, numbers = frozenset(terms(sentence)), numbers_in(sentence, claimed=False)
    known = frozenset(terms(question))
    for one in answers:
        wanted = numbers_in(one) - numbers_in(question)
        words = frozenset(term for term in terms(one) if not term.isdecimal())
        new = words - known or (frozenset() if wanted else words)  # numbers may be all that it adds
        if len(new & said) >= _ENOUGH * len(new) and wanted <= numbers:
            return True
    return False


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
