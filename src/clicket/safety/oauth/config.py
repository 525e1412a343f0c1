"""The setting `[oauth]`: which authorization server's tokens are accepted, for which audience, and what their scopes allow here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from clicket.errors import ClicketError, UsageError, did_you_mean
from clicket.model.scopes import SCOPES
from clicket.model.tables import SECRET, fields_of, read
from clicket.safety.guard import numeric_host

__all__ = ["ALGORITHMS", "OAuthConfig", "declared_oauth", "from_environment", "is_loopback_url", "shown"]

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a private key. Those with a shared secret (HS256) and `none` cannot be chosen."""
_DEFAULT_MAP = {f"clicket:{scope}": (scope,) for scope in SCOPES}
_MAX_AUDIENCES = 20
_MAX_SCOPES = 200


class OAuthConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Times are seconds."""

    issuer: str
    """The URL of the authorization server, exactly as its tokens have it in `iss`."""
    audiences: tuple[str, ...] = msgspec.field(name="audience", default=())
    """A token needs one of them in `aud`: a text, or a list; `public_url` unless given. The first that is a URL is also this server's
    resource identifier (RFC 9728)."""
    jwks_uri: str | None = None
    """The keys of signed tokens; the issuer's metadata says where they are unless given."""
    introspection: str | bool = False
    """The endpoint for tokens that are no JWT; true: the issuer's metadata says where it is; a table with `url`, `client_id` and
    `client_secret`. Without `jwks_uri`, for all tokens."""
    client_id: str = ""
    """This server's name at the issuer, for introspection."""
    client_secret: Annotated[str, SECRET] = ""
    """Never shown."""
    scopes_map: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=lambda: dict(_DEFAULT_MAP))
    """Which scopes of ours each scope of a token stands for. Scopes that are not listed allow nothing."""
    algorithms: tuple[str, ...] = ALGORITHMS
    """Signatures that are accepted."""
    leeway: Annotated[float, Meta(ge=0, le=300)] = 30.0
    """Seconds by which the clocks of the two servers may differ."""
    jwks_cache: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
    """For so long keys are used without another look: a key that the issuer removed is refused after it."""
    introspection_cache: Annotated[float, Meta(ge=0, le=300)] = 30.0
    """For so long an answer is used again: a revoked token is refused after it. 0: each request asks."""
    timeout: Annotated[float, Meta(ge=0.1, le=30)] = 5.0
    """Seconds for each request to the issuer."""
    allow_private: bool = False
    """The issuer's URLs may lead to private addresses."""

    def __post_init__(self) -> None:
        _check_url("issuer", self.issuer)
        if self.jwks_uri is not None:
            _check_url("jwks_uri", self.jwks_uri)
        if isinstance(self.introspection, str):
            _check_url("introspection", self.introspection)
        if self.introspection and not (self.client_id and self.client_secret):
            raise UsageError(
                "introspection needs client_id and client_secret: the endpoint requires client authentication."
            )
        if not self.audiences:
            raise UsageError(
                "it needs an audience: what tokens for this server have in `aud`, such as its own URL. Without public_url there is no "
                "default."
            )
        if len(self.audiences) > _MAX_AUDIENCES or not all(0 < len(each) <= 2_000 for each in self.audiences):
            raise UsageError(f"audience is a text, or a list of at most {_MAX_AUDIENCES} texts.")
        _check_scopes(self.scopes_map)
        for each in self.algorithms:
            if each not in ALGORITHMS:
                raise UsageError(
                    f"algorithms has {each!r:.40}. Known: {', '.join(ALGORITHMS)}; shared secrets and `none` are not safe here."
                )
        if not self.algorithms:
            raise UsageError(f"algorithms is a list of: {', '.join(ALGORITHMS)}.")

    def __repr__(self) -> str:
        return f"<oauth {self.issuer}>"

    @property
    def signs(self) -> bool:
        """Are signed tokens (JWT) judged by the issuer's keys?"""
        return self.jwks_uri is not None or not self.introspection

    @property
    def resource(self) -> str | None:
        """The URL by which clients know this server; None if no audience is a URL."""
        return next((each for each in self.audiences if each.startswith(("https://", "http://"))), None)

    def scopes_of(self, granted: Iterable[str]) -> frozenset[str]:
        """Our scopes that a token's scopes stand for."""
        return frozenset(scope for each in granted for scope in self.scopes_map.get(each, ()))

    def scope_for(self, wanted: str) -> str | None:
        """The token's scope to ask for, so that a client gets `wanted` here and as little else as possible."""
        fits = [(len(ours), name) for name, ours in self.scopes_map.items() if wanted in ours]
        fits = fits or [(len(ours), name) for name, ours in self.scopes_map.items() if "admin" in ours]
        return min(fits)[1] if fits else None


def declared_oauth(given: Any, where: str = "[oauth]", *, public_url: str | None = None) -> OAuthConfig:
    """The configuration; `UsageError` says what is wrong, and never shows the secret."""
    table = dict(given) if isinstance(given, Mapping) else {}
    if not table.get("issuer"):
        raise UsageError(
            f"{where}: it needs an issuer: the URL of the authorization server, as its tokens have it in `iss`."
        )
    table["audience"] = _listed(table.get("audience", public_url))
    if "algorithms" in table:
        table["algorithms"] = _listed(table["algorithms"])
    if isinstance(table.get("scopes_map"), Mapping):
        table["scopes_map"] = {name: _listed(ours) for name, ours in table["scopes_map"].items()}
    if isinstance(table.get("introspection"), Mapping):
        table |= read(_Introspection, table["introspection"], f"{where}: introspection").options()
    config: OAuthConfig = read(OAuthConfig, table, where)
    return config


class _Introspection(msgspec.Struct, frozen=True, kw_only=True):
    url: str | bool = True
    client_id: str | None = None
    client_secret: Annotated[str, SECRET] | None = None

    def options(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("client_id", "client_secret")}
        return {"introspection": self.url, **{name: value for name, value in own.items() if value is not None}}

    def __repr__(self) -> str:
        return "<introspection>"


def from_environment(environ: Mapping[str, str], prefix: str, table: Any) -> tuple[Any, list[str]]:
    """The table with the options of `CLICKET_OAUTH_ISSUER`, `CLICKET_OAUTH_AUDIENCE` and so on, and the variables that were used."""
    found = {name.removeprefix(prefix).lower(): text for name, text in environ.items() if name.startswith(prefix)}
    for name in found:
        if name not in fields_of(OAuthConfig):
            near = did_you_mean(prefix + name.upper(), [prefix + each.upper() for each in fields_of(OAuthConfig)])
            raise UsageError(f"the variable {prefix}{name.upper()} is not a setting.{near}")
    options: dict[str, Any] = {name: _parsed(name, text) for name, text in found.items()}
    return {**(table if isinstance(table, Mapping) else {}), **options}, [prefix + name.upper() for name in found]


def shown(given: Mapping[str, Any], hidden: str) -> dict[str, Any]:
    """The setting without its secret."""
    made: dict[str, Any] = {name: hidden if name == "client_secret" else value for name, value in given.items()}
    if isinstance(made.get("introspection"), Mapping):
        made["introspection"] = shown(made["introspection"], hidden)
    return made


def is_loopback_url(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        address = numeric_host(host)
    except ClicketError:
        return False
    return address is not None and address.is_loopback


def _listed(value: Any) -> list[Any]:
    """One text stands for a list with it."""
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def _check_url(name: str, value: str) -> None:
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        fits = fits and parts.username is None and not parts.fragment and (name != "issuer" or not parts.query)
    except ValueError:
        fits = False
    if not fits or len(value) > 2_000:
        raise UsageError(f"{name} must be a URL like https://login.example.org, without user, password and fragment.")
    if not value.startswith("https:") and not is_loopback_url(value):
        raise UsageError(f"{name} must begin with https://; only a server on this machine (127.0.0.1) may use http.")


def _check_scopes(scopes: Mapping[str, tuple[str, ...]]) -> None:
    if not scopes or len(scopes) > _MAX_SCOPES:
        raise UsageError(
            'scopes_map is a table of scopes of tokens, each with scopes of ours: {"tools.use" = ["read", "call"]}.'
        )
    for name, ours in scopes.items():
        if not name or any(c in ' "\\' or not c.isprintable() for c in name) or not name.isascii():
            raise UsageError(f"scopes_map: {name!r:.80} is not a scope: scopes have no spaces and no quotes.")
        for each in ours:
            if each not in SCOPES:
                raise UsageError(
                    f"scopes_map: {name!r} stands for {each!r:.80}, which is not a scope here. Known: {', '.join(SCOPES)}."
                )
        if not ours:
            raise UsageError(f"scopes_map: {name!r} stands for nothing. Leave it out.")


def _parsed(name: str, text: str) -> Any:
    """The value of an environment variable. What does not fit is left as it is, and refused later."""
    if name in ("leeway", "jwks_cache", "introspection_cache", "timeout"):
        try:
            return float(text)
        except ValueError:
            return text
    if name in ("audience", "algorithms"):
        return [part.strip() for part in text.split(",") if part.strip()]
    if name in ("allow_private", "introspection") and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if name == "scopes_map":  # "tools.read=read, tools.use=read+call"
        parts = [part.strip().rpartition("=") for part in text.split(",") if part.strip()]
        return {left.strip(): [scope.strip() for scope in right.split("+")] for left, _, right in parts}
    return text
