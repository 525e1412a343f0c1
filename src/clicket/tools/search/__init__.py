"""Tool search: with more tools than fit into a request, a model is offered a few, and the tool `find_tools` to find the others.

    index            BM25F over names, descriptions and arguments, changed tool by tool
    text_similarity  how similar whole texts are, by an embedder, as an option
    find_tools       the tool, and the names in its results
    offered          which tools a thread is offered: those it found or used last

Importing this package does not build or load an index.
"""

from __future__ import annotations

from clicket.tools.search.find_tools import FIND_OFFER, FIND_TOOLS, FindTools, found_names
from clicket.tools.search.offered import MAX_OFFERED, RecentTools, chosen_limit

__all__ = ["FIND_OFFER", "FIND_TOOLS", "MAX_OFFERED", "FindTools", "RecentTools", "chosen_limit", "found_names"]
