"""Small Protocols between the layers. Implementations are in higher layers; `compose` chooses them. The code is in
`clicket.model.ports`."""

from clicket.model.ports import *  # noqa: F403
from clicket.model.ports import __all__ as __all__  # noqa: PLC0414
