"""Small pictures, made without a library."""

from __future__ import annotations

import struct
import zlib

__all__ = ["png"]


def png(width: int = 4, height: int = 3, shade: int = 0) -> bytes:
    """A picture of one colour. Equal arguments give equal bytes."""
    pixels = zlib.compress(b"".join(b"\0" + bytes((shade, 0, 0)) * width for _ in range(height)))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
