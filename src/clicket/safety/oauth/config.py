"""The setting `[oauth]`: which authorization server's tokens are accepted, for which audience, and what their scopes allow here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clicket.errors import ClicketError, UsageError, did_you_mean
from clicket.model.scopes import SCOPES
from clicket.safety.guard import numeric_host

__all__ = ["ALGORITHMS", "OAuthConfig", "declared_oauth", "from_environment", "is_loopback_url", "secrets_of", "shown"]

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a private key. Those with a shared secret (HS256) and `none` cannot be chosen."""
_DEFAULT_MAP = {f"clicket:{scope}": (scope,) for scope in SCOPES}
_NUMBERS = {
    "leeway": (0.0, 300.0),
    "jwks_cache": (1.0, 86_400.0),
    "introspection_cache": (0.0, 300.0),
    "timeout": (0.1, 30.0),
}
_INTROSPECTION_NAMES = ("url", "client_id", "client_secret")
_MAX_AUDIENCES = 20
_MAX_SCOPES = 200


class OAuthConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Times are seconds."""

    issuer: str
    """The URL of the authorization server, exactly as its tokens have it in `iss`."""
    audiences: tuple[str, ...]
    """A token needs one of them in `aud`. The first that is a URL is also this server's resource identifier (RFC 9728)."""
    jwks_uri: str | None = None
    """The keys of signed tokens; None: the issuer's metadata says where they are."""
    introspection: str | bool = False
    """The endpoint for tokens that are no JWT; True: the issuer's metadata says where it is. Without `jwks_uri`, for all tokens."""
    client_id: str = ""
    client_secret: str = ""
    """This server's credentials for introspection."""
    scopes_map: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=lambda: dict(_DEFAULT_MAP))
    """Which scopes of ours each scope of a token stands for. Scopes that are not listed allow nothing."""
    algorithms: tuple[str, ...] = ALGORITHMS
    leeway: float = 30.0
    """How far the clocks of the two servers may differ."""
    jwks_cache: float = 600.0
    """For so long keys are used without another look: a key that the issuer removed is refused after it."""
    introspection_cache: float = 30.0
    """For so long an answer is used again: a revoked token is refused after it. 0: each request asks."""
    timeout: float = 5.0
    """For each request to the issuer."""
    allow_private: bool = False
    """The issuer's URLs may lead to private addresses."""

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


_NAMES = (
    "issuer",
    "audience",
    *(name for name in OAuthConfig.__struct_fields__ if name not in ("issuer", "audiences")),
)


def declared_oauth(given: Mapping[str, Any], origin: str = "Settings", *, public_url: str | None = None) -> OAuthConfig:
    """The configuration; `UsageError` says what is wrong, and never shows the secret."""
    try:
        return _declared(given, public_url)
    except UsageError as error:
        raise UsageError(f"setting oauth (from {origin}): {error.message}") from None


def from_environment(environ: Mapping[str, str], prefix: str, table: Any) -> tuple[Any, list[str]]:
    """The table with the options of `CLICKET_OAUTH_ISSUER`, `CLICKET_OAUTH_AUDIENCE` and so on, and the variables that were used."""
    found = {name.removeprefix(prefix).lower(): text for name, text in environ.items() if name.startswith(prefix)}
    for name in found:
        if name not in _NAMES:
            near = did_you_mean(prefix + name.upper(), [prefix + each.upper() for each in _NAMES])
            raise UsageError(f"the variable {prefix}{name.upper()} is not a setting.{near}")
    options: dict[str, Any] = {name: _parsed(name, text) for name, text in found.items()}
    return {**(table if isinstance(table, Mapping) else {}), **options}, [prefix + name.upper() for name in found]


def secrets_of(given: Any) -> list[str]:
    """Every text of the setting that must not be shown; it need not be valid."""
    found = [given.get("client_secret")] if isinstance(given, Mapping) else []
    inner = given.get("introspection") if isinstance(given, Mapping) else None
    found += [inner.get("client_secret")] if isinstance(inner, Mapping) else []
    return [each for each in found if isinstance(each, str) and each]


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


def _declared(given: Mapping[str, Any], public_url: str | None) -> OAuthConfig:
    for name in given:
        if name not in _NAMES:
            raise UsageError(
                f"there is no option {name!r}.{did_you_mean(str(name), _NAMES)} Known: {', '.join(_NAMES)}."
            )
    values: dict[str, Any] = {name: given[name] for name in _NUMBERS if name in given}
    for name, value in values.items():
        least, most = _NUMBERS[name]
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not isfinite(value)
            or not least <= value <= most
        ):
            raise UsageError(f"{name} is a number of seconds from {least:g} to {most:g}, not {value!r:.40}.")
    if not isinstance(given.get("allow_private", False), bool):
        raise UsageError("allow_private is true or false.")
    values["allow_private"] = given.get("allow_private", False)
    if not given.get("issuer"):
        raise UsageError("it needs an issuer: the URL of the authorization server, as its tokens have it in `iss`.")
    values["issuer"] = _url("issuer", given["issuer"])
    values["audiences"] = _audiences(given.get("audience", public_url))
    if given.get("jwks_uri") is not None:
        values["jwks_uri"] = _url("jwks_uri", given["jwks_uri"])
    values |= _introspection(given)
    if given.get("scopes_map") is not None:
        values["scopes_map"] = _scopes_map(given["scopes_map"])
    if given.get("algorithms") is not None:
        values["algorithms"] = _algorithms(given["algorithms"])
    return OAuthConfig(**values)


def _url(name: str, value: Any) -> str:
    parts = None
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        fits = fits and parts.username is None and not parts.fragment and (name != "issuer" or not parts.query)
    except ValueError:
        fits = False
    if parts is None or not fits or len(value) > 2_000:
        raise UsageError(f"{name} must be a URL like https://login.example.org, without user, password and fragment.")
    if parts.scheme != "https" and not is_loopback_url(value):
        raise UsageError(f"{name} must begin with https://; only a server on this machine (127.0.0.1) may use http.")
    return str(value)


def _audiences(value: Any) -> tuple[str, ...]:
    given = value if isinstance(value, list | tuple) else [] if value is None else [value]
    if not given:
        raise UsageError(
            "it needs an audience: what tokens for this server have in `aud`, such as its own URL. Without public_url there is no default."
        )
    if len(given) > _MAX_AUDIENCES or not all(isinstance(each, str) and 0 < len(each) <= 2_000 for each in given):
        raise UsageError(f"audience is a text, or a list of at most {_MAX_AUDIENCES} texts.")
    return tuple(dict.fromkeys(given))


def _introspection(given: Mapping[str, Any]) -> dict[str, Any]:
    value = given.get("introspection", False)
    made = {}
    for name in ("client_id", "client_secret"):
        made[name] = given.get(name, "")
    if isinstance(value, Mapping):
        for name in value:
            if name not in _INTROSPECTION_NAMES:
                raise UsageError(f"introspection has no {name!r}. Known: {', '.join(_INTROSPECTION_NAMES)}.")
        made |= {name: value[name] for name in ("client_id", "client_secret") if name in value}
        value = value.get("url", True)
    if not all(isinstance(each, str) for each in made.values()):
        raise UsageError("client_id and client_secret are texts.")
    if not isinstance(value, bool):
        value = _url("introspection", value)
    if value and not (made["client_id"] and made["client_secret"]):
        raise UsageError(
            "introspection needs client_id and client_secret: the endpoint requires client authentication."
        )
    return {"introspection": value, **made}


def _scopes_map(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping) or not value or len(value) > _MAX_SCOPES:
        raise UsageError(
            'scopes_map is a table of scopes of tokens, each with scopes of ours: {"tools.use" = ["read", "call"]}.'
        )
    made: dict[str, tuple[str, ...]] = {}
    for name, ours in value.items():
        listed = ours if isinstance(ours, list | tuple) else [ours]
        if (
            not isinstance(name, str)
            or not name
            or any(c in ' "\\' or not c.isprintable() for c in name)
            or not name.isascii()
        ):
            raise UsageError(f"scopes_map: {name!r:.80} is not a scope: scopes have no spaces and no quotes.")
        for each in listed:
            if each not in SCOPES:
                raise UsageError(
                    f"scopes_map: {name!r} stands for {each!r:.80}, which is not a scope here. Known: {', '.join(SCOPES)}."
                )
        if not listed:
            raise UsageError(f"scopes_map: {name!r} stands for nothing. Leave it out.")
        made[name] = tuple(dict.fromkeys(listed))
    return made


def _algorithms(value: Any) -> tuple[str, ...]:
    given = value if isinstance(value, list | tuple) else [value]
    for each in given:
        if each not in ALGORITHMS:
            raise UsageError(
                f"algorithms has {each!r:.40}. Known: {', '.join(ALGORITHMS)}; shared secrets and `none` are not safe here."
            )
    if not given:
        raise UsageError(f"algorithms is a list of: {', '.join(ALGORITHMS)}.")
    return tuple(dict.fromkeys(given))


def _parsed(name: str, text: str) -> Any:
    """The value of an environment variable. What does not fit is left as it is, and refused later."""
    if name in _NUMBERS:
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
