"""Anthropic's prompt cache, as its documentation describes it: which of a request's tokens it reads, writes, or takes as new.

A prompt is read in the order tools, system, messages. A mark (`cache_control`) caches all up to its block, if that is long enough; at each
mark the cache looks for what it has, at that block and at most 19 before it. A token is counted as four characters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

__all__ = ["PromptCache", "wrong_marks"]

_MOST_MARKS = 4
_LOOKS_BACK = 20
Body = Mapping[str, Any]


def wrong_marks(body: Body) -> str | None:
    """Why the vendor refuses the request's marks; None: it takes them."""
    marked = [block for block in _blocks(body) if "cache_control" in block]
    if len(marked) > _MOST_MARKS:
        return f"A maximum of {_MOST_MARKS} blocks with cache_control may be provided. Found {len(marked)}."
    for block in marked:
        if block.get("defer_loading"):
            return f"Tool {block['name']!r} cannot have both defer_loading=true and cache_control set."
        if block.get("type") in ("thinking", "redacted_thinking") or block.get("text") == "":
            return f"{block['type']}.cache_control: Extra inputs are not permitted"
    return None


class PromptCache:
    """`minimum`: the shortest prompt that is cached, in tokens."""

    def __init__(self, minimum: int = 1_024) -> None:
        self._minimum = minimum
        self._kept: set[str] = set()

    def usage(self, body: Body) -> dict[str, int]:
        """The input's counts of one request, as the vendor reports them."""
        blocks = [block for block in _blocks(body) if not block.get("defer_loading")]
        prefix, size, hashes, sizes, marks = sha256(), 0, list[str](), list[int](), list[int]()
        for place, block in enumerate(blocks):
            text = json.dumps({key: value for key, value in block.items() if key != "cache_control"}, sort_keys=True)
            prefix.update(text.encode())
            size += -(-len(text) // 4)
            hashes.append(prefix.hexdigest())
            sizes.append(size)
            if "cache_control" in block:
                marks.append(place)
        looked_at = {place for mark in marks for place in range(max(0, mark - _LOOKS_BACK + 1), mark + 1)}
        read = max((sizes[place] for place in looked_at if hashes[place] in self._kept), default=0)
        kept = [place for place in marks if sizes[place] >= self._minimum]
        self._kept.update(hashes[place] for place in kept)
        through = max([read, *(sizes[place] for place in kept)])
        return {
            "input_tokens": size - through,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": through - read,
        }


def _blocks(body: Body) -> list[dict[str, Any]]:
    """The parts of the prompt in their order; a text and a list of one text are the same."""
    system, made = body.get("system", []), list(body.get("tools", ()))
    made += [{"type": "text", "text": system}] if isinstance(system, str) else system
    for message in body["messages"]:
        content, role = message["content"], message["role"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        made += [{**block, "role": role} for block in blocks]
    return made
