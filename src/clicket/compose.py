"""Builds a running engine from settings. Only this module names a concrete store or engine."""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from clicket.errors import StoreUnavailable, UsageError, did_you_mean
from clicket.ports import Clock, Owner, Store, SystemClock
from clicket.settings import Settings
from clicket.stores.liveness import this_process

# The engine's parts are imported by `compose`: a command that only reads a store needs none of them.
if TYPE_CHECKING:
    from clicket.engine import Engine
    from clicket.journal import Observers
    from clicket.pipeline import Policy

__all__ = ["compose", "open_store", "owner_of", "wait_for_store"]

T = TypeVar("T")
logger = logging.getLogger("clicket.stores")
_WAIT_FIRST = 0.05
_WAIT_MOST = 1.0
_SCHEMES = ("memory", "sqlite", "redis", "rediss", "postgresql")


def open_store(settings: Settings) -> Store:
    """The store behind a URL. `sqlite:///relative/path`, `sqlite:////absolute/path`, `redis://`, `postgresql://`,
    `memory://`."""
    url, durability = settings.store, settings.durability
    parts = urlsplit(url)
    if parts.scheme == "memory":
        from clicket.stores.memory import MemoryStore

        return MemoryStore()
    if parts.scheme == "sqlite":
        if parts.netloc or len(parts.path) < 2 or not parts.path.startswith("/"):
            raise UsageError(
                f"{_shown(url)!r} names no file. Write sqlite:///relative/path.db or sqlite:////absolute/path.db."
            )
        from clicket.stores.sqlite import SqliteStore

        return SqliteStore(unquote(parts.path[1:]), durability=durability)
    if parts.scheme in ("redis", "rediss"):
        with _extra("redis"):
            from clicket.stores.redis import RedisStore
        return RedisStore(url, durability=durability, timeout=settings.store_timeout, retention=settings.retention)
    if parts.scheme in ("postgresql", "postgres"):
        with _extra("postgres"):
            from clicket.stores.postgres import PostgresStore
        return PostgresStore(url, durability=durability, timeout=settings.store_timeout)
    near = did_you_mean(parts.scheme, _SCHEMES)
    raise UsageError(
        f"{_shown(url)!r}: there is no store of the kind {parts.scheme!r}.{near} Known: {', '.join(_SCHEMES)}."
    )


def owner_of(settings: Settings) -> Owner:
    """This process, as a store knows it."""
    return this_process(settings.lease)


def _shown(url: str) -> str:
    """A URL for messages, without its password."""
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", url)


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Stores behind a network need a client that the core does not bring."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("clicket"):
            raise
        raise UsageError(
            f"this store needs the package {missing.name!r}, which is not installed. "
            f"Install it with: pip install 'clicket[{name}]'."
        ) from None


async def wait_for_store(ask: Callable[[], Awaitable[T]], timeout: float) -> T:
    """Ask again while the store cannot be reached, as while its server is restarted; after `timeout` seconds its error is
    raised. What is waited for is logged once. Other errors are raised at once."""
    give_up, delay = monotonic() + timeout, _WAIT_FIRST
    waiting = False
    while True:
        try:
            return await ask()
        except StoreUnavailable as error:
            if not error.transient or timeout == 0:
                raise
            if monotonic() + delay >= give_up:
                text = f"{error.message} clicket waited {timeout:g} s for it (setting open_timeout)."
                raise StoreUnavailable(text, transient=True, **error.details) from error
            if not waiting:
                logger.warning("waiting for the store, at most %g s (setting open_timeout): %s", timeout, error.message)
            waiting = True
        await asyncio.sleep(delay)
        delay = min(delay * 2, _WAIT_MOST)


async def compose(
    tools: Iterable[Any],
    settings: Settings,
    *,
    store: Store | None = None,
    policy: Policy | None = None,
    clock: Clock | None = None,
    chance: random.Random | None = None,
    observers: Observers | None = None,
) -> Engine:
    """An engine over an open store, on the running loop."""
    from clicket.engine import Engine
    from clicket.hub import Webhook
    from clicket.journal import Observers
    from clicket.telemetry import tracing_for
    from clicket.telemetry.series import SAMPLE_EVERY, Sampler
    from clicket.tools import Registry
    from clicket.vault import Vault, guard_logs, hide_always

    registry = tools if isinstance(tools, Registry) else Registry(tools)
    vault = Vault.of(settings.secret_key)
    guard_logs()
    hide_always(settings.secrets())
    store = store or open_store(settings)
    tracing = tracing_for(settings.telemetry, content=settings.telemetry_content)
    observers = Observers() if observers is None else observers
    if tracing is not None:
        tracing.install(observers, registry)
    opened = store
    await wait_for_store(lambda: opened.open(owner_of(settings)), settings.open_timeout)
    engine = Engine(
        registry,
        store,
        policy or settings.declared_policy(),
        settings.limits(),
        settings.caching(),
        clock or SystemClock(),
        chance or random.Random(),  # jitter, not secrets
        gives_away=settings.engine == "workers",
        vault=vault,
        observers=observers,
    )
    sampler = Sampler(store, engine.clock.now, retention=settings.series_retention)
    engine.background.every(SAMPLE_EVERY, "series", sampler.sample)
    if settings.hub_webhook is not None:
        webhook = Webhook(settings.hub_webhook, settings.hub_webhook_secret, engine.clock, engine.tasks.spawn)
        engine.hub.listeners.append(webhook)
        engine.closing.on_close.append(webhook.close)
    if tracing is not None and tracing.flush is not None:
        engine.closing.on_close.append(tracing.flush)
    return engine
