"""One frozen `Settings`: arguments win over the environment, the environment over `clicket.toml`, that over the defaults.

The origin of every value is recorded, and `clicket config` shows it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin
from urllib.parse import quote, urlsplit

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.runtime.settings.types import CacheScope, Durability, Engine, RuntimeOptions, Telemetry, ToolRanking

# The rest is imported where it is used: every command reads settings, and few need a policy or an engine.
if TYPE_CHECKING:
    from clicket.engine import CacheOptions, Limits
    from clicket.engine.spend import Budget, PriceTable
    from clicket.engine.stages import Policy
    from clicket.safety.credentials import CredentialOptions
    from clicket.safety.oauth.config import OAuthConfig

__all__ = ["FILE_NAME", "HIDDEN", "SECRET_NAMES", "RuntimeOptions", "Settings"]

FILE_NAME = "clicket.toml"
_PREFIX = "CLICKET_"
_OAUTH_PREFIX = "CLICKET_OAUTH_"
SECRET_NAMES = ("secret_key", "api_keys", "mcp", "search", "webhooks", "providers")
"""Settings that are never shown."""

HIDDEN = "(hidden)"
_STORE_KINDS = {
    "memory": "memory://",
    "sqlite": "sqlite:///path.db",
    "redis": "redis://host:6379/0",
    "postgresql": "postgresql://user@host/database",
    "postgres": "postgresql://user@host/database",
}
_SHORT_RETENTION, _LONG_RETENTION = 24 * 3600.0, 30 * 24 * 3600.0
_RETENTION_BYTES = 2 * 1024 * 1024 * 1024
_ZERO_IS_FINE = ("close_timeout", "open_timeout", "outcome_retention", "retention_bytes")
_LISTS = ("tools", "labels", "api_keys", "allowed_hosts", "allowed_origins")
"""Lists of names; text has commas between them."""
_TABLES = (
    "policy",
    "mcp",
    "interpreter",
    "search",
    "agents",
    "oauth",
    "webhooks",
    "providers",
    "prices",
    "budgets",
    "deps",
)
"""Tables of the file; JSON in the environment."""

_CHOICES = (
    ("durability", Durability),
    ("engine", Engine),
    ("cache_scope", CacheScope),
    ("telemetry", Telemetry),
    ("tool_ranking", ToolRanking),
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a runtime. `Settings()` is the defaults; `Settings.load()` reads the file and the environment."""

    store: str = "sqlite:///.clicket/clicket.db"
    """A URL, or the path of a SQLite file."""
    durability: Durability = "process"
    tools: tuple[str, ...] = ()
    deps: dict[str, str] = {}
    """Factories of the deps that commands give to tools, by name: `db = "shop:connect"` under `[deps]` of `clicket.toml`, or JSON in
    `CLICKET_DEPS`."""
    labels: tuple[str, ...] = ()
    """Labels of this worker: it also takes calls of tools that need them."""
    max_concurrency: int = 10
    max_thread_concurrency: int | None = None
    max_queue: int = 50_000
    queue_timeout: float | None = 3600.0
    worker_threads: int = 4
    worker_processes: int = 4
    worker_memory: int | None = None
    cancel_grace: float = 2.0
    close_timeout: float = 10.0
    lease: float = 10.0
    max_arguments_size: int = 1024 * 1024
    max_claims: int = 5
    retention: float | None = None
    """Seconds from its end for which a call is kept; None: 30 days on SQLite and PostgreSQL, 24 hours on Redis and in memory."""
    outcome_retention: float = 30 * 24 * 3600.0
    """Seconds from its end for which the id and the outcome of a call are kept, if its caller gave the id. 0: not at all."""
    retention_calls: int | None = None
    retention_bytes: int | None = None
    """Bytes of events and artifacts of ended calls, the oldest of which go first; None: 2 GiB on SQLite and PostgreSQL, no bound on
    Redis and in memory. 0: no bound."""
    thread_retention_calls: int | None = None
    thread_retention_bytes: int | None = None
    engine: Engine = "local"
    ray: str | None = None
    """The Ray cluster for tools with `isolation="ray"`: `ray://HOST:10001`, `HOST:6379`, or `auto` for the one of this machine."""
    cache: bool = True
    cache_scope: CacheScope = "caller"
    cache_max_bytes: int = 64 * 1024 * 1024
    cache_ttl: dict[str, float] = {}
    store_timeout: float = 5.0
    notices: str = "store"
    """What carries notices between processes: `store` (the store itself), `redis://…` or `nats://…`. They save time, and decide nothing."""
    open_timeout: float = 10.0
    """Seconds that opening a runtime waits for a store that cannot be reached; 0: not at all."""
    policy: dict[str, Any] = {}
    """As `[policy]` and `[[policy.rules]]` of `clicket.toml`, or JSON in `CLICKET_POLICY`."""
    mcp: dict[str, Any] = {}
    """Other MCP servers whose tools are used here: `[mcp.servers.NAME]` of `clicket.toml`, or JSON in `CLICKET_MCP`."""
    interpreter: dict[str, Any] = {}
    """Options of the tool `code_interpreter`, which commands then offer: `[interpreter]` of `clicket.toml`, or JSON in
    `CLICKET_INTERPRETER`."""
    search: dict[str, Any] = {}
    """Options of the tool `deep_search`, which commands then offer: `[search]` of `clicket.toml`, or JSON in `CLICKET_SEARCH`."""
    agents: dict[str, Any] = {}
    """Agents that the server and `clicket chat` offer: `[agents.NAME]` of `clicket.toml`, or JSON in `CLICKET_AGENTS`. Each has a
    `model` (`"openai:NAME"`, `"anthropic:NAME"`, `"pydantic-ai:VENDOR:NAME"`, a table, or `"script:FILE"` for one that plays answers from a
    file), and may have `kind` ("react" or "plan"), `system`, `tools`, the bounds of one run (`max_steps`, `max_calls`, `max_tokens`,
    `max_cost`, `max_seconds`, `max_repeats`), `window` (tokens of one request), `output` (the JSON Schema of its answers, or its file)
    and `checks`."""
    default_agent: str | None = None
    """The agent for requests that name none; else the only one, else the one named "default"."""
    tool_ranking: ToolRanking = "words"
    """How `find_tools` ranks: `words` needs nothing, `embeddings` also compares whole texts by the vectors of `tool_embedder`."""
    tool_embedder: str | None = None
    """An embedder by its name: `fastembed:MODEL`, `sentence-transformers:MODEL`, `onnx:FOLDER`, `openai:MODEL` or `openai:MODEL@URL`."""
    health_retention: float = 7 * 24 * 3600.0
    """Seconds after their last change until a thread's tool states are removed."""
    memory_retention: float = 30 * 24 * 3600.0
    """Seconds after its last turn until an agent's thread is removed."""
    series_retention: float = 30 * 24 * 3600.0
    """Seconds for which time series (`Runtime.series`) are kept."""
    prices: list[dict[str, Any]] = []
    """Prices of models in US dollars for a million tokens: `[[prices]]` of `clicket.toml`, or a JSON list in `CLICKET_PRICES`. Each has
    `model`, `input`, `output`, and may have `cached` and `max_output`. They win over clicket's own table."""
    budgets: list[dict[str, Any]] = []
    """Limits of what agents and tools spend: `[[budgets]]` of `clicket.toml`, or a JSON list in `CLICKET_BUDGETS`. Each has a `scope`,
    `limit_usd` or `limit_tokens`, a `period`, and `on_reached`."""
    spend_retention: float = 400 * 24 * 3600.0
    """Seconds for which the entries of the ledger are kept."""
    webhooks: tuple[dict[str, Any], ...] = ()
    """Endpoints that get notices: `[[webhooks]]` of `clicket.toml`, or a JSON list in `CLICKET_WEBHOOKS`. Each has `url`, `secret`
    (`whsec_…`, or a list of them) and `events`, and may have `name`, `include`, `link`, `allow_private`, `timeout` and `retry`."""
    notice_retention: float = 7 * 24 * 3600.0
    """Seconds for which notices that were delivered or given up are kept."""
    public_url: str | None = None
    """Where the server is reached from outside. Notices of approvals then carry a link to the approver page. Needs `secret_key`."""
    approval_link_timeout: float = 24 * 3600.0
    """Seconds for which an approval link works."""
    providers: tuple[dict[str, Any], ...] = ()
    """Services for which callers have credentials: `[[providers]]` of `clicket.toml`, or a JSON list in `CLICKET_PROVIDERS`. Each has a
    `name` and a `kind` (`"token"` or `"oauth"`); see the guide for the rest. A provider that is not listed takes tokens that are put."""
    credential_timeout: float | None = 24 * 3600.0
    """Seconds for which a call waits for a credential of its caller."""
    credential_link_timeout: float = 600.0
    """Seconds for which a link to connect an account works."""
    telemetry: Telemetry = "auto"
    """`otel` traces calls with OpenTelemetry, `off` does not, `auto` does when OTEL_* variables name an exporter."""
    telemetry_content: bool = False
    """Whether spans have arguments and results, masked as in the journal."""
    secret_key: str | None = None
    """Keys for secrets at rest, separated by commas: the first seals, all unseal."""
    api_keys: tuple[str, ...] = ()
    """Keys of the server that are not in the store: `name:read+call:secret`, or a bare secret with every scope."""
    oauth: dict[str, Any] = {}
    """The authorization server whose access tokens the server accepts beside its keys: `[oauth]` of `clicket.toml`, JSON in
    `CLICKET_OAUTH`, or `CLICKET_OAUTH_ISSUER`, `CLICKET_OAUTH_AUDIENCE` and so on."""
    allowed_hosts: tuple[str, ...] = ()
    """Further host names of the server."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may use the server."""
    origins: dict[str, str] = {}
    """Where each value that is not a default came from; filled by `load`."""

    def __repr__(self) -> str:
        """Without secrets: a traceback or a debugger may print this."""
        from clicket.safety.vault import hide, hide_text

        shown = {name: value for name, value in msgspec.structs.asdict(self).items() if name != "origins"}
        shown.update({name: HIDDEN for name in SECRET_NAMES if shown.get(name)})
        shown["store"], shown["notices"] = self.shown_store, hide_text(self.notices)
        shown["agents"], shown["oauth"] = hide(self.agents), self.shown_oauth
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __reduce__(self) -> Any:
        """Pickle without the secrets, and without what needs them: the pickle may be stored."""
        left_out = (*SECRET_NAMES, "public_url", "oauth")
        values = {name: getattr(self, name) for name in self.__struct_fields__ if name not in left_out}
        return _rebuilt, (values,)

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "store", _store_url(self.store))
        for name, value in msgspec.structs.asdict(self).items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if is_number and (not isfinite(value) or value < 0 or (value == 0 and name not in _ZERO_IS_FINE)):
                raise UsageError(f"setting {name} must be a number above 0, not {value!r}.")
        for name, kind in _CHOICES:
            if getattr(self, name) not in get_args(kind):
                known = " or ".join(map(repr, get_args(kind)))
                raise UsageError(f"{name} must be {known}, not {getattr(self, name)!r}.")
        if self.webhooks:
            from clicket.telemetry.webhooks.config import endpoints_of

            endpoints_of(self.webhooks, self.origins.get("webhooks", "Settings"))
        if self.providers:
            self.credentials()
        if self.public_url is not None:
            _check_public_url(self.public_url)
            if not self.secret_key:
                raise UsageError(
                    "public_url needs secret_key: links to the server's pages are signed with a key from it."
                )
        self.declared_oauth()
        if self.policy:
            from clicket.engine.stages import declared_policy

            declared_policy(self.policy, self.origins.get("policy", "Settings"))
        if self.prices or self.budgets:
            self.price_table()
            self.declared_budgets()
        for tool, seconds in self.cache_ttl.items():
            if not isfinite(seconds) or seconds <= 0:
                raise UsageError(f"cache_ttl of {tool!r} must be a number of seconds above 0, not {seconds!r}.")

    @classmethod
    def of_runtime(cls, given: Mapping[str, Any], settings: Settings | None, options: Mapping[str, Any]) -> Settings:
        """The settings of a `Runtime` with these keywords; `options` are those beside its own."""
        own = ("tools", *(name for name in NAMES if name not in RuntimeOptions.__annotations__), "settings")
        for name in options:
            if name not in RuntimeOptions.__annotations__:
                known = tuple(dict.fromkeys((*own, *RuntimeOptions.__annotations__)))
                raise UsageError(
                    f"Runtime has no keyword {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}."
                )
        # To `load`, None means that nothing is given; here it is a value, where a setting has it.
        optional = {name for name in options if type(None) in get_args(_TYPES[name])}
        given = {
            **given,
            **{name: "" if name in optional and options[name] is None else options[name] for name in options},
        }
        made = cls.load(**given) if settings is None else settings.replace(**given)
        if made.engine == "workers" and made.store.startswith("memory:"):
            raise UsageError(
                "engine='workers' leaves calls to other processes, and memory:// is not shared with any. Choose another store."
            )
        return made

    @classmethod
    def load(
        cls, *, file: str | Path | None = None, environ: Mapping[str, str] | None = None, **given: Any
    ) -> Settings:
        """Defaults, then the file (`clicket.toml` here, unless named), then `CLICKET_*`, then what is given and not None."""
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        environ = os.environ if environ is None else environ
        path = Path(file) if file is not None else Path(environ.get(f"{_PREFIX}CONFIG", FILE_NAME))
        if path.is_file():
            for name, value in _read(path).items():
                values[name], origins[name] = value, str(path)
        elif file is not None:
            raise UsageError(f"{path}: there is no such file. Name an existing one, or leave it out.")
        for name in NAMES:
            text = environ.get(_PREFIX + name.upper())
            if text is not None:
                values[name], origins[name] = text, _PREFIX + name.upper()
        if any(name.startswith(_OAUTH_PREFIX) for name in environ):
            from clicket.runtime.settings.values import add_oauth_options

            add_oauth_options(values, origins, environ, _OAUTH_PREFIX)
        for name, value in given.items():
            if value is not None:
                values[name], origins[name] = value, "argument"
        return msgspec.structs.replace(cls(**_converted(values, origins)), origins=origins)

    def replace(self, **given: Any) -> Settings:
        """A copy with other values; None leaves a value as it is."""
        values = {name: value for name, value in given.items() if value is not None}
        origins = {**self.origins, **dict.fromkeys(values, "argument")}
        return msgspec.structs.replace(self, **_converted(values, origins), origins=origins)

    @property
    def call_retention(self) -> float:
        """The setting `retention`, or its default for this store."""
        return self.retention or (_LONG_RETENTION if self._keeps_accounts else _SHORT_RETENTION)

    @property
    def call_retention_bytes(self) -> int | None:
        """The setting `retention_bytes`, or its default for this store; None: no bound."""
        if self.retention_bytes is None:
            return _RETENTION_BYTES if self._keeps_accounts else None
        return self.retention_bytes or None

    @property
    def _keeps_accounts(self) -> bool:
        """Is the store on a disk, where calls may stay for long?"""
        return not self.store.startswith(("memory:", "redis:", "rediss:", "unix:", "valkey"))

    @property
    def shown_store(self) -> str:
        """The store's URL without its password."""
        from clicket.safety.vault import hide_text

        return hide_text(self.store)

    def secrets(self) -> list[str]:
        """Every secret in these settings: the secret keys, the webhooks' secrets and addresses, the API keys, and that of OAuth."""
        own = [key.strip() for key in (self.secret_key or "").split(",")]
        if self.oauth:
            from clicket.safety.oauth.config import secrets_of as oauth_secrets

            own += oauth_secrets(self.oauth)
        if self.webhooks:
            from clicket.telemetry.webhooks.config import secrets_of

            own += secrets_of(self.webhooks)
        if self.providers:
            from clicket.safety.credentials.provider import secrets_of as secrets_of_providers

            own += secrets_of_providers(self.providers)
        return [*own, *(entry.rpartition(":")[2] for entry in self.api_keys)]

    def credentials(self) -> CredentialOptions:
        from clicket.safety.credentials import CredentialOptions, declared_providers

        return CredentialOptions(
            providers=declared_providers(self.providers, self.origins.get("providers", "Settings")),
            public_url=self.public_url,
            link_timeout=self.credential_link_timeout,
            wait_timeout=self.credential_timeout,
        )

    def caching(self) -> CacheOptions:
        from clicket.engine import CacheOptions

        return CacheOptions(
            enabled=self.cache, scope=self.cache_scope, max_bytes=self.cache_max_bytes, ttl=self.cache_ttl
        )

    def declared_policy(self) -> Policy:
        """The policy of the file or the environment; without one, all calls are allowed."""
        from clicket.engine.stages import declared_policy

        return declared_policy(self.policy, self.origins.get("policy", "Settings"))

    def declared_oauth(self) -> OAuthConfig | None:
        """Which access tokens the server accepts; None: API keys only."""
        if not self.oauth:
            return None
        from clicket.safety.oauth.config import declared_oauth

        return declared_oauth(self.oauth, self.origins.get("oauth", "Settings"), public_url=self.public_url)

    @property
    def shown_oauth(self) -> dict[str, Any]:
        """The setting `oauth` without its secret."""
        if not self.oauth:
            return {}
        from clicket.safety.oauth.config import shown

        return shown(self.oauth, HIDDEN)

    def price_table(self) -> PriceTable:
        from clicket.engine.spend import PriceTable, declared_prices

        return PriceTable(declared_prices(self.prices, self.origins.get("prices", "Settings")))

    def declared_budgets(self) -> tuple[Budget, ...]:
        from clicket.engine.spend import declared_budgets

        return declared_budgets(self.budgets, self.origins.get("budgets", "Settings"))

    def limits(self) -> Limits:
        """The bounds that the engine needs."""
        from clicket.engine import Limits
        from clicket.runtime.settings.values import half_of_memory

        memory = self.worker_memory or half_of_memory()
        shared = {name: getattr(self, name) for name in Limits.__struct_fields__}
        own = {"retention": self.call_retention, "retention_bytes": self.call_retention_bytes}
        return Limits(**{**shared, **own, "worker_memory": memory})


def _store_url(store: str) -> str:
    """The URL of a store. A plain path stands for a SQLite file."""
    if os.name == "nt" and isinstance(store, str) and store[1:2] == ":":  # a drive's letter, not a scheme
        return f"sqlite:///{quote(store, safe='/:')}"
    if not isinstance(store, str) or not store or urlsplit(store).scheme:
        return store  # the store's own code judges it
    if store in _STORE_KINDS:
        raise UsageError(f"store {store!r} is a kind of store, not its address. Write {_STORE_KINDS[store]}.")
    return f"sqlite:///{quote(store)}"


def _check_public_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits:  # it may hold a password, so it is not shown
        raise UsageError("public_url must be an address like https://example.org: http or https, and a host.")


def _rebuilt(values: dict[str, Any]) -> Settings:
    return Settings(**values)


NAMES = tuple(name for name in Settings.__struct_fields__ if name != "origins")
_TYPES = {field.name: field.type for field in msgspec.structs.fields(Settings)}


def _read(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}.") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from None
    for name in content:
        if name not in NAMES:
            raise UsageError(f"{path}: unknown setting {name!r}.{did_you_mean(name, NAMES)} Known: {', '.join(NAMES)}.")
    return content


def _converted(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    converted = {}
    for name, value in values.items():
        if name not in NAMES:
            raise UsageError(f"unknown setting {name!r}.{did_you_mean(name, NAMES)} Known: {', '.join(NAMES)}.")
        given = value
        if name == "cache_ttl" and isinstance(value, str):  # CLICKET_CACHE_TTL="weather=60, default=300"
            parts = [part.strip() for part in value.split(",") if part.strip()]
            if not all(part.count("=") == 1 for part in parts):
                raise UsageError(
                    f"setting {name} (from {origins[name]}): {value!r} is not a list like 'weather=60, default=300'."
                )
            given = dict(part.split("=") for part in parts)
        elif name in _TABLES:
            from clicket.runtime.settings.values import table_of

            given = table_of(name, value, origins[name])
        elif name in _LISTS and isinstance(value, str):
            given = [part.strip() for part in value.split(",") if part.strip()]
        elif value == "" and type(None) in get_args(_TYPES[name]):
            given = None
        try:
            converted[name] = msgspec.convert(given, _TYPES[name], strict=False)
        except msgspec.ValidationError as error:
            choices = get_args(_TYPES[name]) if get_origin(_TYPES[name]) is Literal else ()
            known = f" Known: {', '.join(choices)}." if choices else ""
            shown = HIDDEN if name in (*SECRET_NAMES, "oauth") else repr(value)
            raise UsageError(f"setting {name} (from {origins[name]}): {shown} does not fit: {error}.{known}") from None
    return converted
