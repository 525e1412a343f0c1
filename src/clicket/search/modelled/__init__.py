"""The parts of a search that ask a language model, and believe nothing that it says unseen."""

from __future__ import annotations

from clicket.search.modelled.adapting import as_model
from clicket.search.modelled.analyzer import ModelAnalyzer
from clicket.search.modelled.asking import Asking
from clicket.search.modelled.planner import ModelPlanner
from clicket.search.modelled.synthesizer import ModelSynthesizer

__all__ = ["Asking", "ModelAnalyzer", "ModelPlanner", "ModelSynthesizer", "as_model"]
