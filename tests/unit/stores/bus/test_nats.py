"""NATS as the carrier of messages, where a real server is of no use: one that accepts a connection and says nothing."""

from __future__ import annotations

import asyncio

from tests.kit.waiting import PATIENCE

from clicket.stores.bus.nats import NatsCarrier


async def test_a_connection_that_is_still_being_made_is_closed_with_the_carrier() -> None:
    """Else its socket outlives the loop, and is closed when the loop has ended."""
    arrived: asyncio.Future[asyncio.StreamReader] = asyncio.get_running_loop().create_future()
    closed = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set_result(reader)
        await reader.read()
        closed.set()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        carrier = NatsCarrier(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout=60.0)
        carrier.start("space", 1, lambda to, text: None)
        await asyncio.wait_for(arrived, PATIENCE)
        await carrier.close()
        await asyncio.wait_for(closed.wait(), PATIENCE)


async def test_a_url_that_cannot_be_read_is_no_reason_not_to_close() -> None:
    carrier = NatsCarrier("nats://127.0.0.1:no-port")
    carrier.start("space", 1, lambda to, text: None)
    await asyncio.sleep(0)
    await carrier.close()
    assert carrier.trouble is not None
