"""What a person sends to an agent: a text, or texts with images and files between them.

The files are kept before the turn begins. The text has a line for each that names it by the hash of its content: so two messages are the
same if their texts are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from clicket.errors import NotFound, UsageError
from clicket.model.files import File, FileRef
from clicket.model.ports import AgentHost

__all__ = ["Message", "UserMessage", "kept"]

Message = str | File | Sequence[str | File]
"""`"what is this?"`, `[…, Image("photo.png")]`."""


class UserMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message whose files are kept."""

    text: str
    files: tuple[FileRef, ...] = ()


async def kept(host: AgentHost, message: Message | UserMessage) -> UserMessage:
    """The message with its files kept, so that the caller may read them. `UsageError`: it is not a message, or a file cannot be read."""
    if isinstance(message, UserMessage):
        return message
    parts: list[Any] = [message] if isinstance(message, str | File) else list(_listed(message))
    if not parts:
        raise UsageError("a message must not be empty.")
    for part in parts:
        if not isinstance(part, str | File):
            raise UsageError(
                f"a message is a text, an Image, a File, or a list of these, and has {part!r:.100} of type {type(part).__name__}."
            )
    try:
        refs = await host.keep_files([part for part in parts if isinstance(part, File)])
    except NotFound as error:
        raise UsageError(f"{error.message} Upload the file again.") from error
    places = iter(refs)
    lines = [next(places).line if isinstance(part, File) else part for part in parts]
    return UserMessage(text="\n".join(lines), files=tuple(dict.fromkeys(refs)))


def _listed(message: Any) -> Sequence[Any]:
    if isinstance(message, list | tuple):
        return message
    advice = " Name its kind: Image(…) or File(…)." if isinstance(message, bytes | os.PathLike) else ""
    raise UsageError(
        f"a message must be a text that is not empty, or a list of texts and files, not {message!r:.100}.{advice}"
    )
