"""aimock, a third-party server, in the place of both vendors: the real SDKs call it, tests set its answers.

It checks little of a request: a body that is a JSON object, `messages` that is a list (for OpenAI's protocol only), and
that an assistant's turn with tools begins with its thinking when Anthropic's `thinking` is on. It does not check roles,
schemas, names, or whether each tool call has its result: `tests.models_kit.vendor_rules` checks those on the requests
that this server recorded, and so does `tests.adapters.provider`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
from tests.mcp.npm_tools import NODE, installed

__all__ = ["Aimock", "Asked", "answer", "calls", "failure", "serving"]

SERVER = Path(__file__).with_suffix(".mjs")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it was sent."""

    path: str
    headers: dict[str, Any]
    body: dict[str, Any]


class Aimock:
    """A running server. `url` for Anthropic's SDK, `url + "/v1"` for OpenAI's."""

    def __init__(self, url: str) -> None:
        self.url = url

    def script(self, *answers: Mapping[str, Any]) -> None:
        """Give these answers in turn, whatever the request; then refuse every request. Forgets earlier requests."""
        in_turn = [{"match": {"sequenceIndex": place}, **one} for place, one in enumerate(answers)]
        over = {"match": {}, **failure(400, "the script has no answer left", code="script_is_over")}
        self._control({"fixtures": [*in_turn, over]})

    @property
    def asked(self) -> list[Asked]:
        requests = self._control(None)["asked"]
        return [Asked(path=one["path"], headers=one["headers"], body=json.loads(one["body"])) for one in requests]

    @property
    def journal(self) -> list[dict[str, Any]]:
        """The server's own record of requests, with what it answered: `response.status`, `response.interrupted` …"""
        journal: list[dict[str, Any]] = self._control(None)["journal"]
        return journal

    def _control(self, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.url}/script", data=data), timeout=30) as response:
            return json.load(response)


def answer(text: str, **options: Any) -> dict[str, Any]:
    """A text. Options: `usage`, `finishReason`, `reasoning`, `reasoningSignature` … of the answer, and those of `_scripted`."""
    return _scripted({"content": text}, options)


def calls(*uses: tuple[str, Any] | tuple[str, Any, str], text: str | None = None, **options: Any) -> dict[str, Any]:
    """Tool calls: `(name, arguments)` or `(name, arguments, id)`; arguments that are a text are sent as they are."""
    listed = [
        {
            "name": name,
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
            "id": id[0] if id else f"call_{place}",
        }
        for place, (name, arguments, *id) in enumerate(uses)
    ]
    return _scripted({"toolCalls": listed, **({} if text is None else {"content": text})}, options)


def failure(status: int, message: str = "not now", *, retry_after: int | None = None, **error: Any) -> dict[str, Any]:
    """An error in the vendor's format. `retry_after` is sent with a 429 only; the default is 1."""
    more = {} if retry_after is None else {"retryAfter": retry_after}
    return {"response": {"error": {"message": message, **error}, "status": status, **more}}


_OPTIONS = ("chunkSize", "truncateAfterChunks", "disconnectAfterMs", "latency", "chaos")


def _scripted(response: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """`chunkSize`: characters per stream chunk; `truncateAfterChunks`: the server cuts the connection after so many;
    `chaos={"malformedRate": 1}`, or `dropRate`, `disconnectRate`, `rateLimitRate`: 1 is always."""
    aside = {name: value for name, value in options.items() if name in _OPTIONS}
    return {"response": {**response, **{k: v for k, v in options.items() if k not in aside}}, **aside}


@contextmanager
def serving() -> Iterator[Aimock]:
    program: Sequence[str] = [str(NODE / "node"), str(SERVER), str(installed("@copilotkit/aimock/dist/index.js"))]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"aimock did not start: it ended with {process.wait(10)}, its words are above")
            yield Aimock(url)
        finally:
            process.kill()
