"""Mail as it is saved by mail programs: who wrote what to whom, and the text. What is attached is only named.

Python's parser was not made for mail that wants to keep it busy, so what no real mail has is refused before it is parsed.
"""

from __future__ import annotations

import re
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import Message

from clicket.search.extract.charset import decode
from clicket.search.extract.extracted import Extracted
from clicket.search.extract.failing import Unreadable
from clicket.search.extract.html import extract_html

__all__ = ["extract_mail"]

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_MAX_READ = 8 * 1024 * 1024
_MAX_LINES, _MAX_NESTED, _MAX_PARTS = 200_000, 30, 1_000
_MAX_HEADER = 2_000
_STRUCTURE = re.compile(rb"^content-(?:type|disposition):[^\n]*(?:\n[ \t][^\n]*)*", re.IGNORECASE | re.MULTILINE)


def extract_mail(data: bytes) -> Extracted:
    """Texts come first in a mail; of a long one the rest is attachments, and is not read."""
    read = data[:_MAX_READ]
    if (
        read.count(b"\n") > _MAX_LINES
        or read.lower().count(b"multipart/") > _MAX_NESTED
        or read.count(b"\n--") > _MAX_PARTS
        or any(len(one[0]) > 2 * _MAX_HEADER for one in _STRUCTURE.finditer(read))
    ):
        raise Unreadable("it has more lines or parts than mail has")
    message = message_from_bytes(read)
    told = {name: said for name in _HEADERS if (said := _header(message, name))}
    if not told:
        raise Unreadable("it has no sender and no subject, so it is no mail")
    texts, attached = _texts(message)
    lines = [f"{name}: {said}" for name, said in told.items()] + [f"Attached: {one}" for one in attached]
    return Extracted(
        title=told.get("Subject", ""), text="\n\n".join(("\n".join(lines), *texts)), truncated=len(read) < len(data)
    )


def _header(message: Message, name: str) -> str:
    raw = str(message.get(name, ""))[:_MAX_HEADER]
    try:
        said = str(make_header(decode_header(raw)))
    except (LookupError, ValueError):  # a charset that nobody knows
        said = raw
    return " ".join(said.encode(errors="replace").decode().split())


def _texts(message: Message) -> tuple[list[str], list[str]]:
    """The texts, and the names of what is attached. A page is read only where there is no plain text beside it."""
    plain: list[str] = []
    pages: list[str] = []
    attached: list[str] = []
    for part in message.walk():
        if part.is_multipart():
            continue
        name = part.get_filename()
        if name:
            attached.append(" ".join(name.encode(errors="replace").decode().split())[:200])
            continue
        content = part.get_payload(decode=True)
        if not isinstance(content, bytes):
            continue
        charset = part.get_content_charset()
        if part.get_content_type() == "text/plain":
            plain.append(decode(content, charset).replace("\r\n", "\n").strip())
        elif part.get_content_type() == "text/html":
            pages.append(extract_html(content, charset=charset).text)
    return [one for one in (plain if any(plain) else pages) if one], attached
