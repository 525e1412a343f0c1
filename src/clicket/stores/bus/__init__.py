"""Notices between processes, and what carries them.

- `channel`: collects notices by recipient, signs them, and checks what arrives
- `secret`: the secret of a store, which signs its notices
- `signing`: the text of a message and its signature
- `carrier`: what a bus must do; a store's own channel does it, too
- `nats`: core NATS as the bus
"""

from __future__ import annotations

from clicket.stores.bus.carrier import Carrier, OnText
from clicket.stores.bus.channel import Channel
from clicket.stores.bus.secret import notice_secret, space_of
from clicket.stores.bus.signing import Notice

__all__ = ["Carrier", "Channel", "Notice", "OnText", "notice_secret", "space_of"]
