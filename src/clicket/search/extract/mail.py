"""Saved mail: the headers that a reader sees, and the text. Attachments are listed by name only.

Python's parser is slow on hostile mail, so a file with more lines or parts than real mail has is refused before parsing.
"""

from __future__ import annotations

import re
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import Message

from clicket.model.text.charset import decode
from clicket.search.extract.extracted_text import Extracted, Unreadable
from clicket.search.extract.html import extract_html

__all__ = ["extract_mail"]

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_MAX_READ = 8 * 1024 * 1024
_MAX_LINES, _MAX_NESTED, _MAX_PARTS = 200_000, 30, 1_000
_MAX_HEADER = 2_000
_STRUCTURE = re.compile(rb"^content-(?:type|disposition):[^\n]*(?:\n[ \t][^\n]*)*", re.IGNORECASE | re.MULTILINE)


def extract_mail(data: bytes) -> Extracted:
    """Only the first 8 MiB are read: texts come first in a mail, attachments after them."""
    read = data[:_MAX_READ]
    if (
        read.count(b"\n") > _MAX_LINES
        or read.lower().count(b"multipart/") > _MAX_NESTED
        or read.count(b"\n--") > _MAX_PARTS
        or any(len(one[0]) > 2 * _MAX_HEADER for one in _STRUCTURE.finditer(read))
    ):
        raise Unreadable("it has more lines or parts than mail has")
    message = message_from_bytes(read)
    headers = {name: value for name in _HEADERS if (value := _header(message, name))}
    if not headers:
        raise Unreadable("it is not an e-mail: it has no sender and no subject")
    texts, attachments = _texts(message)
    lines = [f"{name}: {value}" for name, value in headers.items()] + [f"Attached: {name}" for name in attachments]
    text = "\n\n".join(("\n".join(lines), *texts))
    return Extracted(title=headers.get("Subject", ""), text=text, truncated=len(read) < len(data))


def _header(message: Message, name: str) -> str:
    raw = str(message.get(name, ""))[:_MAX_HEADER]
    try:
        value = str(make_header(decode_header(raw)))
    except (LookupError, ValueError):  # an unknown charset
        value = raw
    return " ".join(value.encode(errors="replace").decode().split())


def _texts(message: Message) -> tuple[list[str], list[str]]:
    """The texts, and the names of the attachments. HTML parts are read only in mail without a plain text."""
    plain: list[str] = []
    pages: list[str] = []
    attachments: list[str] = []
    for part in message.walk():
        if part.is_multipart():
            continue
        name = part.get_filename()
        if name:
            attachments.append(" ".join(name.encode(errors="replace").decode().split())[:200])
            continue
        content = part.get_payload(decode=True)
        if not isinstance(content, bytes):
            continue
        charset = part.get_content_charset()
        if part.get_content_type() == "text/plain":
            plain.append(decode(content, charset).replace("\r\n", "\n").strip())
        elif part.get_content_type() == "text/html":
            pages.append(extract_html(content, charset=charset).text)
    return [text for text in (plain if any(plain) else pages) if text], attachments
