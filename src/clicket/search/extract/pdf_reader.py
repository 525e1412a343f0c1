"""Runs as a process of its own, without the package: a PDF file on stdin, its text as JSON on stdout. Bounds are set first.

Whatever the file does to it, the worst is the end of this process.
"""

from __future__ import annotations

import json
import sys
from typing import Any

__all__: list[str] = []

_MAX_TEXT = 20_000_000
_MAX_OUTLINE = 5_000


def main() -> None:
    how = json.loads(sys.argv[1])
    sys.path[:] = how["path"]
    _bound(how)
    try:
        told = _read(how["pages"])
    except MemoryError:
        told = {"error": "reading it takes more memory than there is for one file"}
    except RecursionError:
        told = {"error": "damaged: nested too deeply"}
    except Exception as error:  # of a file that may be anything
        told = {"error": f"damaged: {str(error) or type(error).__name__}"[:300]}
    sys.stdout.buffer.write(json.dumps(told).encode())


def _bound(how: dict[str, Any]) -> None:
    try:
        import resource
    except ImportError:  # the clock of the parent is all there is
        return
    seconds = int(how["seconds"]) + 1
    for kind, most in ((resource.RLIMIT_AS, how["memory"]), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, 0)):
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):  # not on this system, or less is allowed already
            continue


def _read(most: int) -> dict[str, Any]:
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
        except Exception:  # a way to encrypt that is not known here
            return locked
    pages, length, failed, count = [], 0, 0, len(reader.pages)
    for number in range(min(count, most)):
        try:
            text = reader.pages[number].extract_text()
        except (MemoryError, RecursionError):
            raise
        except Exception:  # the next page may be well
            text, failed = "", failed + 1
        pages.append(_sound(text))
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


def _sound(text: str) -> str:
    """No half characters, no form feeds but ours, no blanks at the ends of lines."""
    plain = text.encode("utf-8", "replace").decode().replace("\f", "\n").replace("\x00", "")
    return "\n".join(line.rstrip() for line in plain.splitlines()).strip()


def _title(reader: Any) -> str:
    try:
        found = reader.metadata.title if reader.metadata else None
    except Exception:
        return ""
    title = " ".join(_sound(found).split()) if isinstance(found, str) else ""
    title = title.removeprefix("Microsoft Word - ").removeprefix("Microsoft PowerPoint - ")
    return "" if title.lower().startswith("untitled") else title[:500]


def _outline(reader: Any) -> list[tuple[int, int, str]]:
    made: list[tuple[int, int, str]] = []

    def walk(entries: Any, level: int) -> None:
        for one in entries:
            if len(made) >= _MAX_OUTLINE or level > 9:
                return
            if isinstance(one, list):
                walk(one, level + 1)
                continue
            number = reader.get_destination_page_number(one)
            title = " ".join(_sound(str(one.title)).split())[:200]
            if number is not None and number >= 0 and title:
                made.append((number, level, title))

    try:
        walk(reader.outline, 1)
    except Exception:  # a text without its contents is a text
        return made
    return made


if __name__ == "__main__":
    main()
