"""A receiver of webhooks: a real HTTP server in a process of its own, on loopback. `python -m tests.kit.webhook_receiver FILE`.

Each request is a line of JSON in FILE: path, headers, body. The path says how it answers: `/ok` accepts, `/fail/N` fails N times and
then accepts, `/hang` never answers, `/gone` says 410, `/busy/SECONDS` says 429 once with Retry-After, `/redirect` points elsewhere,
`/die` ends the process without an answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.kit.children import ROOT, environment

__all__ = ["Receiver"]


class Receiver:
    """The parent's half. `url(path)`; `requests()`: what came so far."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self._file = folder / f"received-{time.monotonic_ns()}.jsonl"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.webhook_receiver", str(self._file), str(port)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def requests(self, path: str = "") -> list[dict[str, Any]]:
        if not self._file.exists():
            return []
        lines = self._file.read_text().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [each for each in found if each["path"].startswith(path)]

    def ids(self, path: str = "") -> list[str]:
        return [each["headers"]["webhook-id"] for each in self.requests(path)]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()


class _Handler(BaseHTTPRequestHandler):
    seen: ClassVar[Counter[str]] = Counter()
    file = ""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0"))).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        line = json.dumps({"path": self.path, "headers": headers, "body": body}) + "\n"
        with open(self.file, "a") as file:
            file.write(line)
        self.seen[self.path] += 1
        kind, _, rest = self.path.strip("/").partition("/")
        if kind == "die":
            os._exit(0)
        if kind == "hang":
            time.sleep(60)
        status = {"gone": 410, "redirect": 307}.get(kind, 204)
        if kind == "fail" and self.seen[self.path] <= int(rest):
            status = 500
        if kind == "busy" and self.seen[self.path] == 1:
            status = 429
        self.send_response(status)
        if kind == "busy":
            self.send_header("retry-after", rest)
        if kind == "redirect":
            self.send_header("location", "/ok")
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Writes nothing."""


def main(file: str, port: str) -> None:
    _Handler.file = file
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), _Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
