"""What to ask next, and whether to ask at all.

- `question_reading`: the question in the words of the documents
- `planner`: the built-in planner
- `coverage`: the built-in analyzer, which scores how completely the documents cover the question
- `bridges`: names in the documents found that may lead to the next ones; planner and analyzer use them
"""

from __future__ import annotations

from clicket.search.planning.coverage import CoverageAnalyzer
from clicket.search.planning.planner import BridgePlanner

__all__ = ["BridgePlanner", "CoverageAnalyzer"]
