"""The answer, and the citations on which it stands."""

from __future__ import annotations

from clicket.search.synthesis.citations import check, find_span
from clicket.search.synthesis.extractive import ExtractiveSynthesizer

__all__ = ["ExtractiveSynthesizer", "check", "find_span"]
