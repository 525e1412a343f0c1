"""Makes the pictures of the console for README.md and docs/guides/console.md: every screen of `examples/console`, light and dark.

    python scripts/console_pictures.py [FOLDER]        make pictures: into docs/images

It needs Debian's chromium, and Pillow, which matplotlib brings.
"""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
SIZE = {"width": 1280, "height": 800}
QUALITY = 72
SETTLED = 70.0
"""Seconds that the demo needs for its first calls, and for a schedule of each minute to fire."""


@contextmanager
def demo() -> Iterator[str]:
    command = [sys.executable, str(ROOT / "examples" / "console"), "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        time.sleep(SETTLED)
        yield url
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)
        server.stdout.close()


def screens(url: str) -> dict[str, str]:
    """Name of the picture to the address after `#`."""
    calls: list[dict[str, Any]] = httpx2.get(f"{url}/calls?limit=1000").json()["items"]

    def run(tool: str, fits: Callable[[dict[str, Any]], bool] = lambda _: True) -> str:
        found = next((call for call in calls if call["tool"] == tool and fits(call)), calls[0])
        return f"/runs/{quote(found['id'], safe='')}?thread={quote(found['thread'], safe='')}"

    return {
        "runs": "/runs",
        "run": run("exchange_rate", lambda call: call["attempts"] > 1 and call["state"] == "completed"),
        "notebook": run("code_interpreter", lambda call: call["thread"] == "chen"),
        "search": run("deep_search"),
        "outside": run("sign_contract", lambda call: call["waiting_for"] == "external"),
        "inbox": "/inbox",
        "tools": "/tools?thread=chen",
        "threads": "/threads/support-3",
        "overview": "/overview",
        "schedules": "/schedules",
        "spend": "/spend?by=thread",
        "grants": "/grants",
        "notices": "/notices",
    }


def take(page: Page, target: Path) -> None:
    shot = Image.open(io.BytesIO(page.screenshot()))
    shot.convert("RGB").save(target, "WEBP", quality=QUALITY, method=6)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with demo() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for theme in ("light", "dark"):
            context = browser.new_context(viewport=SIZE, color_scheme=theme, locale="en-GB")  # type: ignore[arg-type]
            page = context.new_page()
            for name, address in screens(url).items():
                page.goto(f"{url}/#{address}")
                page.wait_for_timeout(1_800)
                if name == "notebook":
                    page.locator(".notebook").evaluate("element => element.scrollIntoView()")
                if name == "inbox":
                    page.get_by_label("Also let later calls run").first.check()
                    page.get_by_role("combobox", name="Arguments").select_option("upTo")
                if name == "search":
                    page.locator("button.cite").nth(1).click()
                    page.locator(".search-view").evaluate("element => element.scrollIntoView()")
                take(page, folder / f"console-{name}-{theme}.webp")
            context.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
