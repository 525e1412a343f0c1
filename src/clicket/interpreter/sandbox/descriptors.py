"""Reads and writes pipes from the event loop without blocking it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import termios

from clicket.system.bridge import fulfil

__all__ = ["has_bytes", "read_all", "send", "wait_readable"]


async def wait_readable(fd: int) -> None:
    """Returns when there is data, or at the end of the pipe."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, fulfil, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def read_all(fd: int, until: bytes | None = None) -> bytes:
    """Read to the end, or until `until` was read."""
    found = b""
    while until is None or until not in found:
        await wait_readable(fd)
        try:
            piece = os.read(fd, 4096)
        except ConnectionResetError:
            piece = b""
        if not piece:
            break
        found += piece
    return found


async def send(fd: int, data: bytes) -> None:
    """Write all data. Returns silently when the reader has closed the pipe."""
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            room: asyncio.Future[None] = loop.create_future()
            loop.add_writer(fd, fulfil, room)
            try:
                await room
            finally:
                loop.remove_writer(fd)
        except BrokenPipeError:
            return


def has_bytes(fd: int) -> bool:
    """Whether there is data to read, not only the end of the pipe."""
    return fcntl.ioctl(fd, termios.FIONREAD, bytes(4)) != bytes(4)
