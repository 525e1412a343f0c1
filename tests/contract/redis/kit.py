"""What the tests of the Redis store share."""

from __future__ import annotations

from collections.abc import Callable

from clicket.stores.redis import RedisStore

__all__ = ["Make"]

Make = Callable[..., RedisStore]
