"""Messages between processes, and what carries them.

- `channel`: collects messages by recipient, signs them, and checks what arrives
- `secret`: the secret of a store, which signs its messages
- `signing`: the text of an envelope and its signature
- `carrier`: what a bus must do; a store's own channel does it, too
- `nats`: core NATS as the bus
"""

from __future__ import annotations

from clicket.stores.bus.carrier import Carrier, OnText
from clicket.stores.bus.channel import Channel
from clicket.stores.bus.secret import bus_secret, space_of
from clicket.stores.bus.signing import BusMessage

__all__ = ["BusMessage", "Carrier", "Channel", "OnText", "bus_secret", "space_of"]
