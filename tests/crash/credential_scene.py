"""Processes to be killed at each write of a connection by link, and of a refresh. The authorization server is a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, tool
from clicket.ports import SystemClock
from clicket.runtime.compose import credential_options, open_store, owner_of
from clicket.safety.credentials import CredentialBook
from clicket.safety.vault import Vault

__all__ = [
    "CALL",
    "KEY",
    "PUBLIC",
    "Later",
    "Scene",
    "answer_to",
    "book_over",
    "connect",
    "refresh",
    "runtime_of",
    "whose",
]

CALL, KEY, PUBLIC = "c", "the key of the kills of credentials", "http://127.0.0.1:9"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Die before or after write number `nth` of a document about credentials (0: never)."""

    place: Place
    provider: dict[str, Any]
    nth: int = 0
    side: str = "before"

    def arm(self, store: Any) -> None:
        write, left = store.put_document, self.nth

        async def put_document(kind: str, key: str, body: bytes, expect: int | None) -> bool:
            nonlocal left
            left -= kind.startswith("credential")
            fatal = left == 0 and kind.startswith("credential")
            if fatal and self.side == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            done: bool = await write(kind, key, body, expect)
            if fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        store.put_document = put_document


class Later(SystemClock):
    """A minute later: claims of the dead have run out."""

    def __init__(self) -> None:
        super().__init__()
        self.now = lambda: time.time() + 60.0


@tool(credentials=["bank"], read_only=True)
async def whose(ctx: ToolContext) -> str:
    return ctx.credential("bank")[:7]


def runtime_of(scene: Scene) -> Runtime:
    settings = scene.place.settings(secret_key=KEY, public_url=PUBLIC, providers=(scene.provider,), telemetry="off")
    return Runtime([whose], settings=settings)


def answer_to(url: str) -> dict[str, str]:
    """Go to the authorization server as a browser does; its answer, as the query of the callback."""
    sent = httpx2.get(url, follow_redirects=False)
    assert sent.status_code == 302, sent.text
    return {name: values[0] for name, values in parse_qs(urlsplit(sent.headers["location"]).query).items()}


def connect(given: dict[str, Any]) -> None:
    """In a child: a call waits, its account is connected by a link, and the call ends."""
    asyncio.run(_connect(msgspec.convert(given, Scene)))


async def _connect(scene: Scene) -> None:
    folder = Path(scene.place.folder)
    async with runtime_of(scene) as rt:
        handle = await rt.submit("whose", id=CALL)
        while (await rt.get(CALL)).waiting_for != "credential":
            await asyncio.sleep(0.002)
        connecting = rt.engine.connecting
        scene.arm(rt.store)
        started = await connecting.start((await rt.credentials.link("bank")).url.rpartition("/")[2])
        query = answer_to(started.url)
        append_line(folder / "callback", [query, {started.cookie_name: started.cookie}])
        await connecting.finish(query, {started.cookie_name: started.cookie})
        append_line(folder / "connected", True)
        await handle.result()


async def book_over(scene: Scene, *, later: bool = False) -> tuple[CredentialBook, Any, list[str]]:
    """A book without a runtime; its store, to close; and what it wrote into the audit log."""
    settings = scene.place.settings(secret_key=KEY, public_url=PUBLIC, providers=(scene.provider,))
    store, audited = open_store(settings), list[str]()
    await store.open(owner_of(settings))

    async def audit(who: str, what: str, **details: Any) -> None:
        audited.append(what)

    tasks: set[asyncio.Task[None]] = set()

    def spawn(work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    clock = Later() if later else SystemClock()
    return (
        CredentialBook(store, Vault([KEY]), clock, credential_options(settings), audit=audit, spawn=spawn),
        store,
        audited,
    )


def refresh(given: dict[str, Any]) -> None:
    """In a child: a token that has ended is refreshed."""
    asyncio.run(_refresh(msgspec.convert(given, Scene)))


async def _refresh(scene: Scene) -> None:
    book, store, _ = await book_over(scene)
    scene.arm(store)
    held = await book.token("ann", "bank")
    append_line(Path(scene.place.folder, "refreshed"), held.token)
    await book.close()
    await store.close()
