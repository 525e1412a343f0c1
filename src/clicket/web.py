"""Web search engines, and the pages that they find. The code is in `clicket.search.web`."""

from clicket.search.web import *  # noqa: F403
from clicket.search.web import __all__ as __all__  # noqa: PLC0414
