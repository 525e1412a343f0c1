"""What keeps secrets secret and requests where they may go.

- `vault/`: secrets: recognised, masked, sealed
- `credentials/`: credentials of callers: kept sealed, refreshed, connected by OAuth
- `oauth/`: access tokens of an authorization server: keys, introspection, claims
- `guard`, `transport`, `certificates`: which addresses may be reached; HTTP that reaches no others; TLS trust
"""
