"""Credentials as documents of the store. The secret is sealed for its caller, its provider and its id: moved to another, it does not open.

A revoked credential leaves a document without a secret for a day, so that versions only grow: a process that refreshed it at that
moment cannot write over what came later.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from clicket import system
from clicket.errors import UsageError
from clicket.model.credential import Credential, CredentialKind
from clicket.model.ports import Store, StoredDocument
from clicket.safety.vault import Vault

__all__ = ["MOST_PER_CALLER", "Claim", "CredentialDocuments", "Secret", "StoredCredential"]

_KIND = "credential"
_CHANGES = "credential.changes"
_PAGE = 500
MOST_PER_CALLER = 100
_TOMBSTONE = 24 * 3600.0
_encode = msgspec.json.Encoder().encode


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """What is sealed."""

    access: str
    refresh: str = ""
    issuer: str = ""
    token_url: str = ""
    """The authorization server that gave them, and the only one that gets `refresh`."""

    def __repr__(self) -> str:
        return "<secret>"


class Claim(msgspec.Struct, frozen=True):
    """One process refreshes the credential until then."""

    by: str
    until: float


class StoredCredential(msgspec.Struct, frozen=True, kw_only=True):
    """One document. `status` is `revoked` once the secret is deleted."""

    id: str
    caller: str
    provider: str
    kind: CredentialKind
    status: str = "ready"
    sealed: str = ""
    scopes: tuple[str, ...] = ()
    refreshable: bool = False
    created_at: float
    updated_at: float
    expires_at: float | None = None
    reason: str = ""
    claim: Claim | None = None
    version: int = 0
    """Of the document that it was read from."""

    @property
    def shown(self) -> Credential:
        return Credential(
            id=self.id,
            caller=self.caller,
            provider=self.provider,
            kind=self.kind,
            status="ready" if self.status == "ready" else "expired",
            scopes=self.scopes,
            refreshable=self.refreshable,
            created_at=self.created_at,
            updated_at=self.updated_at,
            expires_at=self.expires_at,
            reason=self.reason,
        )


class CredentialDocuments:
    def __init__(self, store: Store, vault: Vault) -> None:
        self._store = store
        self._vault: Vault | None = vault if vault.seals else None

    def check(self) -> Vault:
        """The vault; `UsageError` if secrets cannot be kept. What a store keeps in memory is sealed with a key of this process."""
        if self._vault is None:
            if self._store.durability != "none":
                raise UsageError(
                    "credentials are kept encrypted, and there is no key. Set CLICKET_SECRET_KEY (secret_key), the same for all "
                    'processes over the store: python -c "import secrets; print(secrets.token_urlsafe(32))".'
                )
            self._vault = Vault([system.random_text(32)])
        return self._vault

    # Secrets.

    def seal(self, kept: StoredCredential, secret: Secret) -> StoredCredential:
        """The credential with this secret."""
        sealed = self.check().seal(_identity(kept), _KIND, _encode(secret))
        return msgspec.structs.replace(kept, sealed=sealed, refreshable=bool(secret.refresh))

    def open(self, kept: StoredCredential) -> Secret | None:
        """The secret; None: there is none, or none of our keys opens it."""
        if self._vault is None or not kept.sealed:
            return None
        plain = self._vault.unsealed(_identity(kept), _KIND, kept.sealed)
        try:
            return None if plain is None else msgspec.json.decode(plain, type=Secret)
        except msgspec.MsgspecError:
            return None

    # Documents.

    async def read(self, caller: str, provider: str) -> StoredCredential | None:
        """Also one that is expired or revoked."""
        document = await self._store.document(_KIND, _key(caller, provider))
        kept = None if document is None else _read(document)
        return kept if kept is not None and (kept.caller, kept.provider) == (caller, provider) else None

    async def write(self, kept: StoredCredential) -> StoredCredential | None:
        """Write over the version that was read; None: another process has written since."""
        body = _encode(msgspec.structs.replace(kept, version=0))
        if not await self._store.put_document(_KIND, _key(kept.caller, kept.provider), body, kept.version):
            return None
        return msgspec.structs.replace(kept, version=kept.version + 1)

    async def listed(self, caller: str | None) -> list[StoredCredential]:
        """Of one caller or of all, also those that are expired or revoked."""
        found: list[StoredCredential] = []
        prefix = "" if caller is None else _key(caller, "")
        after = prefix
        while True:
            page = await self._store.documents(_KIND, after=after, limit=_PAGE)
            for document in page:
                if not document.key.startswith(prefix):
                    return found
                kept = _read(document)
                if kept is not None and caller in (None, kept.caller):
                    found.append(kept)
            if len(page) < _PAGE:
                return found
            after = page[-1].key

    async def is_full(self, caller: str) -> bool:
        """Has the caller as many as one may have? Revoked ones count until they are swept."""
        prefix = _key(caller, "")
        page = await self._store.documents(_KIND, after=prefix, limit=MOST_PER_CALLER)
        return len(page) == MOST_PER_CALLER and page[-1].key.startswith(prefix)

    async def sweep(self, now: float) -> None:
        """Delete what is left of credentials that were revoked a day ago."""
        for kept in await self.listed(None):
            if kept.status == "revoked" and kept.updated_at < now - _TOMBSTONE:
                await self._store.delete_document(_KIND, _key(kept.caller, kept.provider))

    # Changes.

    async def changed(self) -> None:
        """Tell other processes that a credential was put: calls may wait for it."""
        await self._store.put_document(_CHANGES, "all", b"{}", None)

    async def changes(self) -> int:
        """A number that grows with every `changed`."""
        document = await self._store.document(_CHANGES, "all")
        return 0 if document is None else document.version


def _identity(kept: StoredCredential) -> tuple[str, str, str]:
    return kept.caller, kept.provider, kept.id


def _key(caller: str, provider: str) -> str:
    """The caller is hashed: it may be any text, and keys are read in their order."""
    return f"{blake2b(caller.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}:{provider}"


def _read(document: StoredDocument) -> StoredCredential | None:
    try:
        kept = msgspec.json.decode(document.body, type=StoredCredential)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return msgspec.structs.replace(kept, version=document.version)
