"""A message: a signature, then JSON: the sender, and its notices. Only processes that can read the store know the secret.

A store that sends a message with a commit puts the keys of the calls that the commit created in front of it: `+`, the keys with commas, a
new line. They are not signed. A wrong key does no harm: a claim names the call also by its id and its time, and is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from hmac import compare_digest

import msgspec

__all__ = ["Notice", "read", "sealed", "written"]

_SIGNATURE = 32
"""Characters in front of the JSON."""
_MAX_KEY = 20
"""Characters of a key in front of a message, with its comma."""
_encode = msgspec.json.Encoder().encode


class Notice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: str
    key: int
    """-1: that of a new call, which is in front of the message."""
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


def sealed(notices: Sequence[Notice], sender: int, to: int, secret: bytes, max_size: int, new: int) -> bytes | None:
    """The notices as one message; `new`: how many keys the store puts in front of it. None: it would be too long."""
    body = _encode(_Message(sender, list(notices)))
    if len(body) + _SIGNATURE + 2 + new * _MAX_KEY > max_size:
        return None
    return _signed(body, to, secret)


def read(text: bytes, to: int, secret: bytes) -> tuple[int, list[Notice]] | None:
    """Sender and notices; None: no process with access to the store wrote it."""
    keys: list[int] = []
    if text[:1] == b"+":
        new, _, text = text[1:].partition(b"\n")
        try:
            keys = [int(key) for key in new.split(b",")]
        except ValueError:
            return None
    signature, body = text[:_SIGNATURE], text[_SIGNATURE:]
    if not compare_digest(signature, _signature(body, to, secret)):
        return None
    try:
        message = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    notices = message.notices
    if keys:
        places = [place for place, notice in enumerate(notices) if notice.key == -1]
        if len(places) != len(keys):
            return None
        for place, key in zip(places, keys, strict=True):
            notices[place] = Notice(notices[place].kind, key, notices[place].body)
    return message.sender, notices


def _signed(body: bytes, to: int, secret: bytes) -> bytes:
    return _signature(body, to, secret) + body


def _signature(body: bytes, to: int, secret: bytes) -> bytes:
    return blake2b(b"%d " % to + body, key=secret, digest_size=_SIGNATURE // 2).hexdigest().encode()
