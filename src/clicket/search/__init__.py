"""Deep search: answers a question in several rounds over your own files or the web, and cites every sentence that it quotes.

To read the code, begin with `tool/tool.py` (the entry), then `run/machine.py` (the states) and `findings.py` (the values that pass
between them). Then follow one round: `planning/planner.py` (which queries), `run/parallel_search.py` and `engines/` (asking),
`ranking/ranker.py` (the order of the documents), `planning/coverage.py` (is it enough?), and last `synthesis/extractive.py` (the
answer) and `synthesis/citations.py` (its proof). `llm/parts.py` has the parts that ask a model instead, `protocols.py` says what a part
of your own must do. `usage.py` counts tokens and notes of a stage. `report/` writes the result as Markdown or HTML. `index/`,
`extract/` and `text/` are the local index. `clicket.model.text` and `clicket.models.embedding`, which the search for tools has
too, compare texts. `ARCHITECTURE.md` draws it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clicket.kernel import SearchState
    from clicket.model.document import Citation, Document
    from clicket.model.ports.services import ChatModel, Embedder, SearchEngine
    from clicket.model.tool_tables import Budget
    from clicket.models.embedding.embedder import TextEmbedder
    from clicket.models.embedding.kinds import embedder_of
    from clicket.search.engines.adapter import as_engine
    from clicket.search.engines.fusion import Mixed
    from clicket.search.findings import Analysis, Findings, QueryResult, Round, SearchFailed, SearchResult, Synthesis
    from clicket.search.index.index import Index
    from clicket.search.llm import BriefSynthesizer, ModelAnalyzer, ModelPlanner, ModelSynthesizer
    from clicket.search.planning import BridgePlanner, CoverageAnalyzer
    from clicket.search.protocols import Analyzer, Collection, Planner, Ranker, Synthesizer
    from clicket.search.ranking import LinkRanker
    from clicket.search.run.checkpoints import Checkpoints, FileCheckpoints, MemoryCheckpoints
    from clicket.search.synthesis import ExtractiveSynthesizer
    from clicket.search.tool.tool import deep_search, deep_search_stream

__all__ = [
    "Analysis",
    "Analyzer",
    "BridgePlanner",
    "BriefSynthesizer",
    "Budget",
    "ChatModel",
    "Checkpoints",
    "Citation",
    "Collection",
    "CoverageAnalyzer",
    "Document",
    "Embedder",
    "ExtractiveSynthesizer",
    "FileCheckpoints",
    "Findings",
    "Index",
    "LinkRanker",
    "MemoryCheckpoints",
    "Mixed",
    "ModelAnalyzer",
    "ModelPlanner",
    "ModelSynthesizer",
    "Planner",
    "QueryResult",
    "Ranker",
    "Round",
    "SearchEngine",
    "SearchFailed",
    "SearchResult",
    "SearchState",
    "Synthesis",
    "Synthesizer",
    "TextEmbedder",
    "as_engine",
    "deep_search",
    "deep_search_stream",
    "embedder_of",
]

# Names are imported at first use: a program that only builds an index does not load planners and models.
_HOMES = {
    "clicket.kernel": "SearchState",
    "clicket.model.document": "Citation Document",
    "clicket.model.ports.services": "ChatModel Embedder SearchEngine",
    "clicket.models.embedding.embedder": "TextEmbedder",
    "clicket.models.embedding.kinds": "embedder_of",
    "clicket.search.engines.adapter": "as_engine",
    "clicket.search.engines.fusion": "Mixed",
    "clicket.search.findings": "Analysis Findings QueryResult Round SearchFailed SearchResult Synthesis",
    "clicket.search.index.index": "Index",
    "clicket.search.llm": "BriefSynthesizer ModelAnalyzer ModelPlanner ModelSynthesizer",
    "clicket.search.planning": "BridgePlanner CoverageAnalyzer",
    "clicket.search.protocols": "Analyzer Collection Planner Ranker Synthesizer",
    "clicket.search.ranking": "LinkRanker",
    "clicket.search.run.checkpoints": "Checkpoints FileCheckpoints MemoryCheckpoints",
    "clicket.model.tool_tables": "Budget",
    "clicket.search.synthesis": "ExtractiveSynthesizer",
    "clicket.search.tool.tool": "deep_search deep_search_stream",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
