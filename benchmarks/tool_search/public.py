"""Public sets of tools and requests that other people made: nothing of the search was made with them in mind.

They are read from clones of their repositories in one folder, and nothing of them is kept here:

    git clone --depth 1 https://github.com/fairyshine/Seal-Tools
    git clone --depth 1 https://github.com/HowieHwong/MetaTool
    git clone --depth 1 https://github.com/ShishirPatil/gorilla

A request that needs several tools is left out, and one of more than 400 characters.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tool_search.catalog import ListedTool
from benchmarks.tool_search.requests import Request

__all__ = ["PublicSet", "public_sets"]

_MOST = 2_000
"""Requests of one set, drawn at random if it has more."""
_LONGEST = 400


class PublicSet(NamedTuple):
    tools: list[ListedTool]
    requests: list[Request]


def public_sets(folder: Path) -> dict[str, PublicSet]:
    calls = folder / "gorilla/berkeley-function-call-leaderboard/bfcl_eval/data"
    return {
        "Seal-Tools": _drawn(*_seal_tools(folder / "Seal-Tools/Seal-Tools_Dataset")),
        "MetaTool": _drawn(*_meta_tool(folder / "MetaTool/dataset")),
        "BFCL, of users": _drawn(*_leaderboard(calls, "live_multiple", "live_simple")),
        "BFCL, written": _drawn(*_leaderboard(calls, "multiple", "simple_python")),
    }


def _drawn(tools: Iterable[ListedTool], requests: Iterable[Request]) -> PublicSet:
    by_name: dict[str, ListedTool] = {}
    for tool in tools:
        by_name.setdefault(tool.name, tool)
    fit = [each for each in requests if len(each.tools) == 1 and len(each.text) <= _LONGEST]
    return PublicSet(list(by_name.values()), random.Random(20261119).sample(fit, min(len(fit), _MOST)))


def _seal_tools(folder: Path) -> tuple[list[ListedTool], list[Request]]:
    """Tools of 150 fields, and requests written by a language model and checked."""
    tools = [
        ListedTool(
            row["api_name"],
            row["api_description"],
            {"type": "object", "properties": {name: _described(of) for name, of in row["parameters"].items()}},
        )
        for row in _lines(folder / "tool.jsonl")
    ]
    parts = ("dev", "test_in_domain", "test_out_domain")
    requests = [
        Request(tuple({call["api"] for call in row["calling"]}), row["query"])
        for part in parts
        for row in _lines(folder / f"{part}.jsonl")
    ]
    return tools, requests


def _described(parameter: dict[str, Any]) -> dict[str, str]:
    return {"type": "string", "description": str(parameter.get("description", ""))}


def _meta_tool(folder: Path) -> tuple[list[ListedTool], list[Request]]:
    """Plugins of ChatGPT, with one sentence each and no arguments, and what people might say who need them."""
    about: dict[str, str] = {}
    for file in ("plugin_des.json", "big_tool_des.json"):
        about |= json.loads((folder / file).read_text(encoding="utf-8"))
    with (folder / "data/all_clean_data.csv").open(encoding="utf-8", errors="replace", newline="") as listed:
        requests = [Request((row["Tool"],), row["Query"]) for row in csv.DictReader(listed)]
    named = {request.tools[0] for request in requests}
    return [ListedTool(name, text, {}) for name, text in about.items() if name in named], requests


def _leaderboard(folder: Path, *parts: str) -> tuple[list[ListedTool], list[Request]]:
    """The functions of the Berkeley Function-Calling Leaderboard; those and the requests of `live` parts come from users."""
    tools: list[ListedTool] = []
    requests: list[Request] = []
    for part in parts:
        answers = {row["id"]: row["ground_truth"] for row in _lines(folder / f"possible_answer/BFCL_v4_{part}.json")}
        for row in _lines(folder / f"BFCL_v4_{part}.json"):
            tools += [ListedTool(each["name"], each["description"], each["parameters"]) for each in row["function"]]
            said = [message["content"] for message in row["question"][0] if message["role"] == "user"]
            names = {name for call in answers[row["id"]] for name in call}
            requests += [Request(tuple(names), text) for text in said[-1:]]
    return tools, requests


def _lines(file: Path) -> Iterator[Any]:
    return (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip())
