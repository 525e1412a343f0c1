"""The parts of a search that ask a language model. Nothing that a model says is used unchecked.

- `parts`: planner, analyzer and synthesizer; each falls back to the built-in part
- `brief`: a synthesizer for small and slow models
- `prompts`: the prompts; texts of documents are marked as data
- `context_budget`: which parts of the documents fit into a prompt
- `structured_chat`: one question to a model, with retries, a time limit and a token budget; the answer is a checked value
- `response_formats`: the four answers that are asked for, their schemas and parsers
- `lenient_json`: reads JSON as models write it
- `verification`: a statement counts only if its quotes are in the documents and support it
- `numbers`: the numbers in a text in one form, for verification
"""

from __future__ import annotations

from clicket.search.llm.brief import BriefSynthesizer
from clicket.search.llm.parts import ModelAnalyzer, ModelPlanner, ModelSynthesizer
from clicket.search.llm.structured_chat import StructuredChat

__all__ = ["BriefSynthesizer", "ModelAnalyzer", "ModelPlanner", "ModelSynthesizer", "StructuredChat"]
