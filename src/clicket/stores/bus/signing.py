"""An envelope: a signature, then JSON: the sender, and its messages. Only processes that can read the store know the secret.

A store that sends an envelope with a commit puts the keys of the calls that the commit created in front of it: `+`, the keys with commas, a
new line. They are not signed. A wrong key does no harm: a claim names the call also by its id and its time, and is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from hmac import compare_digest

import msgspec

__all__ = ["BusMessage", "read", "sealed", "written"]

_SIGNATURE = 32
"""Characters in front of the JSON."""
_MAX_KEY = 20
"""Characters of a key in front of an envelope, with its comma."""
_encode = msgspec.json.Encoder().encode


class BusMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: str
    key: int
    """-1: that of a new call, which is in front of the envelope."""
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct, frozen=True, array_like=True, gc=False):
    sender: int
    messages: list[BusMessage]


_decode = msgspec.json.Decoder(_Envelope).decode


def written(messages: Sequence[BusMessage], sender: int, to: int, secret: bytes, max_size: int) -> Iterator[bytes]:
    """The messages as envelopes of at most `max_size` bytes. A body that is too long is left out."""
    room = max_size - _SIGNATURE - 40
    group: list[BusMessage] = []
    size = 0
    for each in messages:
        message = each
        length = len(message.body) + len(message.kind) + 32
        if length > room:
            message, length = BusMessage(message.kind, message.key), len(message.kind) + 36
        if group and size + length > room:
            yield _signed(_encode(_Envelope(sender, group)), to, secret)
            group, size = [], 0
        group.append(message)
        size += length
    if group:
        yield _signed(_encode(_Envelope(sender, group)), to, secret)


def sealed(
    messages: Sequence[BusMessage], sender: int, to: int, secret: bytes, max_size: int, new: int
) -> bytes | None:
    """The messages as one envelope; `new`: how many keys the store puts in front of it. None: it would be too long."""
    body = _encode(_Envelope(sender, list(messages)))
    if len(body) + _SIGNATURE + 2 + new * _MAX_KEY > max_size:
        return None
    return _signed(body, to, secret)


def read(text: bytes, to: int, secret: bytes) -> tuple[int, list[BusMessage]] | None:
    """Sender and messages; None: no process with access to the store wrote it."""
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
        envelope = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    messages = envelope.messages
    if keys:
        places = [place for place, message in enumerate(messages) if message.key == -1]
        if len(places) != len(keys):
            return None
        for place, key in zip(places, keys, strict=True):
            messages[place] = BusMessage(messages[place].kind, key, messages[place].body)
    return envelope.sender, messages


def _signed(body: bytes, to: int, secret: bytes) -> bytes:
    return _signature(body, to, secret) + body


def _signature(body: bytes, to: int, secret: bytes) -> bytes:
    return blake2b(b"%d " % to + body, key=secret, digest_size=_SIGNATURE // 2).hexdigest().encode()
