"""JSON in replies of models: our reader against the library json_repair. How many of 84 replies are read as intended, how long
it takes, and how the time grows with hostile text.

Run from the checkout, in an environment with clicket and `json_repair`:

    python -m benchmarks.trials.lenient_json
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import json_repair

from clicket.search.llm.lenient_json import values_in

MEANT: list[Any] = [
    {"queries": ["who founded Debian", "when was Debian founded"], "reason": "two parts"},
    {"answer": "It's 1993.", "citations": [{"document": 1, "quote": "It was founded in 1993."}], "complete": True},
    {"sub": [{"q": "a", "why": None}, {"q": "b, c", "why": "x: y"}], "n": 3, "score": 0.75},
    ["one", "two, three", "four"],
    {"text": 'He said "no" and left.\nThen came back.', "ok": False},
    {"中文": "答案是 42。", "items": []},
]


def plain(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


DAMAGE: dict[str, Callable[[Any], str]] = {
    "none": plain,
    "in a fence": lambda v: f"Here it is:\n```json\n{plain(v, 1)}\n```\nHope that helps!",
    "text around it": lambda v: f"Sure, the result is {plain(v)} as you asked.",
    "thoughts before it": lambda v: f'<think>maybe {{"a": 1}}?</think>\n{plain(v)}',
    "an example before it": lambda v: f'Format: {{"...": ...}}\n\n{plain(v)}',
    "a trailing comma": lambda v: re.sub(r"([\]}])$", r",\1", plain(v)),
    "single quotes": repr,
    "bare keys": lambda v: re.sub(r'"(\w+)":', r"\1:", plain(v)),
    "a comment": lambda v: plain(v, 1).replace("\n", "  // note\n", 1),
    "Python's words": lambda v: plain(v).replace("true", "True").replace("false", "False").replace("null", "None"),
    "raw line breaks": lambda v: plain(v).replace("\\n", "\n"),
    "no last bracket": lambda v: plain(v)[:-1],
    "a missing comma": lambda v: plain(v, 1).replace(",\n", "\n", 1),
    "curly quotes": lambda v: plain(v).replace('"', "\u201c", 1).replace('"', "\u201d", 1),
}
HOSTILE: dict[str, Callable[[int], str]] = {
    "open lists": lambda n: "[" * n,
    "open objects": lambda n: '{"a":' * n,
    "quotes": lambda n: '{"' + '"' * n,
    "words": lambda n: "{" + "a b " * n,
    "strings": lambda n: "{" + '"a" ' * n,
}


def ours(text: str) -> Any:
    return next((value for value in values_in(text) if isinstance(value, dict | list)), None)


def seconds(read: Callable[[str], Any], text: str, times: int = 1) -> str:
    began = time.process_time()
    try:
        for _ in range(times):
            read(text)
    except RecursionError:
        return "RecursionError"
    return f"{(time.process_time() - began) / times * 1e6:,.0f} µs"


def main() -> None:
    readers = {"clicket": ours, "json_repair": json_repair.loads}
    right = dict.fromkeys(readers, 0)
    for name, damage in DAMAGE.items():
        row = {who: sum(read(damage(value)) == value for value in MEANT) for who, read in readers.items()}
        right = {who: right[who] + row[who] for who in readers}
        print(f"{name:22} {row}")
    print(f"of {len(DAMAGE) * len(MEANT)}: {right}")
    for name in ("in a fence", "single quotes"):
        print(name, {who: seconds(read, DAMAGE[name](MEANT[1]), 1_000) for who, read in readers.items()})
    for name, text in HOSTILE.items():
        print(name, {who: [seconds(read, text(n)) for n in (2_000, 4_000, 8_000)] for who, read in readers.items()})


main()
