"""Mail as it is saved by mail programs: who wrote what to whom, and the text. What is attached is only named."""

from __future__ import annotations

from email import policy
from email.message import EmailMessage
from email.parser import BytesParser

from clicket.search.extract.charset import decode
from clicket.search.extract.extracted import Extracted
from clicket.search.extract.failing import Unreadable
from clicket.search.extract.html import extract_html

__all__ = ["extract_mail"]

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_MAX_PARTS = 200


def extract_mail(data: bytes) -> Extracted:
    message = BytesParser(EmailMessage, policy=policy.default).parsebytes(data)
    told = [(name, " ".join(str(message[name]).split())) for name in _HEADERS if message[name]]
    if not told:
        raise Unreadable("it has no sender and no subject, so it is no mail")
    lines = [f"{name}: {value[:1000]}" for name, value in told]
    texts, attached = _texts(message)
    lines += [f"Attached: {one}" for one in attached]
    title = dict(told).get("Subject", "")
    return Extracted(title=title, text="\n\n".join(("\n".join(lines), *texts)))


def _texts(message: EmailMessage) -> tuple[list[str], list[str]]:
    """The texts, and the names of what is attached. A page is read only where there is no plain text beside it."""
    plain: list[str] = []
    pages: list[str] = []
    attached: list[str] = []
    for number, part in enumerate(message.walk()):
        if number > _MAX_PARTS:
            break
        if part.is_multipart():
            continue
        name = part.get_filename()
        if name:
            attached.append(" ".join(name.split())[:200])
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
