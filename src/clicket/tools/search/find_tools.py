"""The tool `find_tools`: a model says what it wants to do, and reads which tools can do it. They are offered to it from then on.

It finds what the hub offers to the caller in the thread, and nothing else: a tool that is not available, or that the policy denies to this
caller, is not found. What it prints of a tool comes from that tool, so it is cleaned and of bounded length.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clicket.model.chat import ToolOffer
from clicket.model.codec import clean
from clicket.model.ids import agent_of
from clicket.tools import Options, Tool, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults

if TYPE_CHECKING:  # loaded with the first search
    from clicket.tools.search.index import ToolIndex
    from clicket.tools.search.text_similarity import TextSimilarity

__all__ = ["FIND_OFFER", "FIND_TOOLS", "FindTools", "found_names"]

FIND_TOOLS = "find_tools"
_MAX_FOUND = 20
_MAX_ABOUT = 300
_MAX_PARAMETERS = 30
_NAMES = re.compile(r'\A\s*\{\s*"found"\s*:\s*\[([^\]]*)')
_NAME = re.compile(r'"([A-Za-z0-9_.\-]{1,128})"')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]+")
"""Control, direction and tag characters: a reader does not see them, a model does."""
_DESCRIPTION = (
    "Finds tools by what they do. There are more tools than you see here: say in a few words what you want to do, to what, and "
    "with which service. Words are compared with names and descriptions of tools. The tools that it finds can be called from "
    "your next step on. Search again with other words if none of them fits."
)
_NONE = "No tool fits. Try other words: what is to be done, to what, and with which service."

OfferedTo = Callable[[ToolContext], Awaitable[Sequence[Tool]]]
"""The tools that the hub offers now to the caller of a call, in its thread."""


class FindTools(ToolDefaults):
    """`tools`: every registered tool. `only_of(agent, caller, thread)`: the names to which the thread's turn is limited; None: to none.
    `by_text`: compares whole texts, too, once `prepare` has encoded the tools."""

    name = FIND_TOOLS
    description = _DESCRIPTION
    traits = Traits(listed=False)
    is_async = True
    options = Options(timeout=30, max_retries=0, read_only=True)
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": 2_000,
                "description": "What you want to do, in plain words: 'refund a card payment in Stripe'.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MAX_FOUND,
                "default": 5,
                "description": "How many tools at most.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }

    def __init__(
        self,
        tools: Iterable[Tool],
        offered_to: OfferedTo,
        only_of: Callable[[str, str, str], Collection[str] | None] = lambda agent, caller, thread: None,
        *,
        by_text: TextSimilarity | None = None,
    ) -> None:
        self._tools = tools
        self._offered_to = offered_to
        self._only_of = only_of
        self._by_text = by_text
        self._index: ToolIndex | None = None

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
        offered = await self._offered_to(ctx)
        by_name = {tool.name: tool for tool in offered}
        agent = agent_of(ctx.call_id)
        only = self._only_of(agent, ctx.caller, ctx.thread) if agent else None
        among = by_name.keys() if only is None else by_name.keys() & set(only)
        await self.prepare()
        names = await self.ranked(bound["query"], among, bound.get("limit", 5))
        found: dict[str, Any] = {"found": names, "tools": [_shown(by_name[name]) for name in names]}
        return found if names else {**found, "note": _NONE}

    async def prepare(self) -> None:
        """Encode the tools that are new or have changed, if whole texts are compared."""
        if self._by_text is not None:
            self._current_index()
            await self._by_text.prepare()

    async def ranked(self, query: str, among: Collection[str], limit: int) -> list[str]:
        """The names of the tools that fit a query, the best first. Tools that have joined or changed are read first."""
        index = self._current_index()
        if self._by_text is not None:
            await self._by_text.read(query)
        return index.search(query, limit=limit, among=among)

    def _current_index(self) -> ToolIndex:
        if self._index is None:
            from clicket.tools.search.index import ToolIndex

            self._index = ToolIndex(texts=self._by_text)
        self._index.sync(self._tools)
        return self._index

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


FIND_OFFER = ToolOffer(name=FIND_TOOLS, description=FindTools.description, input_schema=FindTools.input_schema)


def found_names(text: str) -> list[str]:
    """The names in a result of `find_tools`, also if its end was cut off. Other text has none."""
    match = _NAMES.match(text)
    return [] if match is None else _NAME.findall(match[1])


def _shown(tool: Tool) -> dict[str, Any]:
    properties = tool.input_schema.get("properties")
    parameters = list(properties)[:_MAX_PARAMETERS] if isinstance(properties, Mapping) else []
    return {
        "name": tool.name,
        "description": _line(tool.description, _MAX_ABOUT),
        "parameters": [_line(name, 64) for name in parameters],
    }


def _line(text: Any, most: int) -> str:
    """Untrusted text on one line: printable, and no longer than `most` characters."""
    line = " ".join(_CONTROL.sub(" ", clean(text)[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
