"""The TLS context with the trusted certificates, loaded once for all engines. Loading takes 0.1 s, so it runs off the event loop."""

from __future__ import annotations

import ssl
from functools import cache

from clicket.search.engines.tasks import run_in_thread

__all__ = ["certificates"]


async def certificates() -> ssl.SSLContext:
    context: ssl.SSLContext = await run_in_thread(_read) if not _read.cache_info().currsize else _read()
    return context


@cache
def _read() -> ssl.SSLContext:
    from clicket.tools.transport import make_ssl_context  # here, because it imports httpx2

    return make_ssl_context()
