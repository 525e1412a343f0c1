"""One file's bytes become its text, by the reader that its name asks for. What no reader can make sense of is `Unreadable`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from clicket.search.extract.extracted import Extracted
from clicket.search.extract.failing import Unreadable
from clicket.search.extract.kinds import kind_of

__all__ = ["MAX_FILE", "READER", "extract", "no_reader"]

READER = 1
"""Raised when readers give another text than before: then files that did not change are read again."""
MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file that is read as a whole."""

_READERS = {
    "": "prose:extract_text",
    "text": "prose:extract_text",
    "code": "prose:extract_code",
    "json": "prose:extract_code",
    "markdown": "prose:extract_markdown",
    "html": "prose:extract_page",
    "table": "tables:extract_table",
    "notebook": "notebook:extract_notebook",
    "mail": "mail:extract_mail",
    "pdf": "pdf:extract_pdf",
    "word": "word:extract_word",
    "slides": "slides:extract_slides",
    "sheets": "sheets:extract_sheets",
    "opendocument": "opendocument:extract_opendocument",
    "book": "book:extract_book",
}


def no_reader(name: str) -> str | None:
    """Why a file of this name is not even opened; None when it is."""
    kind = kind_of(name)
    if kind == "none":
        return f"{_ending(name)} files have no text to read"
    if kind == "old office":
        return f"{_ending(name)} files are not read; save them as .docx, .xlsx, .pptx or .pdf"
    return None


def extract(data: bytes, name: str) -> Extracted:
    """The text of a file, or `Unreadable` with the reason."""
    refused = no_reader(name)
    if refused is not None:
        raise Unreadable(refused)
    kind = kind_of(name)
    if kind not in _READERS:
        raise Unreadable(f"{_ending(name)} files hold many documents; add their folder")
    module, function = _READERS[kind].split(":")
    read: Callable[[bytes], Extracted] = getattr(import_module(f"clicket.search.extract.{module}"), function)
    try:
        return read(data)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("damaged: nested too deeply") from None
    except MemoryError:
        raise Unreadable("it takes more memory than there is", again=True) from None
    except Exception as error:  # whatever a reader stumbles over, it is this file's fault, and the next file's turn
        raise Unreadable(f"damaged: {str(error) or type(error).__name__}"[:300]) from error


def _ending(name: str) -> str:
    return f".{name.lower().rpartition('.')[2]}"
