"""OAuth 2.1 resource server: which access tokens of an authorization server this server accepts, and which caller each one identifies.

- `config`: the setting `[oauth]`
- `subjects`: the caller that a token's subject becomes
- `refusals`: the two ways in which a token is not accepted
- `issuer_client`: bounded requests to the authorization server, through the address guard
- `issuer_metadata`: where the authorization server has its keys and its introspection (RFC 8414, OpenID Connect)
- `key_set`, `key_cache`: its public keys (JWKS), and their rotation
- `claims`: judges what a token says, signed or introspected
- `signed_tokens`, `introspection`: the two kinds of tokens
- `resource_server`: all of these for one server

The authorization server is another program: nothing here issues a token.
"""
