"""The child process of `pdf`: reads a PDF file from stdin and writes its text as JSON to stdout. It imports nothing of clicket.

Limits are set before the file is read. At worst, a file ends this process.
"""

from __future__ import annotations

import json
import sys
from typing import Any

__all__: list[str] = []

_MAX_TEXT = 20_000_000
_MAX_OUTLINE = 5_000


def main() -> None:
    settings = json.loads(sys.argv[1])
    sys.path[:] = settings["path"]
    _set_limits(settings)
    try:
        output = _read(settings["pages"])
    except MemoryError:
        output = {"error": "reading it takes more memory than one file may use"}
    except RecursionError:
        output = {"error": "damaged: nested too deeply"}
    except Exception as error:  # a hostile file can make pypdf raise anything
        output = {"error": f"damaged: {str(error) or type(error).__name__}"[:300]}
    sys.stdout.buffer.write(json.dumps(output).encode())


def _set_limits(settings: dict[str, Any]) -> None:
    try:
        import resource
    except ImportError:  # no limits on this system but the parent's timeout
        return
    seconds = int(settings["seconds"]) + 1
    for kind, limit in (
        (resource.RLIMIT_AS, settings["memory"]),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
    ):
        try:
            resource.setrlimit(kind, (limit, limit))
        except (ValueError, OSError):  # unknown to this system, or a lower limit holds already
            continue


def _read(max_pages: int) -> dict[str, Any]:
    import logging
    import warnings
    from io import BytesIO

    logging.disable()
    warnings.simplefilter("ignore")
    from pypdf import PdfReader

    reader = PdfReader(BytesIO(sys.stdin.buffer.read()), strict=False)
    if reader.is_encrypted:
        locked = {"error": "encrypted: it asks for a password"}
        try:
            if not reader.decrypt(""):
                return locked
        except Exception:  # an unknown encryption
            return locked
    pages = []
    length = 0
    failed = 0
    count = len(reader.pages)
    for number in range(min(count, max_pages)):
        try:
            text = reader.pages[number].extract_text()
        except (MemoryError, RecursionError):
            raise
        except Exception:  # the next page may be readable
            text, failed = "", failed + 1
        pages.append(_clean(text))
        length += len(text)
        if length > _MAX_TEXT:
            break
    if failed and failed == len(pages):
        return {"error": "damaged: none of its pages can be read"}
    return {
        "title": _title(reader),
        "pages": pages,
        "outline": _outline(reader),
        "truncated": len(pages) < count or failed > 0,
    }


def _clean(text: str) -> str:
    """Without surrogates, form feeds, NUL characters and trailing blanks."""
    plain = text.encode("utf-8", "replace").decode().replace("\f", "\n").replace("\x00", "")
    return "\n".join(line.rstrip() for line in plain.splitlines()).strip()


def _title(reader: Any) -> str:
    try:
        title = reader.metadata.title if reader.metadata else None
    except Exception:
        return ""
    title = " ".join(_clean(title).split()) if isinstance(title, str) else ""
    title = title.removeprefix("Microsoft Word - ").removeprefix("Microsoft PowerPoint - ")
    return "" if title.lower().startswith("untitled") else title[:500]


def _outline(reader: Any) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []

    def walk(entries: Any, level: int) -> None:
        for entry in entries:
            if len(found) >= _MAX_OUTLINE or level > 9:
                return
            if isinstance(entry, list):
                walk(entry, level + 1)
                continue
            number = reader.get_destination_page_number(entry)
            title = " ".join(_clean(str(entry.title)).split())[:200]
            if number is not None and number >= 0 and title:
                found.append((number, level, title))

    try:
        walk(reader.outline, 1)
    except Exception:  # the text is useful without its table of contents
        return found
    return found


if __name__ == "__main__":
    main()
