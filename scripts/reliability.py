"""Rewrites docs/reliability.md and docs/zh-CN/reliability.md from tests/simulation/record.toml. `--check` changes nothing."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.simulation.hunt import hunted  # noqa: E402  # from the checkout
from tests.simulation.mutants import HARMLESS, MUTANTS  # noqa: E402

DATA = ROOT / "tests" / "simulation" / "record.toml"
MADE = "<!-- made by scripts/reliability.py from tests/simulation/record.toml; do not edit -->"
FIRST_SEEDS = "3 to 30"
FIRST_SEEDS_ZH = "3 到 30"
PAGES = {"en": ROOT / "docs" / "reliability.md", "zh": ROOT / "docs" / "zh-CN" / "reliability.md"}

ENGLISH_HEAD = """# Reliability: what is promised, how it is tested, what was found

Three ways look for orders of events that break a promise. **Real kills** (`make crash`): processes end by SIGKILL, stop
past their lease, lose their store. **Simulation** (`make sim`): the whole product runs on a loop, a clock, a network and
threads that one seed decides; a seed repeats byte by byte, and `python -m tests.simulation.run --seed N` shows what happens
in it. **An oracle**: random operations on each store must agree with a pure model of the store. The judge of a seed reads
what the outside sees: answers, effects, events, webhooks, the ledger.

## Guarantees

| guarantee | what it says | predicates of the simulation | tests |
|---|---|---|---|
"""
CHINESE_HEAD = """# 可靠性：承诺了什么，如何测试，发现了什么

有三种方法寻找会破坏承诺的事件顺序。**真实的终止**（`make crash`）：进程被 SIGKILL 结束、暂停超过租约、失去存储。\
**仿真**（`make sim`）：整个产品运行在由一个种子决定的事件循环、时钟、网络和线程上；同一个种子逐字节重复，\
`python -m tests.simulation.run --seed N` 显示其中发生的事情。**参照模型**：对每个存储的随机操作必须与存储的纯模型一致。\
种子的评判者只读取外部所见：应答、效果、事件、webhook、账本。

## 保证

| 保证 | 内容 | 仿真中的判据 | 测试 |
|---|---|---|---|
"""


def page(language: str) -> str:
    data = tomllib.loads(DATA.read_text("utf-8"))
    made = _english(data) if language == "en" else _chinese(data)
    return "\n".join([MADE, *made]) + "\n"


def _english(data: dict[str, Any]) -> list[str]:
    lines = [*ENGLISH_HEAD.splitlines()]
    for each in data["guarantee"]:
        tests = ", ".join(f"[{Path(test).stem}](../{test})" for test in each["tests"])
        lines.append(f"| {each['name']} | {each['text']} | {', '.join(each['predicates'])} | {tests} |")
    lines += ["", "## What ran", "", "| what | command | how much | found |", "|---|---|---|---|"]
    lines += [
        f"| {each['what']} | `{each['command']}` | {each['ran']} | {each['found']} |" for each in data["campaign"]
    ]
    lines += ["", "## Faults found in clicket", "", "| fault | found by | mended by the commit |", "|---|---|---|"]
    lines += [f"| {each['what']} | {each['by']} | {each['mended']} |" for each in data["fault"]]
    lines += [
        "",
        "Bugs of other systems, tried here, have [a page of their own](peers-bugs.md).",
        "",
        "## What is not tested",
        "",
    ]
    lines += [f"- {each['text']}" for each in data["limit"]]
    found, first, limit = _counts()
    lines += [
        "",
        "## Planted mistakes",
        "",
        f"{len(MUTANTS)} small changes of the source, each of which breaks a guarantee under some order of events. They were",
        "written before the judge was tuned to them; those of handoffs and of the memory, together with their predicates.",
        f"The first judge found {first[0]} of {first[1]} ({FIRST_SEEDS} seeds each); of {found[1]} that were hunted again,",
        f"the judge of today found {found[0]}, within {limit:,} seeds at most. A mutant runs only in the seeds that reach its place",
        "(`tests/simulation/reached.py`), as it changes nothing in the others, which count as tried. One that names the rare combinations",
        "of events which are likely to show it (`tests/simulation/focus.py`) runs only in seeds that turn to them: `≤ N` says that N seeds",
        "are enough, and an earlier one may find it, too.",
        "The seeds are those of the workload on the day of the hunt. `make mutants` plants them again; with `ARGS=--again` it tells which",
        "mistakes their seed does not find any more.",
        f"{len(HARMLESS)} more was taken out of the list, because no order of events shows it:",
        *(f"*{mutant.name}*. {why}" for mutant, why in HARMLESS),
        "",
        "| mistake | guarantee that it breaks | found by | seeds | seeds of the first judge |",
        "|---|---|---|---|---|",
    ]
    return lines + _planted("not found in {:,}, {:,} of which reach its place", "not found in {:,}", "not hunted")


def _chinese(data: dict[str, Any]) -> list[str]:
    lines = [*CHINESE_HEAD.splitlines()]
    for each in data["guarantee"]:
        tests = "、".join(f"[{Path(test).stem}](../../{test})" for test in each["tests"])
        lines.append(f"| {each['zh']} | {each['text_zh']} | {', '.join(each['predicates'])} | {tests} |")
    lines += ["", "## 运行情况", "", "| 内容 | 命令 | 数量 | 结果 |", "|---|---|---|---|"]
    lines += [
        f"| {each['zh']} | `{each['command']}` | {each['ran']} | {each['found_zh']} |" for each in data["campaign"]
    ]
    lines += ["", "## 在 clicket 中发现的缺陷", "", "| 缺陷 | 发现方式 | 修复提交 |", "|---|---|---|"]
    lines += [f"| {each['zh']} | {each['by']} | {each['mended']} |" for each in data["fault"]]
    lines += ["", "在这里尝试过的其他系统的缺陷见[单独的页面](peers-bugs.md)。", "", "## 没有测试的内容", ""]
    lines += [f"- {each['zh']}" for each in data["limit"]]
    found, first, limit = _counts()
    lines += [
        "",
        "## 植入的错误",
        "",
        f"对源码的 {len(MUTANTS)} 处小改动，每一处都会在某种事件顺序下破坏一项保证。",
        "它们在调整评判者之前写成；关于移交和记忆的错误则与其判据一同写成。",
        f"最初的评判者发现 {first[1]} 处中的 {first[0]} 处（每处 {FIRST_SEEDS_ZH} 个种子）；",
        f"再次搜寻的 {found[1]} 处中，现在的评判者在至多 {limit:,} 个种子之内发现 {found[0]} 处。错误只在到达其位置的种子中运行",
        "（`tests/simulation/reached.py`），因为在其余种子中它什么也不改变；那些种子计为已尝试。",
        "指明了易于显示它的罕见组合的错误（`tests/simulation/focus.py`）只在转向这些组合的种子中运行：`≤ N` 表示 N 个种子已经足够，",
        "更早的种子也可能发现它。",
        "种子数对应搜寻当天的工作负载。`make mutants` 会再次植入它们；加上 `ARGS=--again` 会指出哪些错误不再被其种子发现。",
        f"另有 {len(HARMLESS)} 处已从列表中去掉，因为没有任何事件顺序能显示它：",
        *(f"*{mutant.name}*. {why}" for mutant, why in HARMLESS),
        "",
        "| 错误 | 被破坏的保证 | 由何发现 | 种子数 | 最初评判者的种子数 |",
        "|---|---|---|---|---|",
    ]
    return lines + _planted("{:,} 个之内未发现，其中 {:,} 个到达其位置", "{:,} 个之内未发现", "未搜寻")


def _counts() -> tuple[tuple[int, int], tuple[int, int], int]:
    """Found now and at first, each with how many were hunted; the most seeds that were tried."""
    entries = hunted().values()
    first = [entry["first"] for entry in entries if "first" in entry]
    tried = [entry for entry in entries if entry["of"]]
    now = [entry for entry in tried if entry["seeds"] is not None]
    return (
        (len(now), len(tried)),
        (sum(each is not None for each in first), len(first)),
        max(entry["of"] for entry in tried),
    )


def _planted(missed: str, missed_first: str, new: str) -> list[str]:
    entries, rows = hunted(), []
    for mutant in MUTANTS:
        entry = entries.get(mutant.name, {"seeds": None, "of": 0, "rule": None})
        if entry["seeds"] is not None:
            seeds, rule = f"{'≤ ' * entry.get('aimed', False)}{entry['seeds']:,}", entry["rule"]
        else:
            told = missed.format(entry["of"], entry["reach"]) if "reach" in entry else missed_first.format(entry["of"])
            seeds, rule = told if entry["of"] else new, entry.get("why", "")
        first = (
            new
            if "first" not in entry
            else missed_first.format(entry["first_of"])
            if entry["first"] is None
            else entry["first"]
        )
        rows.append(f"| {mutant.name} | {mutant.breaks} | {rule} | {seeds} | {first} |")
    return rows


def main() -> None:
    stale = [path for language, path in PAGES.items() if not path.exists() or path.read_text("utf-8") != page(language)]
    if "--check" in sys.argv:
        sys.exit(f"{', '.join(map(str, stale))}: run make docs" if stale else 0)
    for language, path in PAGES.items():
        path.write_text(page(language), "utf-8")


if __name__ == "__main__":
    main()
