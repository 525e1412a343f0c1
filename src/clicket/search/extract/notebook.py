"""Jupyter notebooks: prose and code in order, with the printed output. Pictures and other data are left out."""

from __future__ import annotations

from typing import Any

from clicket.search.extract.extracted_text import Extracted, Unreadable
from clicket.search.extract.json_records import decode_json
from clicket.search.extract.plain_text import markdown

__all__ = ["extract_notebook"]

_MAX_OUTPUT = 20_000
"""Characters of one output. What a longer log says further on is seldom searched for."""


def extract_notebook(data: bytes) -> Extracted:
    cells = _cells(decode_json(data))
    if cells is None:
        raise Unreadable("it is not a notebook: it has no cells")
    parts = []
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        source = _text(cell.get("source", cell.get("input", ""))).strip("\n")
        if cell.get("cell_type") == "heading":  # notebooks before version 4
            level = cell.get("level")
            source = f"{'#' * (min(max(level, 1), 6) if isinstance(level, int) else 1)} {source}"
        elif cell.get("cell_type") == "code" and source.strip():
            source = f"```\n{source}\n```"  # so that a comment is not taken for a heading
        outputs = [_output(one).strip("\n")[:_MAX_OUTPUT] for one in cell.get("outputs") or () if isinstance(one, dict)]
        parts += [one for one in (source, *outputs) if one.strip()]
    return markdown("\n\n".join(parts).replace("\r\n", "\n"))


def _cells(notebook: Any) -> list[Any] | None:
    if not isinstance(notebook, dict):
        return None
    cells = notebook.get("cells")
    if isinstance(cells, list):
        return cells
    sheets = notebook.get("worksheets")  # notebooks before version 4
    if isinstance(sheets, list):
        return [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or ()]
    return None


def _output(output: dict[str, Any]) -> str:
    data = output.get("data")
    if isinstance(data, dict):
        return _text(data.get("text/markdown") or data.get("text/plain") or "")
    return _text(output.get("text", ""))


def _text(value: Any) -> str:
    """A notebook stores a text as a string or as a list of lines."""
    if isinstance(value, list):
        return "".join(one for one in value if isinstance(one, str))
    return value if isinstance(value, str) else ""
