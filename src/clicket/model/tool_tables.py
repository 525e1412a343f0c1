"""The tables `[search]` and `[interpreter]` of `clicket.toml`: options of the tools `deep_search` and `code_interpreter`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from clicket.errors import UsageError

__all__ = ["INDEX", "MAX_QUERIES", "Budget", "InterpreterTable", "SearchTable"]

INDEX = ".clicket/search.db"
MAX_QUERIES = 5
"""New queries of one round of a search, at most."""
_DESCRIPTION = (
    "Answer a question from documents by searching in several rounds: it is taken apart, what is found leads to the next "
    "queries, and the answer cites the sentences it is made of. Ask one whole question in plain language, with its names."
)


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one search. A spent budget ends the rounds: the search answers from what it found, and a note says so.

    Times are seconds. A planner, analyzer or synthesizer that takes longer is replaced by the built-in one.
    """

    max_rounds: int = 10
    """Rounds of one search."""
    max_queries: int = MAX_QUERIES
    """New queries of one round."""
    max_documents: int = 1_000
    """Different documents in all."""
    max_tokens: int | None = None
    """Tokens of language models in all, prompts and answers."""
    max_seconds: float = 480.0
    """All rounds together. The synthesis has a limit of its own."""
    query: float = 20.0
    """One query."""
    searching: float = 60.0
    """All queries of one round."""
    decomposing: float = 60.0
    """Taking the question apart."""
    analyzing: float = 60.0
    """Judging what was found."""
    synthesizing: float = 90.0
    """Writing the answer."""

    @property
    def counts(self) -> tuple[int | None, ...]:
        """The limits that are not times: they decide what a search finds."""
        return self.max_rounds, self.max_queries, self.max_documents, self.max_tokens

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name.startswith("max_") and name != "max_seconds":
                least = 0 if name == "max_tokens" else 1
                optional = value is None and name == "max_tokens"
                if not optional and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                    raise UsageError(f"Budget: {name} is a whole number from {least} up, not {value!r}.")
            elif not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
                raise UsageError(f"Budget: {name} is a number of seconds above 0, not {value!r}.")
        if self.max_queries > MAX_QUERIES:
            raise UsageError(f"Budget: max_queries is at most {MAX_QUERIES}, not {self.max_queries}.")


class SearchTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[search]`. Times are seconds."""

    index: str = INDEX
    """The index file, searched if no engine is given, or if `engines` contains `index`."""
    engine: Any = None
    """One engine: `index`, the name of a search service, or a table for `engine_of`."""
    engines: tuple[Any, ...] = ()
    """Several engines, whose results are fused; `index` stands for the index file."""
    model: Any = None
    """The model of its parts, as in `[agents.NAME]`; without one they work by rules."""
    brief: bool = False
    """The model only writes the answer: one sentence from a few short passages. For small models on your own CPU."""
    planner: Any = None
    """A part of your own, in Python."""
    analyzer: Any = None
    """A part of your own, in Python."""
    synthesizer: Any = None
    """A part of your own, in Python."""
    ranker: Any = None
    """A part of your own, in Python."""
    embedder: Any = None
    """For the index: an embedder, or its name as in `embedder_of`."""
    max_loop: int = 3
    """Rounds, unless the call sets them."""
    k: int | None = None
    """Documents of one query."""
    budget: Budget = Budget()
    """Limits of one search."""
    max_page_size: int | None = None
    """Characters of a document in messages and in the output."""
    max_documents: int = 20
    """Documents in the output, the best first; `documents_found` counts all."""
    whole: bool = False
    """Store the whole result, with the texts of all documents, as an artifact that the output names. Such outputs are not cached:
    the artifact is deleted with its call."""
    timeout: float | None = 600.0
    """Seconds of one search."""
    idle_timeout: float | None = 30.0
    """Seconds without progress."""
    cache: float | bool | None = True
    """Seconds that a result may be served again; true: as long as `cache_ttl` says."""
    name: str = "deep_search"
    """The tool's name."""
    description: str = _DESCRIPTION
    """What the model reads."""
    options: dict[str, Any] = {}
    """Other options of `@tool`."""


class InterpreterTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[interpreter]`. Times are seconds; sizes are bytes, or text like `512MiB`."""

    require: str = "full"
    """The required isolation level: full, partial, process, none."""
    timeout: float | None = 30.0
    """One block."""
    memory: int | str | None = None
    """One session; 1 GiB by default. All sessions together may take `max_sessions` + 1 times as much, with the spare."""
    max_steps: int = 10
    """Blocks of one call."""
    limits: Mapping[str, int | str] | None = None
    """`memory`, `processes`, `file_size`, `disk`, `files`, `scratch` and `open_files` of one session."""
    grace: float = 1.0
    """Seconds that a block gets to stop."""
    max_output: int | str = "64MiB"
    """One block; a program that writes more is killed."""
    kept_output: int | str = "64KiB"
    """What the result has of each stream of a block, its beginning and end; the whole is an artifact."""
    python: str | None = None
    """The Python that programs run on."""
    without: tuple[str, ...] = ()
    """Layers of the sandbox that are left out."""
    preload: tuple[str, ...] = ()
    """Modules that are imported before the first block."""
    packages: tuple[str, ...] | None = None
    """Installed packages that programs may import; all unless given."""
    wheels: str | None = None
    """A folder of wheels, for `install`."""
    install: tuple[str, ...] = ()
    """Packages that are installed from `wheels`."""
    files: str | None = None
    """A host folder for `file_names`."""
    max_files: int = 100
    """Files that one run stores."""
    max_files_size: int | str = "128MiB"
    """All files that one run stores; one file may have half of it."""
    session: Literal["thread", "call"] = "thread"
    """One session for a conversation (`thread`), or for one `call`."""
    max_sessions: int = 16
    """Sessions at once."""
    idle_after: float | None = 1800.0
    """Seconds after which a session that is not used ends."""
    warm: bool = True
    """Whether a spare session is kept ready."""
    cache: float | bool | None = None
    """Seconds that a result may be served again; true: as long as `cache_ttl` says."""
    call_timeout: float | None = 300.0
    """One call with all its blocks."""
    tools: tuple[str, ...] = ()
    """Names of the runtime's tools that programs may use as `tools.NAME(...)`."""
    max_uses: int = 1_000
    """Uses of tools in one call."""
    max_uses_at_once: int = 10
    """Uses of tools at once."""
    max_use_wait: float | None = 600.0
    """The uses of one call in all, also while they wait for a person; those under way then, and further ones, get `timeout`."""
    egress: tuple[str, ...] = ()
    """Hosts that programs may reach with `fetch(url)`: `api.example.com`, `*.example.com`, `http://10.0.0.5:8080`."""
    name: str = "code_interpreter"
    """The tool's name."""
    description: str | None = None
    """The tool's description for the model; None: a default text that depends on `session`."""
    options: dict[str, Any] = {}
    """All other options of `@tool`."""
