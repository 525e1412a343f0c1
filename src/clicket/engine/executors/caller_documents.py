"""Documents of one caller. One that holds a secret is sealed for this caller, kind and key; without a key its secrets are masked."""

from __future__ import annotations

from clicket.model.codec import decode, encode
from clicket.model.ports import Clock, Records
from clicket.safety.vault import Vault, has_marker, hide, holds_secret

__all__ = ["SEALED", "CallerDocuments"]

SEALED = b'{"sealed":"'
_PART = "paper"


class CallerDocuments:
    def __init__(self, records: Records, vault: Vault, caller: str, clock: Clock) -> None:
        self.records: Records = records
        self.caller: str = caller
        self.clock: Clock = clock
        self._vault = vault

    def protect(self, kind: str, key: str, body: bytes) -> bytes:
        """A body as it is stored."""
        text = body.decode()
        if not has_marker(text) or not holds_secret(text):
            return body
        if self._vault.seals:
            return encode({"sealed": self._vault.seal((self.caller, kind, key), _PART, body)})
        return encode(hide(decode(body), None))

    def reveal(self, kind: str, key: str, body: bytes) -> bytes | None:
        """The inverse of `protect`; None: this process has no key for it."""
        if not body.startswith(SEALED):
            return body
        return self._vault.unsealed((self.caller, kind, key), _PART, decode(body).get("sealed"))
