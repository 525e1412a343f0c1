"""Deep search: several rounds over your own files or the web, an answer that cites what it read, nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clicket.kernel import SearchState
    from clicket.model.document import Citation, Document
    from clicket.ports.services import ChatModel, Embedder, SearchEngine
    from clicket.search.analyzing import CoverageAnalyzer
    from clicket.search.deep import deep_search, deep_search_stream
    from clicket.search.dossier import Analysis, Dossier, Found, Round, SearchResult, Synthesis
    from clicket.search.embedding.minilm import MiniLM
    from clicket.search.engines.adapter import as_engine
    from clicket.search.engines.fusion import Mixed
    from clicket.search.index.index import Index
    from clicket.search.modelled import ModelAnalyzer, ModelPlanner, ModelSynthesizer
    from clicket.search.parts import Analyzer, Collection, Planner, Ranker, Synthesizer
    from clicket.search.planning import BridgePlanner
    from clicket.search.ranking import LinkRanker
    from clicket.search.run.budget import Budget
    from clicket.search.run.checkpoints import Checkpoints, FileCheckpoints, MemoryCheckpoints
    from clicket.search.run.failure import SearchFailed
    from clicket.search.synthesis import ExtractiveSynthesizer

__all__ = [
    "Analysis",
    "Analyzer",
    "BridgePlanner",
    "Budget",
    "ChatModel",
    "Checkpoints",
    "Citation",
    "Collection",
    "CoverageAnalyzer",
    "Document",
    "Dossier",
    "Embedder",
    "ExtractiveSynthesizer",
    "FileCheckpoints",
    "Found",
    "Index",
    "LinkRanker",
    "MemoryCheckpoints",
    "MiniLM",
    "Mixed",
    "ModelAnalyzer",
    "ModelPlanner",
    "ModelSynthesizer",
    "Planner",
    "Ranker",
    "Round",
    "SearchEngine",
    "SearchFailed",
    "SearchResult",
    "SearchState",
    "Synthesis",
    "Synthesizer",
    "as_engine",
    "deep_search",
    "deep_search_stream",
]

# Names are fetched when they are first used: who only builds an index loads nothing of planners and models.
_HOMES = {
    "clicket.kernel": "SearchState",
    "clicket.model.document": "Citation Document",
    "clicket.ports.services": "ChatModel Embedder SearchEngine",
    "clicket.search.analyzing": "CoverageAnalyzer",
    "clicket.search.deep": "deep_search deep_search_stream",
    "clicket.search.dossier": "Analysis Dossier Found Round SearchResult Synthesis",
    "clicket.search.embedding.minilm": "MiniLM",
    "clicket.search.engines.adapter": "as_engine",
    "clicket.search.engines.fusion": "Mixed",
    "clicket.search.index.index": "Index",
    "clicket.search.modelled": "ModelAnalyzer ModelPlanner ModelSynthesizer",
    "clicket.search.parts": "Analyzer Collection Planner Ranker Synthesizer",
    "clicket.search.planning": "BridgePlanner",
    "clicket.search.ranking": "LinkRanker",
    "clicket.search.run.budget": "Budget",
    "clicket.search.run.checkpoints": "Checkpoints FileCheckpoints MemoryCheckpoints",
    "clicket.search.run.failure": "SearchFailed",
    "clicket.search.synthesis": "ExtractiveSynthesizer",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
