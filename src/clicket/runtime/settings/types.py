"""Settings as keywords, for editors and checkers; what each means is said where it is read (`Settings`, `clicket.model.config`)."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from clicket.model.config import CacheScope, TelemetryMode, ToolRanking

__all__ = ["Durability", "Engine", "RuntimeOptions", "SettingsOptions"]

Durability = Literal["process", "power"]
Engine = Literal["local", "workers"]


class RuntimeOptions(TypedDict, total=False):
    """The settings that are keywords of a `Runtime` as well, beside its own."""

    labels: tuple[str, ...]
    max_concurrency: int
    max_thread_concurrency: int | None
    max_queue: int
    queue_timeout: float | None
    worker_threads: int
    tool_processes: int
    tool_process_memory: int | None
    cancel_grace: float
    close_timeout: float
    open_timeout: float
    lease: float
    max_arguments_size: int
    max_claims: int
    retention: float | None
    outcome_retention: float
    undo_for: float
    retention_calls: int | None
    retention_bytes: int | None
    thread_retention_calls: int | None
    thread_retention_bytes: int | None
    ray: str | None
    cache_scope: CacheScope
    cache_max_bytes: int
    cache_ttl: dict[str, float]
    store_timeout: float
    notices: str
    mcp: dict[str, Any]
    interpreter: dict[str, Any]
    search: dict[str, Any]
    agents: dict[str, Any]
    default_agent: str | None
    tool_ranking: ToolRanking
    tool_embedder: str | None
    health_retention: float
    memory_retention: float
    series_retention: float
    prices: list[dict[str, Any]]
    budgets: list[dict[str, Any]]
    spend_retention: float
    webhooks: tuple[dict[str, Any], ...]
    notice_retention: float
    public_url: str | None
    approval_link_timeout: float
    providers: tuple[dict[str, Any], ...]
    credential_timeout: float | None
    credential_link_timeout: float
    telemetry: TelemetryMode
    telemetry_content: bool
    secret_key: str | None
    api_keys: tuple[str, ...]
    oauth: dict[str, Any]
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]


class SettingsOptions(RuntimeOptions, total=False):
    """All settings by their keys."""

    store: str
    durability: Durability
    engine: Engine
    tools: tuple[str, ...]
    deps: dict[str, str]
    cache: bool
    policy: dict[str, Any]
