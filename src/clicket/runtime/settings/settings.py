"""One frozen `Settings`: arguments win over the environment, the environment over `clicket.toml`, that over the defaults.

Every key of the file is a field here or in a group (`clicket.model.config`), typed and with its meaning; all are checked when the
settings are made. The origin of every value is recorded, and `clicket config` shows it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Unpack, get_origin, get_type_hints
from urllib.parse import quote, urlsplit

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.model.config import (
    CacheOptions,
    Credentials,
    Limits,
    Retention,
    Seconds,
    SecondsOr0,
    Server,
    Telemetry,
    ToolSearch,
)
from clicket.model.tables import SECRET, fields_of, is_secret, none_or, plain_types, read, secrets_in
from clicket.runtime.settings.types import Durability, Engine, RuntimeOptions, SettingsOptions
from clicket.runtime.settings.written import add_oauth_options, from_text, half_of_memory, read_table

# The rest is imported where it is used: every command reads settings, and few need a policy or an engine.
if TYPE_CHECKING:
    from clicket.engine.spend.budgets import Budget
    from clicket.engine.spend.prices import Price
    from clicket.engine.stages import Policy
    from clicket.model.tool_tables import InterpreterTable, SearchTable
    from clicket.runtime.settings.tables import AgentTable, McpServerTable
    from clicket.safety.credentials import Provider
    from clicket.safety.oauth.config import OAuthConfig
    from clicket.telemetry.webhooks import Endpoint

__all__ = ["FILE_NAME", "GROUPS", "HIDDEN", "KEYS", "Settings"]

FILE_NAME = "clicket.toml"
_PREFIX = "CLICKET_"
_OAUTH_PREFIX = "CLICKET_OAUTH_"
HIDDEN = "(hidden)"
_STORE_KINDS = {
    "memory": "memory://",
    "sqlite": "sqlite:///path.db",
    "redis": "redis://host:6379/0",
    "postgresql": "postgresql://user@host/database",
    "postgres": "postgresql://user@host/database",
}
_SHORT_LIVED = ("memory:", "redis:", "rediss:", "unix:", "valkey")
"""Stores that are not on a disk, where calls may not stay for long."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_OF_PARTS = (
    "AgentTable",
    "Budget",
    "Endpoint",
    "InterpreterTable",
    "McpServerTable",
    "OAuthConfig",
    "Policy",
    "Price",
    "Provider",
    "SearchTable",
)
TABLES = ("agents", "policy", "budgets", "prices", "webhooks", "oauth", "providers", "mcp", "interpreter", "search")
"""Tables that are read by the part that they are for."""
GROUPS: dict[str, type[msgspec.Struct]] = {
    "limits": Limits,
    "retention": Retention,
    "cache": CacheOptions,
    "server": Server,
    "credentials": Credentials,
    "telemetry": Telemetry,
    "tool_search": ToolSearch,
}


class Settings:
    """All settings of a runtime. `Settings()` is the defaults; `Settings.load()` reads the file and the environment.

    They are given by their keys, `Settings(store="memory://", cache_scope="thread")`, and read in groups: `settings.cache.scope`.
    """

    store: str = "sqlite:///.clicket/clicket.db"
    """Where calls are kept: a SQLite file (a path or `sqlite:///path`), `redis://…`, `postgresql://…` or `memory://`."""
    durability: Durability = "process"
    """`process` survives the end of the process, `power` also the end of the machine."""
    store_timeout: Seconds = 5.0
    """Seconds that a store behind a network gets to answer."""
    open_timeout: SecondsOr0 = 10.0
    """Seconds that opening a runtime waits for a store that cannot be reached, as while its server is restarted; may be 0."""
    notices: str = "store"
    """What carries messages between processes (the bus): `store` (the store itself), `redis://…` or `nats://…`. They save time, and decide
    nothing."""
    engine: Engine = "local"
    """`local`: calls run here. `workers`: they are handed to whichever worker over the same store claims them."""
    labels: tuple[str, ...] = ()
    """Labels of this worker: it also takes calls of tools that need them."""
    ray: str | None = None
    """The Ray cluster for tools with `isolation="ray"`: `ray://HOST:10001`, `HOST:6379`, or `auto` for the one of this machine."""
    tools: tuple[str, ...] = ()
    """Tools that the command line loads: `module` or `module:name`."""
    deps: Mapping[str, str] = _NOTHING
    """Factories of the deps that commands give to tools, by name: `db = "shop:connect"`."""
    secret_key: Annotated[str, SECRET] | None = None
    """Keys for secrets at rest, with commas between them: the first seals, all open. Never shown."""
    default_agent: str | None = None
    """The agent that is meant where none is named; else the only one, else the one named `default`."""

    limits: Limits = Limits()
    retention: Retention = Retention()
    cache: CacheOptions = CacheOptions()
    tool_search: ToolSearch = ToolSearch()
    telemetry: Telemetry = Telemetry()
    server: Server = Server()
    credentials: Credentials = Credentials()

    agents: Mapping[str, AgentTable] = _NOTHING
    """Agents of the server and of `clicket chat`: `[agents.NAME]`."""
    policy: Policy | None = None
    """Who may run what: `[policy]` and `[[policy.rules]]`."""
    budgets: tuple[Budget, ...] = ()
    """Limits of what agents and tools spend: `[[budgets]]`."""
    prices: tuple[Price, ...] = ()
    """Prices of models in US dollars for a million tokens: `[[prices]]`. They win over clicket's own table."""
    webhooks: Annotated[tuple[Endpoint, ...], SECRET] = ()
    """Endpoints that get notices: `[[webhooks]]`. Never shown."""
    oauth: OAuthConfig | None = None
    """The authorization server whose access tokens the server accepts beside its keys: `[oauth]`; each key is a variable, too
    (`CLICKET_OAUTH_ISSUER`). Its secret is never shown."""
    providers: Annotated[tuple[Provider, ...], SECRET] = ()
    """Services for which callers have credentials: `[[providers]]`. One that is not listed takes tokens that are put. Never shown."""
    mcp: Annotated[Mapping[str, McpServerTable], SECRET] = _NOTHING
    """Other MCP servers whose tools are used here: `[mcp.servers.NAME]`. Never shown."""
    interpreter: InterpreterTable | None = None
    """Options of `code_interpreter`, which commands then offer: `[interpreter]`."""
    search: Annotated[SearchTable, SECRET] | None = None
    """Options of `deep_search`, which commands then offer: `[search]`. Never shown."""

    values: Mapping[str, Any] = _NOTHING
    """By key, what was given: values as they were read, and tables as they were written."""
    origins: Mapping[str, str] = _NOTHING
    """By key, where each value that is not a default came from; filled by `load`."""

    def __init__(self, **given: Unpack[SettingsOptions]) -> None:
        self._fill(given, {})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("settings do not change; settings.replace(…) makes others.")

    def __repr__(self) -> str:
        """Without secrets: a traceback or a debugger may print this."""
        return f"Settings({', '.join(f'{key}={value!r}' for key, value in self.shown().items() if key in self.values)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]  # tables are not hashable

    def __reduce__(self) -> Any:
        """Pickle without the secrets, and without what needs them: the pickle may be stored."""
        left_out = ("public_url", "oauth")
        kept = {key: self.values[key] for key in self.values if key not in left_out and not KEYS[key].secret}
        return _rebuilt, (kept,)

    @classmethod
    def of_runtime(cls, given: Mapping[str, Any], settings: Settings | None, options: Mapping[str, Any]) -> Settings:
        """The settings of a `Runtime` with these keywords; `options` are those beside its own."""
        known = RuntimeOptions.__annotations__
        for name in options:
            if name not in known:
                own = tuple(dict.fromkeys(("tools", *(key for key in KEYS if key not in known), "settings", *known)))
                raise UsageError(f"Runtime has no keyword {name!r}.{did_you_mean(name, own)} Known: {', '.join(own)}.")
        # To `load`, None means that nothing is given; here it is a value, where a setting has it.
        kept: Any = {name: "" if value is None and KEYS[name].optional else value for name, value in options.items()}
        made = (cls.load if settings is None else settings.replace)(**given, **kept)
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
            values = _content(path)
            origins = dict.fromkeys(values, str(path))
        elif file is not None:
            raise UsageError(f"{path}: there is no such file. Name an existing one, or leave it out.")
        for name in KEYS:
            text = environ.get(_PREFIX + name.upper())
            if text is not None:
                values[name], origins[name] = text, _PREFIX + name.upper()
        if any(name.startswith(_OAUTH_PREFIX) for name in environ):
            add_oauth_options(values, origins, environ, _OAUTH_PREFIX)
        arguments = {name: value for name, value in given.items() if value is not None}
        return cls._made({**values, **arguments}, {**origins, **dict.fromkeys(arguments, "argument")})

    def replace(self, **given: Any) -> Settings:
        """A copy with other values; None leaves a value as it is."""
        values = {name: value for name, value in given.items() if value is not None}
        return self._made({**self.values, **values}, {**self.origins, **dict.fromkeys(values, "argument")})

    @property
    def shown_store(self) -> str:
        """The store's URL without its password."""
        return str(self.shown()["store"])

    def shown(self) -> dict[str, Any]:
        """All values by key, without secrets."""
        from clicket.safety.oauth.config import shown as shown_oauth
        from clicket.safety.vault import hide, hide_text

        values = {key: self.values.get(key, each.default) for key, each in KEYS.items()}
        hidden = {key: HIDDEN for key, each in KEYS.items() if each.secret and values[key]}
        texts = {key: hide_text(values[key]) for key in ("store", "notices")}
        return {
            **values,
            **hidden,
            **texts,
            "agents": hide(values["agents"]),
            "oauth": shown_oauth(values["oauth"], HIDDEN) if values["oauth"] else {},
        }

    def secrets(self) -> list[str]:
        """Every secret in these settings: the secret keys, the webhooks' secrets and addresses, the API keys, and that of OAuth."""
        own = [key.strip() for key in (self.secret_key or "").split(",")]
        own += [entry.rpartition(":")[2] for entry in self.server.api_keys]
        return [*own, *secrets_in((self.oauth, *self.webhooks, *self.providers))]

    @classmethod
    def _made(cls, values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
        settings = cls.__new__(cls)
        settings._fill(values, origins)
        return settings

    def _fill(self, given: Mapping[str, Any], origins: Mapping[str, str]) -> None:
        values: dict[str, Any] = {}
        fields: dict[str, dict[str, Any]] = {group: {} for group in ("", *GROUPS)}
        for name, written in given.items():
            if name not in KEYS:
                raise UsageError(f"unknown setting {name!r}.{did_you_mean(name, KEYS)} Known: {', '.join(KEYS)}.")
            key, origin = KEYS[name], origins.get(name, "Settings")
            value = None if written == "" and key.optional and name not in TABLES else written
            if isinstance(value, str) and not key.is_text:
                value = from_text(name, value, origin)
            if name not in TABLES:
                value = read(key.type, value, f"setting {name} (from {origin})", lax=True)
                value = _store_url(value) if name == "store" else value
                fields[key.group][key.name] = value
            values[name] = value
        made = {**fields.pop(""), **{group: GROUPS[group](**each) for group, each in fields.items() if each}}
        self.__dict__.update(made, values=values, origins=dict(origins))
        public_url = self.server.public_url
        if public_url is not None:
            _check_public_url(public_url)
            if not self.secret_key:
                raise UsageError(
                    "public_url needs secret_key: links to the server's pages are signed with a key from it."
                )
        if not self.store.startswith(_SHORT_LIVED):
            self.__dict__["retention"] = self.retention.on_disk()
        if self.limits.tool_process_memory is None:
            self.__dict__["limits"] = msgspec.structs.replace(self.limits, tool_process_memory=half_of_memory())
        for name in TABLES:
            if name in values:
                self.__dict__[name] = read_table(name, values[name], origins.get(name, "Settings"), public_url)


def _rebuilt(values: dict[str, Any]) -> Settings:
    return Settings(**values)


class _Key(NamedTuple):
    """What a key of the file is: where its value is read, and how it is checked."""

    group: str
    """Empty: the settings themselves."""
    name: str
    type: Any
    default: Any

    @property
    def secret(self) -> bool:
        return is_secret(self.type)

    @property
    def optional(self) -> bool:
        return none_or(self.type)[1]

    @property
    def is_text(self) -> bool:
        """Is it text as it is written, or a number in it?"""
        return any(each in (str, int, float, bool) or get_origin(each) is Literal for each in plain_types(self.type))


def _keys() -> dict[str, _Key]:
    found: dict[str, _Key] = {}
    later = dict.fromkeys(_OF_PARTS, Any)
    for name, kind in get_type_hints(Settings, localns=later, include_extras=True).items():
        if name in GROUPS:
            group = GROUPS[name]()
            found.update(
                {
                    key: _Key(name, each.name, each.type, getattr(group, each.name))
                    for key, each in fields_of(GROUPS[name]).items()
                }
            )
        elif name not in ("values", "origins"):
            default = getattr(Settings, name)
            found[name] = _Key("", name, kind, default if default or name not in (*TABLES, "deps") else {})
    return found


def _store_url(store: str) -> str:
    """The URL of a store. A plain path stands for a SQLite file."""
    if os.name == "nt" and store[1:2] == ":":  # a drive's letter, not a scheme
        return f"sqlite:///{quote(store, safe='/:')}"
    if not store or urlsplit(store).scheme:
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


def _content(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}.") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from None
    for name in content:
        if name not in KEYS:
            raise UsageError(f"{path}: unknown setting {name!r}.{did_you_mean(name, KEYS)} Known: {', '.join(KEYS)}.")
    return content


KEYS = _keys()
"""Every key of the file, in the order of the fields."""
