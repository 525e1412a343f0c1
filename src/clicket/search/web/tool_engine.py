"""Any tool that searches as a search engine: a function, a REST tool, or an imported tool of an MCP server. Each query is a call of
that tool, with its retries, limits and record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clicket.errors import UsageError
from clicket.model.document import Document
from clicket.model.ports import Caller
from clicket.search.engines.adapter import Answer, EngineFailed
from clicket.search.web.engine_errors import engine_error
from clicket.search.web.json_path import JsonPath
from clicket.search.web.result_fields import Fields
from clicket.search.web.result_parser import entries_of

__all__ = ["ToolEngine"]


class ToolEngine:
    """`ToolEngine(runtime, "brave_web_search", argument="query", k_argument="count")`.

    `caller` is a runtime, or a client of one. `argument` is the tool's argument for the query, `k_argument` that for the number of
    results, if it has one; `arguments` are further arguments. `results` and `fields` are the paths to the results in its output
    and to their fields; without them the usual paths are tried, and a text is parsed as a list of results.
    """

    def __init__(
        self,
        caller: Caller,
        tool: str,
        *,
        name: str | None = None,
        argument: str = "query",
        k_argument: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        results: str | None = None,
        fields: Mapping[str, str] | None = None,
        html: bool = False,
        thread: str = "web-search",
    ) -> None:
        if not hasattr(caller, "call"):
            raise UsageError(f"ToolEngine takes a runtime, or a client of one, not {type(caller).__name__}.")
        self.name: str = name or tool
        self._caller, self._tool, self._thread = caller, tool, thread
        self._argument = argument
        self._k_argument = k_argument
        self._arguments = dict(arguments or {})
        self._results = None if results is None else JsonPath(results)
        self._fields = Fields(fields, html=html)

    def __repr__(self) -> str:
        return f"<search engine {self.name}>"

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]:
        return (await self.ask(query, k=k, deadline=deadline)).documents

    async def ask(self, query: str, *, k: int, deadline: float | None) -> Answer:
        """The documents in the tool's output. Raises `EngineFailed` when the call failed or its output contains no results."""
        given = {**self._arguments, self._argument: query}
        if self._k_argument is not None:
            given[self._k_argument] = k
        result = await self._caller.call(self._tool, given, thread=self._thread, deadline=deadline)
        if not result.success:
            raise engine_error(self.name, result)
        entries = entries_of(result.output, self._results)
        if entries is None:
            where = "" if self._results is None else f" at {self._results.written!r}"
            raise EngineFailed(
                f"{self.name}: there are no results{where} in the output of the tool. "
                "Say with results=… and fields=… where they are.",
                engine=self.name,
            )
        documents, skipped = self._fields.documents(entries, self.name, k)
        if skipped and not documents:
            raise EngineFailed(
                f"{self.name}: none of the {skipped} results has a title or a text. Say with fields=… where they are.",
                engine=self.name,
            )
        notes = (f"{self.name}: {skipped} results could not be read and were left out",) if skipped else ()
        return Answer(documents=tuple(documents), notes=notes)
