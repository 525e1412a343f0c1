"""Waits for descriptors without keeping the loop from anything else."""

from __future__ import annotations

import asyncio
import fcntl
import os
import termios

from clicket.bridge import fulfil

__all__ = ["has_bytes", "read_all", "send", "wait_readable"]


async def wait_readable(fd: int) -> None:
    """Until there is something to read, or the end of it."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, fulfil, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def read_all(fd: int, until: bytes | None = None) -> bytes:
    """To the end, or to a mark."""
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
    """All of it, however small the pipe is. A reader that is gone is noticed elsewhere."""
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
    """Whether there is something to read other than the end."""
    return fcntl.ioctl(fd, termios.FIONREAD, bytes(4)) != bytes(4)
