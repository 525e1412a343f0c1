"""Replies of a Redis server, however they are cut into pieces."""

from __future__ import annotations

import pytest

from clicket.stores.redis.replies import Replies

WIRE = (
    b":7\r\n+OK\r\n$-1\r\n$0\r\n\r\n$5\r\na\r\nb\r\r\n*0\r\n*-1\r\n"
    b"*3\r\n:-1\r\n*2\r\n$1\r\nx\r\n*1\r\n$2\r\nyz\r\n$1\r\n\n\r\n-NOSCRIPT none\r\n*2\r\n-ERR inside\r\n:1\r\n"
)
VALUES = [7, b"OK", None, b"", b"a\r\nb\r", [], None, [-1, [b"x", [b"yz"]], b"\n"], "NOSCRIPT none", ["ERR inside", 1]]


def _texts(values: list[object]) -> list[object]:
    return [
        str(value) if isinstance(value, KeyError) else _texts(value) if isinstance(value, list) else value
        for value in values
    ]


class _Error(KeyError):
    __str__ = Exception.__str__


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, len(WIRE)])
def test_pieces_of_any_size_make_the_same_replies(size: int) -> None:
    replies = Replies(_Error)
    found: list[object] = []
    for at in range(0, len(WIRE), size):
        found += replies.feed(WIRE[at : at + size])
    assert _texts(found) == VALUES


def test_a_long_string_in_many_pieces_is_whole() -> None:
    body = bytes(range(256)) * 4096
    wire = b"*2\r\n$%d\r\n%b\r\n:1\r\n:2\r\n" % (len(body), body)
    replies = Replies(_Error)
    found: list[object] = []
    for at in range(0, len(wire), 65536):
        found += replies.feed(wire[at : at + 65536])
    assert found == [[body, 1], 2]


@pytest.mark.parametrize("wire", [b"?what\r\n", b"$x\r\n", b"*\r\n"])
def test_bytes_that_are_no_reply_are_refused(wire: bytes) -> None:
    with pytest.raises(ValueError, match=r"reply|invalid literal"):
        Replies(_Error).feed(wire)
