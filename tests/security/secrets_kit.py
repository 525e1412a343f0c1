"""A tool that leaks its secrets in every way, and a search of every stored byte for them."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import time
from collections.abc import Iterable
from hashlib import sha3_256, sha256
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from clicket import NativeTool, RetryableError, ToolContext, tool

logger = logging.getLogger("clicket.tests")
FILLER = secrets.token_hex(600_000)  # no store can compress it, so its neighbours stay readable


class Canary:
    """Two secrets of one test, and a name that is not a secret: a search that misses the name is faulty."""

    def __init__(self) -> None:
        self.password = f'canary {secrets.token_hex(8)}/ü"{secrets.token_hex(4)}'
        self.token = f"sk-ant-api03-{secrets.token_urlsafe(30)}9"
        self.name = f"name-{secrets.token_hex(8)}"

    def arguments(self, how: str = "return", **more: Any) -> dict[str, Any]:
        return {
            "how": how,
            "name": self.name,
            "password": self.password,
            "header": f"x: {self.token}; y",
            "card": {"number": 4_111_000_000_000_000 + int(self.name[5:9], 16)},
            **more,
        }

    def traces(self) -> list[str]:
        """What must not be found: the secrets, whole and in parts, and hashes of them."""
        number = str(self.arguments()["card"]["number"])
        plain = [self.password, self.password[:14], self.password[-9:], self.token, self.token[13:30], number]
        coded = [base64.b64encode(each.encode()).decode()[:-4] for each in (self.password, self.token)]
        hashed = [sha256(each.encode()).hexdigest() for each in (self.password, self.token)]
        return [*plain, *coded, *hashed]


def found_in(canary: Canary, data: bytes) -> list[str]:
    """Each trace with its surroundings."""
    found = [(trace, data.find(trace.encode())) for trace in canary.traces()]
    return [f"{trace} in {data[max(at - 120, 0) : at + 120]!r}" for trace, at in found if at >= 0]


def assert_clean(canary: Canary, *seen: Any) -> None:
    """Results, records and log lines contain nothing of the secrets."""
    for each in seen:
        data = each.encode() if isinstance(each, str) else msgspec.json.encode(each)
        assert found_in(canary, data) == []


def assert_folder_clean(canary: Canary, *folders: Path) -> None:
    """No file contains anything of the secrets. The search works: it finds the name."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    contents = {path: path.read_bytes() for path in files}
    assert any(canary.name.encode() in content for content in contents.values()), "the search does not find the name"
    for path, content in contents.items():
        assert found_in(canary, content) == [], path


async def careless(  # noqa: C901  # one line for each way
    how: str, name: str, password: str, header: str, card: dict[str, int], ctx: ToolContext
) -> Any:
    both = f"{password} and {header}"
    if how == "stream":
        for piece in (both[:7], both[7:30], *both[30:90], both[90:]):
            ctx.emit(piece)
        ctx.emit({"password": "another one", "said": both, "number": card["number"]})
        return {"name": name}
    if how == "spool":
        for _ in range(3):
            ctx.emit(FILLER[:500_000])
            for piece in (both[:9], both[9:40], both[40:]):
                ctx.emit(piece)
        return {"name": name}
    if how == "report":
        ctx.progress(1, 2, f"at {both}")
        ctx.note(f"saw {both}", password="another one", deep=[{"x": both}])
        logger.warning("the tool says %s", both)
        return both
    if how == "big":
        return {"name": name, "filler": FILLER, "said": both, both: 1, "password": "another one"}
    if how == "raise":
        raise ValueError(f"{name}: no good: {both} {password!r} {card}")
    if how == "long":
        raise ValueError("x" * (4_000 - len(password) // 2) + password)
    if how == "retry" and ctx.attempt == 1:
        raise RetryableError(f"later: {both}")
    if how == "hang":
        await asyncio.sleep(60)
    if how == "late":
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return {"late": both}
    if how == "group":
        try:
            raise ValueError(both)
        except ValueError as error:
            raise KeyError(both) from error
    return {"name": name, "said": both, "password": "another one", "card": dict(card), both: [both]}


@tool(sensitive=["password", "/card/number"], retry_delay=0.001, failure_threshold=1_000)
async def echo(
    how: str, name: str, password: str, header: str, ctx: ToolContext, card: dict[str, int] | None = None
) -> Any:
    return await careless(how, name, password, header, card or {"number": 0}, ctx)


@tool(sensitive=["password", "/card/number"], failure_threshold=1_000)
def threaded(
    how: str, name: str, password: str, header: str, ctx: ToolContext, card: dict[str, int] | None = None
) -> Any:
    if how == "slow":
        while not ctx.cancelled:
            time.sleep(0.005)
        return password
    return asyncio.run(careless(how, name, password, header, card or {"number": 0}, ctx))


@tool(sensitive=["password", "/card/number"], isolation="process", failure_threshold=1_000)
def apart(how: str, name: str, password: str, header: str, ctx: ToolContext, card: dict[str, int] | None = None) -> Any:
    return asyncio.run(careless(how, name, password, header, card or {"number": 0}, ctx))


class Session(NativeTool, sensitive=["password", "/card/number"], failure_threshold=1_000):
    """Keeps the secret in its state."""

    input_schema: ClassVar = {
        "type": "object",
        "properties": {
            **{key: {"type": "string"} for key in ("how", "name", "password", "header")},
            "card": {"type": "object"},
        },
    }

    async def run(self, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        self.kept = arguments["password"]
        return await careless(**arguments, ctx=ctx)


@tool(cache=300)
async def plain(name: str, header: str) -> str:
    """Declares no secret; only the shape of a token is recognizable."""
    return f"{name}: {header}"


@tool(cache=300)
async def gives(name: str, token: str) -> str:
    return f"{name}: {token[::-1]}"


@tool(cache=300)
async def measure(text: str) -> int:
    return len(text)


@tool(sensitive="password")
async def pay(name: str, password: str, amount: int, folder: str, header: str = "") -> int:
    """Writes the password's hash to a file."""
    Path(folder, f"{name}.got").write_text(f"{sha3_256(password.encode()).hexdigest()} {amount}\n")
    return amount


def got(folder: Path, name: str) -> str | None:
    path = folder / f"{name}.got"
    return path.read_text().strip() if path.exists() else None


def hash_of(canary: Canary, amount: int) -> str:
    return f"{sha3_256(canary.password.encode()).hexdigest()} {amount}"


TOOLS: Iterable[Any] = (echo, threaded, apart, Session, plain, gives, measure, pay)
WAYS = ("return", "stream", "spool", "report", "big", "raise", "long", "retry", "group")
