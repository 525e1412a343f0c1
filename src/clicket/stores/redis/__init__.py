"""Redis: every change is a script on the server, so that no two processes can step between a look and a write."""

from __future__ import annotations

from clicket.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
