"""Signatures of the Standard Webhooks form: `v1,` and the base64 of an HMAC-SHA256 over id, timestamp and body."""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence

from clicket.errors import UsageError

__all__ = ["key_of", "signed_headers"]

PREFIX = "whsec_"
_LEAST, _MOST = 16, 128


def key_of(secret: str) -> bytes:
    """The bytes of a secret `whsec_BASE64`; `UsageError` does not show it."""
    try:
        key = b64decode(secret.removeprefix(PREFIX).encode(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not _LEAST <= len(key) <= _MOST:
        raise UsageError(
            f"a webhook's secret is {PREFIX} and the base64 of {_LEAST} to {_MOST} random bytes. Make one with: python -c "
            f"\"import base64, os; print('{PREFIX}' + base64.b64encode(os.urandom(32)).decode())\"."
        )
    return key


def signed_headers(secrets: Sequence[str], id: str, at: float, body: bytes) -> dict[str, str]:
    """The three headers. With several secrets there is a signature of each, so that a receiver may have the old or the new one."""
    stamp = str(int(at))
    signed = f"{id}.{stamp}.".encode() + body
    signatures = [b64encode(hmac.digest(key_of(secret), signed, "sha256")).decode() for secret in secrets]
    return {
        "webhook-id": id,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(f"v1,{each}" for each in signatures),
    }
