"""PDF files, read by pypdf in a child process with limits on memory and time: a hostile file can make a parser run forever.

Pages are separated by form feeds, so the page of an offset can be counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from clicket.search.extract.extracted_text import Extracted, Heading, Unreadable

__all__ = ["MAX_SECONDS", "extract_pdf"]

MAX_SECONDS = 60.0
MAX_MEMORY = 1024**3
MAX_PAGES = 3000
_CHILD = Path(__file__).with_name("pdf_child.py")
_BETWEEN = "\n\n\f"
_NEEDED = "needs pypdf: pip install 'clicket[documents]'"


class _Read(msgspec.Struct, frozen=True):
    """The output of the child process."""

    title: str = ""
    pages: list[str] = []
    outline: list[tuple[int, int, str]] = []
    """The table of contents: page (from 0), level (from 1) and text of each entry."""
    truncated: bool = False
    error: str = ""


def extract_pdf(data: bytes, *, seconds: float = MAX_SECONDS) -> Extracted:
    if b"%PDF-" not in data[:1024]:
        raise Unreadable("damaged: it does not begin like a PDF file")
    if not pypdf_installed():
        raise Unreadable(_NEEDED, again=True)
    read = _run(data, seconds)
    if read.error:
        raise Unreadable(read.error)
    starts, at = [], 0
    for page in read.pages:
        starts.append(at)
        at += len(page) + len(_BETWEEN)
    text = _BETWEEN.join(read.pages)
    if not text.strip():
        raise Unreadable("it has no text: its pages are pictures")
    headings = []
    for number, level, title in read.outline:
        if number < len(starts):
            found = text.find(title, starts[number], starts[number] + len(read.pages[number]))
            if found >= 0:
                headings.append(Heading(text=title, start=found, level=level))
    headings.sort(key=lambda one: one.start)
    return Extracted(title=read.title, text=text, headings=tuple(headings), truncated=read.truncated)


@cache
def pypdf_installed() -> bool:
    return find_spec("pypdf") is not None


def _run(data: bytes, seconds: float) -> _Read:
    path = [os.path.abspath(entry) for entry in sys.path]  # the child has another working directory
    settings = json.dumps({"path": path, "memory": MAX_MEMORY, "seconds": seconds, "pages": MAX_PAGES})
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(_CHILD), settings],
            input=data,
            capture_output=True,
            timeout=seconds,
            check=False,
            cwd="/",
            env={"LC_ALL": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired:
        raise Unreadable(f"reading it took longer than {seconds:.0f} s") from None
    try:
        return msgspec.json.decode(done.stdout, type=_Read)
    except msgspec.DecodeError:
        if done.returncode < 0:
            raise Unreadable("reading it took more time or memory than one file may use") from None
        raise Unreadable("reading it failed for an unknown reason") from None
