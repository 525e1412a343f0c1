"""Accepts or refuses access tokens: signed ones by the issuer's keys, all others by asking the issuer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from clicket import system
from clicket.safety.oauth.claims import check_audience
from clicket.safety.oauth.config import OAuthConfig
from clicket.safety.oauth.introspection import Introspection
from clicket.safety.oauth.issuer_client import IssuerClient
from clicket.safety.oauth.issuer_metadata import IssuerMetadata
from clicket.safety.oauth.key_cache import KeyCache
from clicket.safety.oauth.key_set import KeySet
from clicket.safety.oauth.refusals import IssuerUnavailable, TokenRefused
from clicket.safety.oauth.signed_tokens import SignedTokens, is_signed
from clicket.safety.oauth.subjects import caller_of

__all__ = ["AccessToken", "ResourceServer"]

_MAX_TOKEN = 16 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750, section 2.1."""


class AccessToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was accepted. `scopes` are ours."""

    caller: str
    subject: str
    scopes: frozenset[str]
    expires_at: float | None = None
    """Seconds since the epoch; None: the authorization server did not say."""


class ResourceServer:
    """`close` it when the server ends. `clock` measures ages, `now` is the time of day."""

    def __init__(
        self,
        config: OAuthConfig,
        *,
        client: IssuerClient | None = None,
        clock: Callable[[], float] = system.monotonic,
        now: Callable[[], float] = system.now,
    ) -> None:
        self.config = config
        self._client = client or IssuerClient(config)
        self._metadata = IssuerMetadata(config.issuer, self._client, clock=clock)
        self._keys = KeyCache(self._fetch_keys, max_age=config.jwks_cache, clock=clock)
        self._signed = SignedTokens(config, self._keys, now=now) if config.signs else None
        self._introspection = Introspection(config, self._ask, clock=clock, now=now) if config.introspection else None

    async def validate(self, token: str, audiences: Iterable[str] = ()) -> AccessToken:
        """`audiences`: accepted beside those of the settings. Raises `TokenRefused` or `IssuerUnavailable`."""
        if len(token) > _MAX_TOKEN:
            raise TokenRefused(f"the token is longer than {_MAX_TOKEN // 1024} KiB.")
        if _TOKEN.fullmatch(token) is None:
            raise TokenRefused("the token has characters that no access token has.")
        validator = self._signed if self._signed is not None and is_signed(token) else self._introspection
        if validator is None:
            raise TokenRefused("this is neither an API key of this server nor a signed access token.")
        claims = await validator.validate(token)
        check_audience(claims, (*self.config.audiences, *audiences))
        subject = claims.sub or ""
        return AccessToken(
            caller=caller_of(self.config.issuer, subject),
            subject=subject,
            scopes=self.config.scopes_of(claims.scopes),
            expires_at=None if claims.exp is None else claims.exp + self.config.leeway,
        )

    async def check(self) -> str:
        """Reach the authorization server, and say what was found; raises `IssuerUnavailable`."""
        found = []
        if self._signed is not None:
            keys = await self._keys.keys()
            found.append(f"{len(keys.keys)} usable keys")
        if self._introspection is not None:
            found.append(f"introspection at {await self._introspection_url()}")
        return ", ".join(found)

    async def close(self) -> None:
        await self._keys.close()
        if self._introspection is not None:
            await self._introspection.close()
        await self._client.close()

    async def _fetch_keys(self) -> KeySet:
        try:
            uri = self.config.jwks_uri or await self._metadata.endpoint("jwks_uri")
            return KeySet.of(await self._client.get(uri), self.config.algorithms)
        except IssuerUnavailable as error:
            self._look_up_again(error)
            raise

    async def _introspection_url(self) -> str:
        given = self.config.introspection
        return given if isinstance(given, str) else await self._metadata.endpoint("introspection_endpoint")

    async def _ask(self, token: str) -> dict[str, Any]:
        form = {"token": token, "token_type_hint": "access_token"}
        try:
            url = await self._introspection_url()
            return await self._client.post(url, form, self.config.client_id, self.config.client_secret)
        except IssuerUnavailable as error:
            self._look_up_again(error)
            if error.details.get("status") in (401, 403):
                raise IssuerUnavailable(
                    "the authorization server refused this server's own credentials for introspection. "
                    "Look at client_id and client_secret of [oauth]."
                ) from None
            raise

    def _look_up_again(self, error: IssuerUnavailable) -> None:
        """An address that does not answer may have moved. One that answers with an error is still the right one."""
        if error.details.get("status", 404) in (404, 410):
            self._metadata.forget()
