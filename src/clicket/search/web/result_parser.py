"""Finds the list of results in the output of any search tool: JSON in the usual shapes, MCP content, or text for a model with
titles and URLs in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from clicket.search.web.json_path import JsonPath

__all__ = ["entries_of"]

_RESULT_LISTS = JsonPath(
    "results|web.results|organic|webPages.value|documents|docs|items|hits|data.results|organic_results|web_results|data|sources"
)
_MAX_TEXT = 2_000_000
_MAX_ENTRIES = 1_000
_MAX_LINE = 3_000  # longer lines are text, whatever they begin with
_FIELD = re.compile(
    r"[\s>*_#-]{0,20}(?:\d{1,3}[.)]\s{0,4})?[*_]{0,3}"
    r"(title|url|link|source|description|content|snippet|summary|text|highlights?)[*_]{0,3}\s?:[*_]{0,3}\s*(.*)",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"[\s>*_#-]{0,20}(?:\d{1,3}[.)]\s{0,4})?[*_]{0,3}\[([^\]\n]{1,500})\]\((https?://[^\s)]{1,2000})\)[*_]{0,3}(.*)"
)
_NUMBERED = re.compile(r"\s{0,8}(?:#{1,4}\s|\d{1,3}[.)]\s|\[\d{1,3}\]\s)(.{1,500})")
_BARE_URL = re.compile(r"[\s>*-]{0,20}<?(https?://[^\s<>]{1,2000})>?\s*")
_NO_RESULTS = re.compile(
    r"\W*(?:no|0|zero)\b.{0,40}\b(?:results?|matches|documents|hits)\b|\W*nothing\b.{0,20}\bfound\b", re.IGNORECASE
)
_FIELD_NAMES = {"url": "url", "link": "url", "source": "url", "title": "title"}


def entries_of(output: Any, results: JsonPath | None = None) -> list[Any] | None:
    """The results in a tool's output; None when it contains no list of results."""
    if results is not None:
        value = _decoded(_unwrapped(output))
        found = results.find(value)
        return found if isinstance(found, list) else None
    return _entries(output, depth=0)


def _entries(output: Any, depth: int) -> list[Any] | None:
    value = _unwrapped(output)
    if isinstance(value, str):
        decoded = _decoded(value)
        return _from_text(value) if isinstance(decoded, str) else _entries(decoded, depth + 1)
    if isinstance(value, list):
        if value and all(isinstance(item, Mapping) and item.get("type") in ("text", "resource") for item in value):
            return _from_blocks(value, depth)
        return [{"text": item} if isinstance(item, str) else item for item in value[:_MAX_ENTRIES]]
    if not isinstance(value, Mapping):
        return None
    listed = _RESULT_LISTS.find(value)
    if isinstance(listed, list):
        return _entries(listed, depth + 1)
    if "result" in value and depth < 4:  # MCP servers wrap values that are no object
        return _entries(value["result"], depth + 1)
    return [value] if any(name in value for name in ("text", "content", "snippet", "title")) else None


def _unwrapped(output: Any) -> Any:
    """Of MCP content: the structured content if there is some, else the blocks."""
    if isinstance(output, Mapping) and isinstance(output.get("content"), list):
        for name in ("structured", "structuredContent"):
            if output.get(name) is not None:
                return output[name]
        if all(isinstance(block, Mapping) and "type" in block for block in output["content"]):
            return output["content"]
    return output


def _decoded(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _from_blocks(blocks: list[Any], depth: int) -> list[Any] | None:
    """One result in each block, or all of them in one text."""
    if depth > 4:
        return None
    found: list[Any] = []
    for block in blocks[:_MAX_ENTRIES]:
        inner = block.get("resource")
        if isinstance(inner, Mapping):
            found.append(
                {"text": inner.get("text"), "url": inner.get("uri"), "title": inner.get("title") or inner.get("name")}
            )
        elif isinstance(block.get("text"), str):
            found += _entries(block["text"], depth + 1) or []
    return found


def _from_text(text: str) -> list[Any]:
    """Results in text that was written for a model. A text without URLs is one document."""
    text = text[:_MAX_TEXT]
    if len(text) < 300 and _NO_RESULTS.match(text):
        return []
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        _take(line, found)
    listed = [entry for entry in found if entry.get("url")]
    if not listed:
        return [{"text": text}] if text.strip() else []
    for entry in listed:
        entry["text"] = "\n".join(entry.pop("lines", [])).strip()
    return listed[:_MAX_ENTRIES]


def _take(line: str, found: list[dict[str, Any]]) -> None:
    """One line begins a result, gives a field of the last one, or continues its text."""
    now = found[-1] if found else {}
    if len(line) > _MAX_LINE:
        if found:
            found[-1]["lines"].append(line)
    elif link := _LINK.fullmatch(line):
        found.append({"title": link[1], "url": link[2], "lines": [link[3].strip(" -:")]})
    elif field := _FIELD.fullmatch(line):
        name = _FIELD_NAMES.get(field[1].lower(), "text")
        value = field[2].strip()
        if name == "url" and not value.startswith(("http://", "https://")):
            return  # the name of a source, not its URL
        if name == "title" or not found or (name == "url" and "url" in now):
            found.append({"lines": []})
        if name == "text":
            found[-1]["lines"].append(value)
        else:
            found[-1].setdefault(name, value)
    elif bare := _BARE_URL.fullmatch(line):
        if not found or "url" in now:
            found.append({"lines": []})
        found[-1]["url"] = bare[1]
    elif (numbered := _NUMBERED.fullmatch(line)) and (not found or "url" in now):
        found.append({"title": numbered[1].strip(" *_"), "lines": []})
    elif found:
        found[-1]["lines"].append(line)
