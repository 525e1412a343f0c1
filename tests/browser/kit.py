"""Helpers of the console's tests: the server as a process, a page that is checked for errors and foreign requests, and calls over HTTP."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright
from tests.kit.forks import SERVER, forked
from tests.kit.waiting import PATIENCE

__all__ = ["Console", "Pages", "Server", "chromium", "expect", "serving"]

ROOT = Path(__file__).resolve().parents[2]
expect.set_options(timeout=PATIENCE * 1000)


class Server:
    """One process of `console_server`."""

    def __init__(self, store: str, port: int = 0, seed: int = 0, keys: str = "") -> None:
        self.store = store
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CLICKET_")}
        environment |= {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"} | (
            {"CLICKET_API_KEYS": keys} if keys else {}
        )
        command = [
            sys.executable,
            *forked("tests.browser.console_server", *SERVER),
            "-m",
            "tests.browser.console_server",
            store,
            str(port),
            str(seed),
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.process.stdout.close()
            raise RuntimeError(f"the server did not start: exit code {self.process.wait(timeout=PATIENCE)}")
        self.http = httpx2.Client(base_url=self.url, timeout=PATIENCE)

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def call(
        self, tool: str, arguments: dict[str, Any] | None = None, *, wait: bool = False, **more: Any
    ) -> dict[str, Any]:
        body = {"tool": tool, "arguments": arguments or {}, "wait": wait, **more}
        answer = self.http.post("/calls", json=body)
        found: dict[str, Any] = answer.json()
        return found

    def record(self, id: str, thread: str = "default") -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/calls/{id}", params={"thread": thread}).json()
        return found

    def stop(self, how: int = signal.SIGTERM) -> None:
        self.http.close()
        self.process.send_signal(how)
        self.process.wait(timeout=PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def serving(store: str, **options: Any) -> Iterator[Server]:
    server = Server(store, **options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop(signal.SIGKILL)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "chromium is missing: apt-get install -y chromium"
    with sync_playwright() as playwright:
        # A page here has one origin. With isolation of sites, Chromium also starts a renderer in advance for every page.
        options = ["--no-sandbox", "--disable-gpu", "--disable-site-isolation-trials"]
        browser = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()


class Pages:
    """Pages of one browser, each with a session of its own. One that is given back is cleared and used again by a later test that asks
    for the same options: to start a page takes Chromium longer than most tests take."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._idle: dict[str, list[Page]] = {}
        self._options: dict[Page, str] = {}

    def take(self, *, key: str, **options: Any) -> Page:
        name = repr((key, sorted(options.items())))
        if idle := self._idle.get(name):
            return idle.pop()
        context = self._browser.new_context(**options)
        context.set_default_timeout(PATIENCE * 1000)
        if key:
            context.add_init_script(f"sessionStorage.setItem('clicket.key', {key!r})")
        page = context.new_page()
        self._options[page] = name
        return page

    def give_back(self, page: Page, base: str) -> None:
        """A page that has left the server `base`, or does not answer, is closed."""
        try:
            page.unroute_all()
            for other in page.context.pages:
                if other is not page:
                    other.close()
            if page.url.startswith(f"{base}/"):
                page.evaluate("localStorage.clear(); sessionStorage.clear()")
                page.context.clear_cookies()
                page.mouse.move(0, 0)
                page.goto("about:blank")
                self._idle.setdefault(self._options[page], []).append(page)
                return
        except Error:  # the browser may have crashed, which the test has reported
            pass
        with suppress(Error):
            page.context.close()


class Console:
    """Pages of one server. At the end, `check` fails if a page logged an error or requested another origin."""

    def __init__(self, pages: Pages, url: str) -> None:
        self._pages = pages
        self.url = url
        self._open: list[tuple[Page, str, dict[str, Any]]] = []
        self.problems: list[str] = []
        self.expected: list[re.Pattern[str]] = []

    def open(
        self, path: str = "", *, url: str = "", key: str = "", width: int = 1280, height: int = 800, **options: Any
    ) -> Page:
        """A page with its own session."""
        base = url or self.url
        page = self._pages.take(key=key, **{"locale": "en-GB", **options})
        page.set_viewport_size({"width": width, "height": height})
        listeners = {
            "console": lambda message: self._log(message.text) if message.type in ("error", "warning") else None,
            "pageerror": lambda error: self._log(f"page error: {error}"),
            "dialog": lambda dialog: (self._log(f"dialog: {dialog.message}"), dialog.dismiss()),
            "request": lambda request: None if _is_own(request.url, base) else self._log(f"foreign: {request.url}"),
        }
        for event, listener in listeners.items():
            page.on(event, listener)  # type: ignore[call-overload]  # one of these names
        self._open.append((page, base, listeners))
        page.goto(f"{base}/{path}")
        return page

    def expect_errors(self, pattern: str) -> None:
        """Errors in the browser's log that the test causes on purpose, such as those about a refused request."""
        self.expected.append(re.compile(pattern))

    def _log(self, text: str) -> None:
        self.problems.append(text)

    def check(self) -> None:
        for page, base, listeners in self._open:
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
            self._pages.give_back(page, base)
        left = [text for text in self.problems if not any(pattern.search(text) for pattern in self.expected)]
        assert left == []


def _is_own(url: str, base: str) -> bool:
    return url.startswith((base, "data:", "blob:", "about:"))
