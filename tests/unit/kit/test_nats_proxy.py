"""The proxy that alters the messages of a NATS server."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.waiting import PATIENCE
from tests.nats_proxy import faulty_nats, frames

STREAM = b"INFO {}\r\nPING\r\nMSG a.b 1 5\r\na\r\nbc\r\nMSG a.c 2 reply 0\r\n\r\nPONG\r\n"
FRAMES = [
    (False, b"INFO {}\r\n"),
    (False, b"PING\r\n"),
    (True, b"MSG a.b 1 5\r\na\r\nbc\r\n"),
    (True, b"MSG a.c 2 reply 0\r\n\r\n"),
    (False, b"PONG\r\n"),
]


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_frames_are_found_in_pieces_of_any_size(size: int) -> None:
    buffer, found = bytearray(), []
    for start in range(0, len(STREAM), size):
        buffer += STREAM[start : start + size]
        found += frames(buffer)
    assert found == FRAMES
    assert not buffer


@pytest.mark.parametrize(
    ("chances", "copies"),
    [({"drop": 1.0, "double": 0.0}, 0), ({"drop": 0.0, "double": 1.0}, 2)],
    ids=["drop", "double"],
)
async def test_messages_are_altered_and_the_protocol_is_not(chances: dict[str, float], copies: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM)
        await reader.read()  # until the client leaves
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, faulty_nats(server.sockets[0].getsockname()[1], 1, delay=0.0, **chances) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        expected = sorted(frame for is_message, frame in FRAMES for _ in range(copies if is_message else 1))
        data = await asyncio.wait_for(reader.readexactly(sum(map(len, expected))), PATIENCE)
        assert sorted(frame for _, frame in frames(bytearray(data))) == expected
        assert (proxy.dropped, proxy.doubled) == ((2, 0) if copies == 0 else (0, 2))
        writer.transport.abort()
