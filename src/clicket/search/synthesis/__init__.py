"""Writes the answer and its citations, and checks them.

- `extractive`: the built-in synthesizer, which answers in sentences of the documents
- `sentence_selection`: which sentences those are
- `answerability`: whether the documents answer at all
- `statements`: sentences, list items, rows and code of a text, with what they must be read with
- `answer_types`: whether a question asks for a date, a place, a person or a number, and related words
- `source_documents`: the best documents, split into statements
- `citations`: checks every citation against its document, no matter who wrote the answer
- `quotes`: finds a quote in a document
"""

from __future__ import annotations

from clicket.search.synthesis.citations import check
from clicket.search.synthesis.extractive import ExtractiveSynthesizer
from clicket.search.synthesis.quotes import find_span

__all__ = ["ExtractiveSynthesizer", "check", "find_span"]
