"""A message: a signature, then JSON: the sender, and its notices. Only processes that can read the store know the secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from hmac import compare_digest

import msgspec

__all__ = ["Notice", "read", "written"]

_SIGNATURE = 32
"""Characters in front of the JSON."""
_encode = msgspec.json.Encoder().encode


class Notice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: str
    key: int
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    sender: int
    notices: list[Notice]


_decode = msgspec.json.Decoder(_Message).decode


def written(notices: Sequence[Notice], sender: int, to: int, secret: bytes, max_size: int) -> Iterator[bytes]:
    """The notices as messages of at most `max_size` bytes. A body that is too long is left out."""
    room = max_size - _SIGNATURE - 40
    group: list[Notice] = []
    size = 0
    for each in notices:
        notice = each
        length = len(notice.body) + len(notice.kind) + 32
        if length > room:
            notice, length = Notice(notice.kind, notice.key), len(notice.kind) + 36
        if group and size + length > room:
            yield _signed(_encode(_Message(sender, group)), to, secret)
            group, size = [], 0
        group.append(notice)
        size += length
    if group:
        yield _signed(_encode(_Message(sender, group)), to, secret)


def read(text: bytes, to: int, secret: bytes) -> tuple[int, list[Notice]] | None:
    """Sender and notices; None: no process with access to the store wrote it."""
    signature, body = text[:_SIGNATURE], text[_SIGNATURE:]
    if not compare_digest(signature, _signature(body, to, secret)):
        return None
    try:
        message = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return message.sender, message.notices


def _signed(body: bytes, to: int, secret: bytes) -> bytes:
    return _signature(body, to, secret) + body


def _signature(body: bytes, to: int, secret: bytes) -> bytes:
    return blake2b(b"%d " % to + body, key=secret, digest_size=_SIGNATURE // 2).hexdigest().encode()
