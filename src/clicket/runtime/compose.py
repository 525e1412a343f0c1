"""Builds a running engine from settings. Only this module names a concrete store or engine."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from clicket import system
from clicket.errors import StoreUnavailable, UsageError, did_you_mean
from clicket.model.ports import Clock, KeepsTime, Owner, Store, StoreClock, SystemClock
from clicket.runtime.settings import Settings
from clicket.stores.liveness import this_process

# The engine's parts are imported by `compose`: a command that only reads a store needs none of them.
if TYPE_CHECKING:
    from clicket.engine import Engine
    from clicket.engine.journal import Observers
    from clicket.engine.spend import BudgetReached
    from clicket.engine.stages import Policy
    from clicket.model.worker import WorkerRole
    from clicket.safety.credentials import CredentialOptions
    from clicket.safety.vault import Vault
    from clicket.stores.bus import Carrier
    from clicket.tools import Registry, Tool, ToolContext
    from clicket.tools.deps import Factory
    from clicket.tools.search.text_similarity import TextSimilarity

__all__ = ["compose", "credential_options", "open_and_wait", "open_carrier", "open_store", "owner_of", "wait_for_store"]

T = TypeVar("T")
logger = logging.getLogger("clicket.stores")
_CLOCK_EVERY = 5.0
"""Seconds between two comparisons of this machine's date and the store's."""
_WAIT_FIRST = 0.05
_WAIT_MOST = 1.0
_WINDOWS_PATH = re.compile(r"^(?:[a-z]+:/*)?[A-Za-z]:[/\\]|\\")
_SCHEMES = ("memory", "sqlite", "redis", "rediss", "postgresql")


def open_store(settings: Settings) -> Store:
    """The store behind a URL. `sqlite:///relative/path`, `sqlite:////absolute/path`, `redis://`, `postgresql://`,
    `memory://`."""
    url, durability = settings.store, settings.durability
    parts = urlsplit(url)
    if settings.notices != "store" and parts.scheme in ("memory", "sqlite"):
        raise UsageError(
            f"notices = {_shown(settings.notices)!r} needs a store behind a network; {parts.scheme} has no use for a bus. Leave the "
            "setting out, or set the store to redis://… or postgresql://…."
        )
    if parts.scheme == "memory":
        from clicket.stores.memory import MemoryStore

        return MemoryStore()
    if parts.scheme == "sqlite":
        _refuse_windows_path(url)
        if parts.netloc or len(parts.path) < 2 or not parts.path.startswith("/"):
            raise UsageError(
                f"{_shown(url)!r} names no file. Write sqlite:///relative/path.db or sqlite:////absolute/path.db."
            )
        from clicket.stores.sqlite import SqliteStore

        return SqliteStore(unquote(parts.path[1:]), durability=durability)
    if parts.scheme in ("redis", "rediss"):
        with _extra("redis"):
            from clicket.stores.redis import RedisStore
        carrier = open_carrier(settings)
        timeout = settings.store_timeout
        return RedisStore(
            url, durability=durability, timeout=timeout, retention=settings.retention.age, carrier=carrier
        )
    if parts.scheme in ("postgresql", "postgres"):
        with _extra("postgres"):
            from clicket.stores.postgres import PostgresStore
        return PostgresStore(url, durability=durability, timeout=settings.store_timeout, carrier=open_carrier(settings))
    _refuse_windows_path(url)
    if parts.scheme in ("http", "https"):
        raise UsageError(
            f"{_shown(url)!r} is not a store. To use a clicket server from Python, write clicket.client.Client({_shown(url)!r})."
        )
    near = did_you_mean(parts.scheme, _SCHEMES) if parts.scheme != "file" else " Write sqlite:///path.db for a file."
    raise UsageError(
        f"{_shown(url)!r}: there is no store of the kind {parts.scheme!r}.{near} Known: {', '.join(_SCHEMES)}."
    )


def open_carrier(settings: Settings) -> Carrier | None:
    """What carries messages of the bus between processes. None: the store does."""
    url = settings.notices
    if url == "store":
        return None
    scheme = urlsplit(url).scheme
    if scheme in ("nats", "tls"):
        with _extra("nats", "this bus"):
            from clicket.stores.bus.nats import NatsCarrier
        return NatsCarrier(url, timeout=settings.store_timeout)
    if scheme in ("redis", "rediss"):
        with _extra("redis", "this bus"):
            from clicket.stores.redis.carrier import redis_bus
        return redis_bus(url, timeout=settings.store_timeout)
    near = did_you_mean(scheme or url, ("store", "redis", "nats"))
    raise UsageError(
        f"notices = {_shown(url)!r} is not a carrier of the bus.{near} Write store, redis://host:6379 or nats://host:4222."
    )


def owner_of(settings: Settings) -> Owner:
    """This process, as a store knows it."""
    return this_process(settings.limits.lease)


def credential_options(settings: Settings) -> CredentialOptions:
    from clicket.safety.credentials import CredentialOptions

    return CredentialOptions(
        providers=settings.providers,
        public_url=settings.server.public_url,
        link_timeout=settings.credentials.link_timeout,
        wait_timeout=settings.credentials.wait_timeout,
    )


def _shown(url: str) -> str:
    """A URL for messages, without its password."""
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", url)


def _refuse_windows_path(url: str) -> None:
    """Elsewhere such a path would be the name of one file in the working directory."""
    if os.name != "nt" and _WINDOWS_PATH.search(unquote(url)):
        raise UsageError(
            f"{_shown(unquote(url))!r} is a path of Windows, and this system's paths have no drive letters and no backslashes. Write "
            "sqlite:///relative/path.db or sqlite:////absolute/path.db."
        )


@contextmanager
def _extra(name: str, what: str = "this store") -> Iterator[None]:
    """Stores and buses behind a network need a client that the core does not bring."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("clicket"):
            raise
        raise UsageError(
            f"{what} needs the package {missing.name!r}, which is not installed. "
            f"Install it with: pip install 'clicket[{name}]'."
        ) from None


async def wait_for_store(ask: Callable[[], Awaitable[T]], timeout: float) -> T:
    """Ask again while the store cannot be reached, as while its server is restarted; after `timeout` seconds its error is
    raised. What is waited for is logged once. Other errors are raised at once."""
    give_up = system.monotonic() + timeout
    delay = _WAIT_FIRST
    waiting = False
    while True:
        try:
            return await ask()
        except StoreUnavailable as error:
            if not error.transient or timeout == 0:
                raise
            if system.monotonic() + delay >= give_up:
                text = f"{error.message} clicket waited {timeout:g} s for it (setting open_timeout)."
                raise StoreUnavailable(text, transient=True, **error.details) from error
            if not waiting:
                logger.warning("waiting for the store, at most %g s (setting open_timeout): %s", timeout, error.message)
            waiting = True
        await asyncio.sleep(delay)
        delay = min(delay * 2, _WAIT_MOST)


async def open_and_wait(store: Store, owner: Owner, settings: Settings) -> None:
    """Open the store, and wait up to `open_timeout` for its server. Another kind of server at its address is not waited for."""

    looked = False

    async def ask() -> None:
        nonlocal looked
        try:
            await store.open(owner)
        except StoreUnavailable as error:
            if error.transient and not looked:
                looked = True
                from clicket.stores.foreign_server import refuse_foreign_server  # most stores open

                await refuse_foreign_server(settings.store, _shown(settings.store), settings.store_timeout)
            raise

    await wait_for_store(ask, settings.open_timeout)


async def compose(
    tools: Iterable[Any],
    settings: Settings,
    *,
    store: Store | None = None,
    policy: Policy | None = None,
    clock: Clock | None = None,
    chance: random.Random | None = None,
    observers: Observers | None = None,
    role: WorkerRole = "runtime",
    deps: Mapping[str, Factory] | None = None,
) -> Engine:
    """An engine over an open store, on the running loop."""
    from clicket.engine import Engine, Setup
    from clicket.engine.executors import check_ray
    from clicket.engine.journal import Observers
    from clicket.engine.spend.prices import PriceTable
    from clicket.engine.spend.raise_tool import SPEND_EVERY, RaiseBudget
    from clicket.engine.stages import Policy
    from clicket.safety.vault import Vault, guard_logs, hide_always
    from clicket.telemetry import tracing_for
    from clicket.telemetry.series import SAMPLE_EVERY, Sampler
    from clicket.tools import Registry

    registry = tools if isinstance(tools, Registry) else Registry(tools)
    if settings.engine != "workers" and any(tool.options.isolation == "ray" for tool in registry):
        check_ray(settings.ray)
    vault = Vault.of(settings.secret_key)
    guard_logs()
    hide_always(settings.secrets())
    store = store or open_store(settings)
    tracing = tracing_for(settings.telemetry.mode, content=settings.telemetry.content)
    observers = Observers() if observers is None else observers
    if tracing is not None:
        tracing.install(observers, registry)
    by_text = (
        _text_similarity(settings.tool_search.embedder) if settings.tool_search.ranking == "embeddings" else None
    )  # before anything is open: it may be missing
    owner = owner_of(settings)
    await open_and_wait(store, owner, settings)
    if clock is None:
        clock = SystemClock()
        if isinstance(store, KeepsTime):
            clock = StoreClock(clock, store.time)
            with suppress(StoreUnavailable):  # the chore looks again
                await clock.look()
    setup = Setup(
        owner=owner,
        role=role,
        labels=settings.labels,
        gives_away=settings.engine == "workers",
        ray=settings.ray,
        limits=settings.limits,
        retention=settings.retention,
        policy=policy or settings.policy or Policy(),
        cache=settings.cache,
        prices=PriceTable(settings.prices),
        budgets=settings.budgets,
        credentials=credential_options(settings),
        deps=deps or {},
    )
    chance = chance or system.random_generator()  # jitter, not secrets
    engine = Engine(registry, store, setup, clock=clock, chance=chance, vault=vault, observers=observers)
    if isinstance(clock, StoreClock):
        engine.background.every(_CLOCK_EVERY, "clock", clock.look)
    if engine.book.budgets:
        registry.add_inner(RaiseBudget(engine.book))
    _add_tool_search(engine, registry, by_text=by_text)
    engine.background.every(SPEND_EVERY, "spend", partial(engine.book.sweep, settings.retention.spend))
    sampler = Sampler(store, engine.clock.now, retention=settings.retention.series)
    engine.background.every(SAMPLE_EVERY, "series", sampler.sample)
    if settings.webhooks:
        await _add_webhooks(engine, settings, observers, vault)
    if tracing is not None:
        tracing.observe_queues(lambda: engine.queues.backlog, engine.clock.now)
    if tracing is not None and tracing.flush is not None:
        engine.closing.on_close.append(tracing.flush)
    return engine


def _text_similarity(name: str | None) -> TextSimilarity:
    from clicket.models.embedding.kinds import embedder_of
    from clicket.tools.search.text_similarity import TextSimilarity, cache_file

    if not name:
        raise UsageError("tool_ranking = 'embeddings' needs tool_embedder, such as 'fastembed:BAAI/bge-small-en-v1.5'.")
    try:
        embedder = embedder_of(name)
    except UsageError as error:
        raise UsageError(f"tool_embedder: {error}") from None
    return TextSimilarity(embedder, cache_file(embedder))


def _add_tool_search(engine: Engine, registry: Registry, *, by_text: TextSimilarity | None) -> None:
    """Lend `find_tools` when it is first named. Its index is made when it is called first. `by_text`: tools are encoded before."""
    from clicket.engine.executors import turn_log_of
    from clicket.engine.hub import ThreadHub
    from clicket.tools.search import FIND_TOOLS, FindTools

    async def offered_to(ctx: ToolContext) -> Sequence[Tool]:
        forbids = engine.pipeline.authorize.forbidding(ctx.thread, ctx.caller, turn_log_of(ctx).scopes)
        hub = ThreadHub(engine.hub, ctx.thread, ctx.caller, forbids=forbids)
        return await hub.offered(lately=True)

    def only_of(agent: str, caller: str, thread: str) -> frozenset[str] | None:
        tools_of = getattr(registry.get(f"agent:{agent}"), "tools_of", None)
        return None if tools_of is None else tools_of(caller, thread)

    if by_text is None:
        registry.lend_later(FIND_TOOLS, lambda: FindTools(registry, offered_to, only_of))
        return
    find_tools = FindTools(registry, offered_to, only_of, by_text=by_text)
    registry.lend_later(FIND_TOOLS, lambda: find_tools)
    engine.tasks.spawn(find_tools.prepare())


async def _add_webhooks(engine: Engine, settings: Settings, observers: Observers, vault: Vault) -> None:
    """Without webhooks in the settings nothing of this exists, and no call does more work."""
    from clicket.engine.fleet.worker_list import listed_workers
    from clicket.engine.recovery.chores import SWEEP_EVERY
    from clicket.telemetry.webhooks import Webhooks
    from clicket.telemetry.webhooks.service import FOLLOW_EVERY, LOOK_EVERY

    webhooks = Webhooks(
        engine.store,
        engine.clock,
        system.random_generator(),
        vault,
        settings.webhooks,
        me=engine.worker_entry.id,
        public_url=settings.server.public_url,
        link_timeout=settings.server.approval_link_timeout,
        retention=settings.retention.notices,
        workers=lambda: listed_workers(engine.store),
        spawn=engine.tasks.spawn,
    )
    try:
        await wait_for_store(webhooks.start, settings.open_timeout)
    except BaseException:
        await engine.close(patience=0)
        raise
    engine.webhooks, engine.hub.recorder = webhooks, webhooks
    remove = observers.add(webhooks.on_events)
    engine.sweeps.before_removal.append(webhooks.follower.on_remove)
    engine.background.every(LOOK_EVERY, "webhooks", webhooks.delivery.look)
    engine.background.every(FOLLOW_EVERY, "notices in the journal", webhooks.follow)
    engine.background.every(SWEEP_EVERY, "old notices", webhooks.sweep)

    if not webhooks.outbox.wanted.isdisjoint(("alert.raised", "alert.cleared")):
        from clicket.telemetry.alerts import LOOK_EVERY as ALERTS_EVERY
        from clicket.telemetry.alerts import Alerts

        alerts = Alerts(engine.store, engine.clock.now, webhooks.outbox.emit, lambda: engine.book.reader.budgets(None))
        engine.background.every(ALERTS_EVERY, "alerts", alerts.look)

    async def budget_reached(reached: BudgetReached) -> None:
        await webhooks.outbox.emit("budget.reached", msgspec.to_builtins(reached), key=[reached.id], at=reached.at)

    engine.book.notices.listeners.append(budget_reached)

    async def close() -> None:
        remove()
        await webhooks.close()

    engine.closing.on_close.append(close)
