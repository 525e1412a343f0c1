"""Rewrites docs/peers-bugs.md and docs/zh-CN/peers-bugs.md from the table in tests/scenarios/peers_bugs.py. `--check` changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.scenarios.peers_bugs import PEERS_BUGS, PeersBug  # noqa: E402  # it is found by the line above
from tests.scenarios.peers_bugs_zh import CHINESE  # noqa: E402

MADE = "<!-- made by scripts/peers_bugs.py from tests/scenarios/peers_bugs.py; do not edit -->"

ENGLISH_HEAD = """# Bugs of other systems, as scenarios

Durable runtimes and agent frameworks publish their bugs. This page lists {count} of them. For each one, a test brings
clicket into the same situation, with real stores and real kills where the bug needs them, and checks what happens.

The threads were read in November 2026, in copies of which the newest are of September 2026; the state of each is the one
at that time. Most are closed, and a bug may have been mended since: whether a project still has it was not tested. The
list is one of situations worth testing, not a judgement of the projects. In {same} of the {count} situations clicket has the same
limit, marked "same here".

The tests are in `tests/scenarios`: [calls]({root}tests/scenarios/test_peers_bugs.py),
[waits and time]({root}tests/scenarios/test_peers_bugs_waits.py), [agents]({root}tests/scenarios/test_peers_bugs_agents.py).
"""
CHINESE_HEAD = """# 其他系统的缺陷，作为场景

持久化运行时和智能体框架会公开各自的缺陷。本页列出其中 {count} 个。每一个都有一项测试，使 clicket 进入相同的情形（使用真实的存储，\
缺陷需要时真正杀死进程），并检查会发生什么。

这些讨论于 2026 年 11 月阅读，所用副本最新的为 2026 年 9 月；所列状态为当时的状态。其中大多数已关闭，缺陷此后可能已经修复：\
各项目现在是否仍有这些缺陷，没有测试。本页列出的是值得测试的情形，而不是对这些项目的评价。在 {count} 种情形中，\
有 {same} 种 clicket 有相同的限制，标为“相同”。

测试位于 `tests/scenarios`：[调用]({root}tests/scenarios/test_peers_bugs.py)、\
[等待与时间]({root}tests/scenarios/test_peers_bugs_waits.py)、[智能体]({root}tests/scenarios/test_peers_bugs_agents.py)。
"""
STATES = {"open": "未关闭", "closed": "已关闭", "merged": "已合并"}


def english() -> str:
    """docs/peers-bugs.md."""
    rows = (
        (bug, f"{bug.since}; {bug.state}", bug.what, ("**Same here.** " if bug.same else "") + bug.here)
        for bug in PEERS_BUGS
    )
    return _page(
        ENGLISH_HEAD, "../", ("bug", "reported; thread", "what it was", "what happens in clicket", "test"), rows
    )


def chinese() -> str:
    """docs/zh-CN/peers-bugs.md."""
    rows = (
        (bug, f"{bug.since}; {STATES[bug.state]}", what, ("**相同。** " if bug.same else "") + here)
        for bug in PEERS_BUGS
        for what, here in [CHINESE[bug.peer, bug.number]]
    )
    return _page(CHINESE_HEAD, "../../", ("缺陷", "报告时间与版本；状态", "是什么", "在 clicket 中", "测试"), rows)


PAGES = {ROOT / "docs" / "peers-bugs.md": english, ROOT / "docs" / "zh-CN" / "peers-bugs.md": chinese}


def _page(head: str, root: str, columns: Sequence[str], rows: Iterable[tuple[PeersBug, str, str, str]]) -> str:
    lines = [head.format(count=len(PEERS_BUGS), same=sum(bug.same for bug in PEERS_BUGS), root=root), MADE, ""]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for bug, since, what, here in rows:
        link = f"[{bug.peer} #{bug.number}]({bug.url})"
        lines.append(f"| {link} | {since} | {what} | {here} | `{bug.test}` |")
    return "\n".join(lines) + "\n"


def main(check: bool) -> int:
    stale = [path for path, page in PAGES.items() if not path.exists() or path.read_text(encoding="utf-8") != page()]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not what its table says: run `python scripts/peers_bugs.py`")
        else:
            path.write_text(PAGES[path](), encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
