"""Spend: what agents and tools use, in tokens and money, and budgets for it. The code is in `clicket.engine.spend`."""

from clicket.engine.spend import *  # noqa: F403
from clicket.engine.spend import __all__ as __all__  # noqa: PLC0414
