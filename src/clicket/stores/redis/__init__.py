"""Redis: every change is a script on the server, so no other process can write between a script's read and its write.

- `store`: `RedisStore`
- `scripts`, `lua/`: the scripts, and how the server knows them. A write renews the lease if a twentieth of it is over (`lua/write.lua`)
- `writer`: appends, a group of them in one round trip, twenty by one script
- `script_client`: runs every other script, and repeats it after a lost connection
- `connection`, `address`, `carrier`: connections, the server's address, pub/sub as the carrier of messages
- `reads`: calls and their events
- `claims`, `dead_owners`: taking over calls; which owners are dead
- `queues`, `thread_list`: calls that have no owner, counted by their queue, and rates; which threads have calls
- `rows`: rows as calls
- `records`, `artifacts`: tool health, stats, documents, the audit log; artifacts
- `retention`: removal of ended calls
- `persistence`: what the server can lose with its settings
"""

from __future__ import annotations

from clicket.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
