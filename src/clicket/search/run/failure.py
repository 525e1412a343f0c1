"""How a search fails: no engine answered and nothing was found before, or a deterministic part broke."""

from __future__ import annotations

from clicket.errors import ClicketError

__all__ = ["SearchFailed"]


class SearchFailed(ClicketError):
    """There is nothing to answer from. `details["failures"]` is what each search said, by its query; `details["spent"]`: it was
    the time for them that was spent."""

    code = "tool_error"
