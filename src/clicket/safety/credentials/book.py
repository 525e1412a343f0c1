"""Credentials by caller and provider: put, list, revoke, and the token of a caller, refreshed before it ends.

One refresh of a credential at a time, over all processes: its document is claimed before the refresh token is sent, because many
authorization servers revoke everything if one is used twice. If a process dies with its claim, the next one tries the same refresh
token again once the claim has run out, and logs it: whether the token was used is unknown then. If the server says that the refresh
token is not valid (`invalid_grant`), the credential is expired, and calls wait for a new one. Every other refusal is about the provider
or its settings, and leaves the secret as it is.

A refresh token is sent to the server that gave it and to no other, whatever the provider's metadata say by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from clicket import system
from clicket.errors import ClicketError, CredentialMissing, NotFound, StoreUnavailable, UsageError
from clicket.model.credential import Credential, CredentialKind
from clicket.model.ports import Clock, Store, sleep
from clicket.safety.credentials.credential_documents import (
    MOST_PER_CALLER,
    Claim,
    CredentialDocuments,
    Secret,
    StoredCredential,
)
from clicket.safety.credentials.discovery import Discovery
from clicket.safety.credentials.oauth import IssuedTokens, OAuth, TokenEndpoint
from clicket.safety.credentials.oauth_http import OAuthHttp, ProviderMoved, ProviderRefused, ProviderUnreachable
from clicket.safety.credentials.provider import Provider, check_name
from clicket.safety.vault import Vault

__all__ = ["CredentialBook", "CredentialOptions", "HeldToken"]

logger = logging.getLogger("clicket.credentials")
_MARGIN = 60.0
"""Seconds before its end from which a token is refreshed, or a tenth of its life if that is less."""
_CLAIM = 45.0
"""Seconds of a claim: more than a request and the write after it take."""
_LOOK_AGAIN = 0.1
_MAX_SECRET = 64 * 1024
_MIN_SECRET = 4
_REMOTE = "the authorization server refused to refresh it"
_MOVED = "the provider names another authorization server than the one that gave it; connect it anew"


class CredentialOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say about credentials."""

    providers: tuple[Provider, ...] = ()
    public_url: str | None = None
    link_timeout: float = 600.0
    """Seconds for which a link works."""
    wait_timeout: float | None = 24 * 3600.0
    """Seconds for which a call waits for a credential."""


class HeldToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token for one use now."""

    id: str
    """Of the credential."""
    token: str

    def __repr__(self) -> str:
        return f"<token of credential {self.id}>"


class Audit(Protocol):
    def __call__(self, actor: str, action: str, /, **details: Any) -> Awaitable[None]: ...


class CredentialBook:
    """`audit` writes the audit log. `on_put` are called with caller and provider when a credential was put by this process."""

    def __init__(
        self,
        store: Store,
        vault: Vault,
        clock: Clock,
        options: CredentialOptions,
        *,
        audit: Audit,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        http: OAuthHttp | None = None,
    ) -> None:
        self._clock = clock
        self._audit = audit
        self._spawn = spawn
        self._http = http or OAuthHttp()
        self._refreshing: dict[tuple[str, str], asyncio.Future[HeldToken]] = {}
        base = None if options.public_url is None else options.public_url.rstrip("/")
        self.documents = CredentialDocuments(store, vault)
        self.oauth = OAuth(
            self._http,
            Discovery(self._http, clock.monotonic),
            store,
            self.documents,
            None if base is None else f"{base}/connect/callback",
        )
        self.options = options
        self.providers = {provider.name: provider for provider in options.providers}
        self.on_put: list[Callable[[str, str], None]] = []

    def provider(self, name: str) -> Provider:
        """What is known of a provider. One that the settings do not name takes tokens that are put."""
        return self.providers.get(name) or Provider(name=check_name(name))

    # Put, list, revoke.

    async def put(
        self,
        caller: str,
        provider: str,
        secret: str,
        *,
        scopes: Sequence[str] = (),
        expires_at: float | None = None,
        by: str = "",
    ) -> Credential:
        """Keep a token that its holder gave, in place of the one before."""
        given = self.check_secret(secret)
        if expires_at is not None and expires_at <= self._clock.now():
            raise UsageError("expires_at is in the past: the credential would be of no use.")
        issued = IssuedTokens(access=given, scopes=tuple(scopes))
        kept = await self._replace(caller, self.provider(provider), "token", issued, expires_at)
        await self._audit(by or caller, "credential.put", provider=provider, caller=caller)
        return kept.shown

    def check_secret(self, secret: Any) -> str:
        """A token as it is kept, or `UsageError`."""
        if not isinstance(secret, str) or not secret.strip():
            raise UsageError("the secret of a credential is a text that is not empty.")
        given = secret.strip()
        if len(given) > _MAX_SECRET or not given.isascii() or not given.isprintable() or len(given.split()) > 1:
            raise UsageError(
                f"the secret of a credential is one line of printable ASCII without spaces, at most {_MAX_SECRET} characters."
            )
        if len(given) < _MIN_SECRET:
            raise UsageError(
                f"the secret of a credential has {_MIN_SECRET} characters at least: a shorter one cannot be masked."
            )
        return given

    async def connect(self, caller: str, provider: Provider, issued: IssuedTokens) -> Credential:
        """Keep the tokens that an authorization server gave for a caller."""
        lasts = issued.expires_in
        ends = None if lasts is None else self._clock.now() + lasts
        kept = await self._replace(caller, provider, "oauth", issued, ends)
        await self._audit(caller, "credential.connected", provider=provider.name, caller=caller)
        return kept.shown

    async def _replace(
        self, caller: str, provider: Provider, kind: CredentialKind, issued: IssuedTokens, expires_at: float | None
    ) -> StoredCredential:
        self.documents.check()
        now = self._clock.now()
        new = StoredCredential(
            id=system.random_hex(8),
            caller=caller,
            provider=provider.name,
            kind=kind,
            created_at=now,
            updated_at=now,
            expires_at=expires_at,
            scopes=issued.scopes if issued.scopes is not None else provider.scopes,
        )
        new = self.documents.seal(new, _secret(issued))
        while True:  # it replaces whatever is there, and a refresh that is under way loses
            before = await self.documents.read(caller, provider.name)
            if before is None and await self.documents.is_full(caller):
                raise UsageError(
                    f"the caller has {MOST_PER_CALLER} credentials, which is the most that one may have. Revoke those that are not used; "
                    "a revoked one counts for a day."
                )
            write = self._save if kind == "oauth" else self.documents.write  # a person can put a token again
            written = await write(msgspec.structs.replace(new, version=before.version if before else 0))
            if written is not None:
                break
        await self._announce(caller, provider.name)
        return written

    async def has_room(self, caller: str, provider: str) -> bool:
        """May the caller have a credential for the provider, or has it too many others?"""
        return await self.documents.read(caller, provider) is not None or not await self.documents.is_full(caller)

    async def _announce(self, caller: str, provider: str) -> None:
        """A credential was put: calls that wait for it go on, in every process."""
        for listener in self.on_put:
            listener(caller, provider)
        try:
            await self.documents.changed()
        except ClicketError as error:  # processes look at every credential from time to time, so none is missed
            logger.warning("other processes learn later that a credential was put: %s", error)

    async def listed(self, caller: str | None) -> list[Credential]:
        return [kept.shown for kept in await self.documents.listed(caller) if kept.status != "revoked"]

    async def revoke(self, caller: str, provider: str, *, by: str = "") -> Credential:
        """Delete the secret. Calls that run keep what they have; the next use waits. `NotFound`: there is no credential."""
        check_name(provider)
        while True:
            kept = await self.documents.read(caller, provider)
            if kept is None or kept.status == "revoked":
                raise NotFound(f"the caller has no credential for {provider!r}.")
            gone = msgspec.structs.replace(
                kept, status="revoked", sealed="", claim=None, reason="it was revoked", updated_at=self._clock.now()
            )
            if await self.documents.write(gone) is not None:
                break
        await self._audit(by or caller, "credential.revoked", provider=provider, caller=caller)
        return gone.shown

    async def sweep(self) -> None:
        await self.documents.sweep(self._clock.now())

    async def close(self) -> None:
        await self._http.close()

    # Looking, for calls that may have to wait.

    async def look(self, caller: str, providers: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """The ids of the caller's credentials, and which are missing, with the reasons. Nothing is refreshed."""
        found: list[str] = []
        missing: dict[str, str] = {}
        for name in providers:
            kept = await self.documents.read(caller, name)
            try:
                self._opened(name, kept)
                assert kept is not None
                found.append(kept.id)
            except CredentialMissing as error:
                missing[name] = error.reason
        return tuple(found), missing

    def _opened(self, provider: str, kept: StoredCredential | None) -> Secret:
        """The secret of a credential that may be used, perhaps after a refresh."""
        if kept is None:
            raise CredentialMissing(provider, "there is none")
        if kept.status != "ready":
            raise CredentialMissing(provider, kept.reason or kept.status)
        secret = self.documents.open(kept)
        if secret is None:
            raise CredentialMissing(provider, "none of this process's keys (secret_key) opens it")
        if self._is_over(kept) and not kept.refreshable:
            raise CredentialMissing(provider, "it has expired")
        return secret

    def _is_over(self, kept: StoredCredential) -> bool:
        return kept.expires_at is not None and kept.expires_at <= self._clock.now()

    # Tokens.

    async def token(self, caller: str, provider: str) -> HeldToken:
        """The caller's token, refreshed if it ends soon. `CredentialMissing`: a person must give one. `ProviderUnreachable`: it has
        ended, and the authorization server does not answer."""
        kept = await self.documents.read(caller, provider)
        secret = self._opened(provider, kept)
        assert kept is not None
        if not kept.refreshable or not self._ends_soon(kept):
            return HeldToken(id=kept.id, token=secret.access)
        return await self._refreshed(caller, provider, secret.access)

    async def renew(self, caller: str, provider: str, used: str, *, refused: bool) -> HeldToken:
        """Another token than `used`, which the service outside did not take; the same one, if there is no other. `refused`: it said that
        the token is not valid, so one that cannot be refreshed is expired from now on."""
        kept = await self.documents.read(caller, provider)
        secret = self._opened(provider, kept)
        assert kept is not None
        if secret.access != used:  # it was refreshed or replaced meanwhile
            return HeldToken(id=kept.id, token=secret.access)
        if kept.refreshable:
            return await self._refreshed(caller, provider, used)
        if not refused:
            return HeldToken(id=kept.id, token=used)
        await self._expire(kept, "the service refused it")
        raise CredentialMissing(provider, "the service refused it, and it cannot be refreshed")

    def _ends_soon(self, kept: StoredCredential) -> bool:
        if kept.expires_at is None:
            return False
        margin = min(_MARGIN, max(kept.expires_at - kept.updated_at, 0.0) / 10)
        return kept.expires_at - margin <= self._clock.now()

    # Refreshing.

    async def _refreshed(self, caller: str, provider: str, used: str) -> HeldToken:
        """One refresh in this process for all that ask. It goes on if one of them is cancelled: its answer must not be lost."""
        key = (caller, provider)
        under_way = self._refreshing.get(key)
        if under_way is None:
            under_way = asyncio.get_running_loop().create_future()
            self._refreshing[key] = under_way
            self._spawn(self._refresh_for(key, used, under_way))
        return await asyncio.shield(under_way)

    async def _refresh_for(self, key: tuple[str, str], used: str, done: asyncio.Future[HeldToken]) -> None:
        try:
            token = await self._refresh(*key, used)
            if not done.done():
                done.set_result(token)
        except BaseException as error:
            if not done.done():
                done.set_exception(error if isinstance(error, Exception) else ProviderUnreachable("it was cancelled."))
                done.exception()  # retrieved here, because the waiters may be gone
            if not isinstance(error, Exception):
                raise
        finally:
            self._refreshing.pop(key, None)

    async def _refresh(self, caller: str, provider: str, used: str) -> HeldToken:
        while True:
            kept = await self.documents.read(caller, provider)
            secret = self._opened(provider, kept)
            assert kept is not None
            if secret.access != used:
                return HeldToken(id=kept.id, token=secret.access)
            now = self._clock.now()
            if kept.claim is not None and kept.claim.until > now:
                await sleep(self._clock, min(_LOOK_AGAIN, kept.claim.until - now))
                continue
            # Before the claim, so that the token's request alone has to fit into it.
            try:
                at = await self._token_endpoint(kept, secret)
            except CredentialMissing:
                raise
            except ClicketError as error:
                return self._for_a_moment(kept, secret, error)
            if kept.claim is not None:
                logger.warning("a refresh of the credential for %s did not end; it is tried again", provider)
                await self._audit(kept.claim.by, "credential.refresh_repeated", provider=provider, caller=caller)
            claim = Claim(system.random_hex(4), self._clock.now() + _CLAIM)
            claimed = await self.documents.write(msgspec.structs.replace(kept, claim=claim))
            if claimed is not None:
                return await self._send(claimed, secret, at)

    async def _token_endpoint(self, kept: StoredCredential, secret: Secret) -> TokenEndpoint:
        provider = self.provider(kept.provider)
        try:
            return await self.oauth.token_endpoint(provider, issuer=secret.issuer, token_url=secret.token_url)
        except ProviderMoved as error:
            await self._expire(kept, _MOVED)
            raise CredentialMissing(kept.provider, _MOVED) from error

    def _for_a_moment(self, kept: StoredCredential, secret: Secret, error: ClicketError) -> HeldToken:
        """The token that could not be refreshed, if it still works; else the error."""
        if kept.expires_at is None or self._is_over(kept):
            raise error
        logger.warning("the credential for %s could not be refreshed yet: %s", kept.provider, error)
        return HeldToken(id=kept.id, token=secret.access)

    async def _send(self, claimed: StoredCredential, secret: Secret, at: TokenEndpoint) -> HeldToken:
        """Use the refresh token, and keep what came back before anything uses it."""
        try:
            issued = await self.oauth.refresh(at, secret.refresh)
        except ClicketError as error:
            if isinstance(error, ProviderRefused) and error.error == "invalid_grant":
                await self._expire(claimed, f"{_REMOTE} ({error.error})")
                raise CredentialMissing(claimed.provider, _REMOTE) from error
            await self._save(msgspec.structs.replace(claimed, claim=None))
            return self._for_a_moment(claimed, secret, error)
        now = self._clock.now()
        new = msgspec.structs.replace(
            claimed,
            claim=None,
            updated_at=now,
            expires_at=None if issued.expires_in is None else now + issued.expires_in,
            scopes=claimed.scopes if issued.scopes is None else issued.scopes,
        )
        new = self.documents.seal(new, _secret(issued, secret.refresh))
        if await self._save(new) is None:
            # It was revoked or replaced while it was refreshed: what is there now counts.
            kept = await self.documents.read(claimed.caller, claimed.provider)
            current = self._opened(claimed.provider, kept)
            assert kept is not None
            return HeldToken(id=kept.id, token=current.access)
        return HeldToken(id=new.id, token=issued.access)

    async def _expire(self, kept: StoredCredential, reason: str) -> None:
        """Mark a credential as expired, and delete its secret. It stays as it is if it was replaced meanwhile."""
        over = msgspec.structs.replace(
            kept,
            status="expired",
            sealed="",
            refreshable=False,
            claim=None,
            reason=reason,
            updated_at=self._clock.now(),
        )
        if await self._save(over) is not None:
            await self._audit("", "credential.expired", provider=kept.provider, caller=kept.caller, reason=reason)

    async def _save(self, kept: StoredCredential) -> StoredCredential | None:
        """As `CredentialDocuments.write`, again and again for as long as a claim lasts: tokens that were given once are nowhere else."""
        give_up = self._clock.monotonic() + _CLAIM
        while True:
            try:
                return await self.documents.write(kept)
            except StoreUnavailable as error:
                if self._clock.monotonic() >= give_up:
                    raise
                logger.warning("a credential for %s could not be stored yet: %s", kept.provider, error)
            await sleep(self._clock, _LOOK_AGAIN)
            try:
                stored = await self.documents.read(kept.caller, kept.provider)
            except StoreUnavailable:
                continue
            if stored is not None and stored.version == kept.version + 1 and stored.sealed == kept.sealed:
                return stored  # the answer to the write was lost, not the write


def _secret(issued: IssuedTokens, refresh: str = "") -> Secret:
    """What is kept of it. `refresh` stays if no other refresh token came."""
    return Secret(
        access=issued.access,
        refresh=issued.refresh or refresh,
        issuer=issued.issuer,
        token_url=issued.token_url,
    )
