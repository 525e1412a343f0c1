"""Files on their way to the server: uploads, and messages whose files are uploaded first."""

from __future__ import annotations

import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

from clicket.agents import Message
from clicket.client.connection import Connection
from clicket.engine.executors import ArtifactSource, chunks_of
from clicket.errors import UsageError
from clicket.model.files import File, artifact_in

__all__ = ["message_body", "upload"]


async def upload(connection: Connection, data: ArtifactSource) -> str:
    """Store a file on the server; returns its name."""
    headers = {"content-type": "application/octet-stream"}
    async with aclosing(chunks_of(data)) as chunks:
        raw = data if isinstance(data, bytes) else chunks
        return await connection.read_field("POST", "/artifacts", "id", str, raw=raw, headers=headers)


async def message_body(connection: Connection, message: Message) -> str | list[Any]:
    """The message as a request has it, its files uploaded. The same files get the same names, so it can be sent again."""
    if isinstance(message, str):
        return message
    if not isinstance(message, File | list | tuple):
        raise UsageError(f"a message is a text, an Image, a File, or a list of these, not {message!r:.100}.")
    parts = [message] if isinstance(message, File) else message
    return [part if isinstance(part, str) else await _uploaded(connection, part) for part in parts]


async def _uploaded(connection: Connection, file: Any) -> dict[str, str]:
    if not isinstance(file, File):
        raise UsageError(f"a message has texts, Images and Files, not {file!r:.100}.")
    name = artifact_in(file.source)
    if name is None:
        source = file.source if isinstance(file.source, bytes) else Path(os.fspath(file.source))
        name = await upload(connection, source)
    made = {"artifact": name, "name": file.name, "media_type": file.media_type or ""}
    return {key: value for key, value in made.items() if value}
