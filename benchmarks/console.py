"""How big, how fast and how responsive the console is: `python benchmarks/console.py` measures it in Chromium and writes CONSOLE.md.

- size: all files of the page, gzipped, beside the shipped JavaScript and CSS of other consoles (measured from their wheels);
- first load: from the navigation to the first row of calls, with an empty cache, on loopback;
- 200 updates a second: how long typed keys wait for the next frame, meanwhile;
- scrolling through 10,000 calls: the times between frames.
"""

from __future__ import annotations

import gzip
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

from playwright.sync_api import Browser, Page  # noqa: E402  # after the line above
from tests.browser.kit import Server, chromium, serving  # noqa: E402

RESULTS = ROOT / "benchmarks" / "CONSOLE.md"
STATIC = ROOT / "src" / "clicket" / "server" / "static"
PEERS = {  # gzipped KB of JavaScript and CSS in the wheels, November 2026
    "Phoenix 20.26": 6_200, "Prefect 3.9": 4_500, "Dagster 1.13": 4_000, "Airflow 3.3": 3_500, "ADK 2.13": 2_500,
    "agent-framework-devui 1.0": 280, "Flower 2.2": 190,
}  # fmt: skip
LOADS = 7
CALLS = 10_000
STREAMS = 10  # calls that send 20 updates a second each
KEYS = 40

_OBSERVE = """() => {
  window.waits = [];
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) if (entry.name === "keydown") waits.push(entry.duration); })
    .observe({ type: "event", durationThreshold: 16, buffered: true });
}"""
_SCROLL = """() => new Promise((resolve) => {
  const scroller = document.querySelector(".scroller"), frames = [];
  let last = performance.now(), left = 240;
  const step = (now) => {
    frames.push(now - last); last = now;
    scroller.scrollTop += 1500;
    if (--left) requestAnimationFrame(step); else resolve(frames.slice(5));
  };
  requestAnimationFrame(step);
})"""


def size() -> int:
    files = [path for path in STATIC.rglob("*") if path.is_file() and path.suffix != ".sha256"]
    return sum(len(gzip.compress(path.read_bytes(), 9, mtime=0)) for path in files)


def page_of(browser: Browser, server: Server, path: str) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(f"{server.url}/{path}")
    page.locator(".scroller [role=row]").first.wait_for()
    return page


def first_load(browser: Browser, server: Server) -> float:
    """Milliseconds, the median."""
    found = []
    for _ in range(LOADS):
        began = time.perf_counter()
        page = page_of(browser, server, "#/runs")
        found.append((time.perf_counter() - began) * 1000)
        page.context.close()
    return statistics.median(found)


def typing(browser: Browser, server: Server) -> tuple[float, list[float]]:
    """Updates a second that reached the page, and how long each key waited, in milliseconds."""
    for number in range(STREAMS):
        server.call("slow", {"steps": 2000}, thread="updates", id=f"updates-{number}")
    page = page_of(browser, server, "#/runs?thread=updates")
    page.evaluate(_OBSERVE)
    counted = sum(len(server.record(f"updates-{n}", "updates")["events"]) for n in range(STREAMS))
    began = time.perf_counter()
    page.keyboard.press("/")
    for _ in range(KEYS):
        page.keyboard.press("a")
        page.wait_for_timeout(90)
    seconds = time.perf_counter() - began
    rate = (sum(len(server.record(f"updates-{n}", "updates")["events"]) for n in range(STREAMS)) - counted) / seconds
    waits: list[float] = page.evaluate("waits")
    server.http.post("/bulk", json={"action": "cancel", "filter": {"thread": "updates"}})
    return rate, waits or [16.0]


def scrolling(browser: Browser, server: Server) -> list[float]:
    page = page_of(browser, server, "#/runs?tool=echo")
    page.wait_for_function(
        "() => { const s = document.querySelector('.scroller'); s.scrollTop = s.scrollHeight;"
        f" return Number(document.querySelector('[role=table]').getAttribute('aria-rowcount')) > {CALLS}; }}",
        timeout=120_000,
    )
    page.evaluate("document.querySelector('.scroller').scrollTop = 0")
    frames: list[float] = page.evaluate(_SCROLL)
    return frames


def at(share: float, values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    with serving("memory://", seed=CALLS) as server, chromium() as browser:
        load = first_load(browser, server)
        frames = scrolling(browser, server)
        rate, waits = typing(browser, server)
        version = browser.version
    kilobytes = size() / 1024
    rows: list[tuple[str, Any]] = [
        ("size, gzipped", f"{kilobytes:.1f} KB"),
        (f"first load, median of {LOADS}, to the first row of 10,000 calls", f"{load:.0f} ms"),
        ("updates a second while keys are typed", f"{rate:.0f}"),
        ("a key waits for its frame: median, worst", f"{statistics.median(waits):.0f} ms, {max(waits):.0f} ms"),
        (
            "frames while 10,000 calls are scrolled: median, 95 %",
            f"{statistics.median(frames):.0f} ms, {at(0.95, frames):.0f} ms",
        ),
    ]
    lines = [
        "# The console in figures", "",
        (f"`python benchmarks/console.py`, Chromium {version}, Python {platform.python_version()}, loopback; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, software rendering."),
        "", "| what | figure |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows), "",
        "Shipped JavaScript and CSS of other consoles, gzipped, from their wheels:", "", "| console | KB |", "|---|---|",
        *(f"| {name} | {value:,} |" for name, value in PEERS.items()), f"| clicket | {kilobytes:.0f} |", "",
    ]  # fmt: skip
    text = "\n".join(lines)
    print(text)
    RESULTS.write_text(text)


if __name__ == "__main__":
    main()
