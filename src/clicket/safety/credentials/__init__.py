"""Credentials of callers for services outside: kept encrypted, refreshed, and connected by a link.

- `provider`: `Provider`, what the settings say about a service
- `credential_documents`: credentials as documents of the store, sealed
- `book`: `CredentialBook`: put, list, revoke, the token of a caller, refresh
- `oauth`, `oauth_http`: requests to authorization servers: registration, codes, refresh; how they are sent
- `discovery`: where an authorization server is
- `connecting`: links, the start page's redirect, and the callback
"""

from clicket.safety.credentials.book import CredentialBook, CredentialOptions, HeldToken
from clicket.safety.credentials.connecting import Connecting, ConnectRefused, Start
from clicket.safety.credentials.provider import Provider, declared_providers

__all__ = [
    "ConnectRefused",
    "Connecting",
    "CredentialBook",
    "CredentialOptions",
    "HeldToken",
    "Provider",
    "Start",
    "declared_providers",
]
