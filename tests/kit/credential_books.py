"""Books of credentials without a runtime, over a store of the test's own, with an authorization server that is a few lines of Python."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs

from clicket.ports import Clock, Store
from clicket.safety.credentials import Connecting, CredentialBook, CredentialOptions, Provider
from clicket.safety.credentials.oauth_http import OAuthHttp, ProviderRefused, ProviderUnreachable
from clicket.safety.vault import Vault
from clicket.stores.memory import MemoryStore
from clicket.testing import StepClock
from clicket.testing.store_kit import ALIVE

__all__ = ["BANK", "KEY", "Books", "FakeServer", "memory"]

AnyStore = TypeVar("AnyStore", bound=MemoryStore)
KEY = "the key of all tests of credentials"
BANK = Provider(
    name="bank", kind="oauth", authorize_url="https://bank.example/authorize", token_url="https://bank.example/token",
    client_id="me", scopes=("read",),
)  # fmt: skip


async def memory(kind: type[AnyStore] = MemoryStore) -> AnyStore:  # type: ignore[assignment]  # the default is the usual one
    """An open store in memory."""
    store = kind()
    await store.open(ALIVE)
    return store


class FakeServer(OAuthHttp):
    """Gives tokens `a1`, `a2`, …; a refresh token works once, as with strict servers. `gate`: answers wait for it."""

    def __init__(self, *, lifetime: float | None = 100.0) -> None:
        super().__init__()
        self.lifetime = lifetime
        self.forms: list[dict[str, str]] = []
        self.documents: dict[str, dict[str, Any]] = {}
        self.challenges: dict[str, str] = {}
        self.valid: set[str] = set()
        self.replays = 0
        self.down = False
        self.refuses = ""
        self.gate: asyncio.Event | None = None
        self._number = 0

    def next_tokens(self) -> dict[str, Any]:
        self._number += 1
        refresh = f"refresh-{self._number}"
        self.valid.add(refresh)
        lasts = {} if self.lifetime is None else {"expires_in": self.lifetime}
        return {"access_token": f"access-{self._number}", "token_type": "Bearer", "refresh_token": refresh, **lasts}

    async def get(self, provider: Provider, url: str) -> dict[str, Any] | None:
        return self.documents.get(url)

    async def challenge(self, provider: Provider, url: str) -> str:
        return self.challenges.get(url, "")

    async def post(
        self, provider: Provider, url: str, content: bytes, headers: Mapping[str, str], *, what: str
    ) -> dict[str, Any]:
        form = {name: values[0] for name, values in parse_qs(content.decode()).items()}
        self.forms.append({**form, "url": url})
        if self.down:
            raise ProviderUnreachable("it is down.")
        if form.get("grant_type") == "refresh_token":
            if form["refresh_token"] not in self.valid:
                self.replays += 1
                raise ProviderRefused("used twice", error="invalid_grant")
            self.valid.discard(form["refresh_token"])
        made = self.next_tokens()
        if self.gate is not None:
            await self.gate.wait()
        if self.refuses:
            raise ProviderRefused("no", error=self.refuses)
        return made


class Books:
    """Makes books that share a clock, an audit log and an authorization server."""

    def __init__(self, server: FakeServer | None = None, clock: Clock | None = None) -> None:
        self.server = server or FakeServer()
        self.clock = StepClock() if clock is None else clock
        self.audited: list[tuple[str, str, dict[str, Any]]] = []
        self.tasks: set[asyncio.Task[None]] = set()

    def over(
        self, store: Store, *, key: str = KEY, providers: tuple[Provider, ...] = (BANK,), **options: Any
    ) -> CredentialBook:
        chosen = CredentialOptions(providers=providers, public_url="https://clicket.example/base/", **options)
        vault = Vault([key]) if key else Vault()
        return CredentialBook(store, vault, self.clock, chosen, audit=self._audit, spawn=self._spawn, http=self.server)

    def connecting(self, book: CredentialBook, store: Store) -> Connecting:
        return Connecting(book, store, self.clock)

    async def _audit(self, who: str, what: str, **details: Any) -> None:
        self.audited.append((who, what, details))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def what(self) -> list[str]:
        return [what for _, what, _ in self.audited]
