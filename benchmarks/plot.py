"""Draws overhead.svg and overhead.png from the stored answers. Runs in its own environment: `python plot.py answers.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "clicket"  # the same figures give the same file
from matplotlib import pyplot as plt  # noqa: E402  # after the backend is chosen

HERE = Path(__file__).resolve().parent
TITLES = {
    "bare": "bare await",
    "clicket-memory": "clicket, memory",
    "pydantic-toolset": "pydantic-ai toolset (no lifecycle)",
    "pydantic-manager": "pydantic-ai ToolManager",
    "langchain": "langchain ainvoke",
    "langgraph": "LangGraph ToolNode graph",
    "clicket-process": "clicket, SQLite (process)",
    "clicket-power": "clicket, SQLite (power)",
    "langgraph-sqlite": "LangGraph + AsyncSqliteSaver",
    "langgraph-sqlite-normal": "the same, WAL/NORMAL",
    "dbos-sqlite": "DBOS, SQLite",
    "dbos-sqlite-normal": "the same, WAL/NORMAL ",
}


def bars(axes: Any, rows: dict[str, Any], figure: str, title: str, show: Any) -> None:
    names = [name for name in TITLES if figure in rows.get(name, {}).get("median", {})]
    values = [rows[name]["median"][figure] for name in names]
    colours = ["#d1495b" if name.startswith("clicket") else "#8d99ae" for name in names]
    drawn = axes.barh([TITLES[name] for name in names], values, color=colours)
    axes.bar_label(drawn, labels=[show(value) for value in values], padding=3, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(right=max(values) * 12)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def main(path: str) -> None:
    answer = json.loads(Path(path).read_text())["overhead"]
    chart, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained", sharey=True)
    bars(left, answer["rows"], "p50_us", "one call, p50 (µs, log scale; less is better)", lambda v: f"{v:,.4g} µs")
    left.invert_yaxis()  # the axis is shared: the order of TITLES, from the top
    bars(right, answer["rows"], "per_second", "calls per second at 100 callers (log scale)", lambda v: f"{v:,.0f}/s")
    chart.suptitle(f"Overhead of one tool call, async no-op tool, commit {answer['commit']}", fontsize=11)
    chart.savefig(HERE / "overhead.svg", metadata={"Date": None})
    chart.savefig(HERE / "overhead.png", dpi=120)


main(sys.argv[1])
