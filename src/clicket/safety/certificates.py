"""The TLS context with the trusted certificates: loaded once in a process, for all clients. Loading takes tens of milliseconds."""

from __future__ import annotations

import os
import ssl
from functools import cache, lru_cache

from clicket.system.bridge import ThreadPool

__all__ = ["load_ssl_context", "ssl_context"]


def ssl_context(*, trust_env: bool = False) -> ssl.SSLContext:
    """The machine's certificates; `trust_env`: those that SSL_CERT_FILE or SSL_CERT_DIR name, where they are set."""
    if trust_env:
        return _of_environment(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return _of_machine()


async def load_ssl_context() -> ssl.SSLContext:
    """`ssl_context()` for code on the event loop: certificates are loaded in a thread, and httpx2 is imported there."""
    if _of_machine.cache_info().currsize:
        return _of_machine()
    thread_pool = ThreadPool(1, "clicket-certificates")
    try:
        return await thread_pool.run(_of_machine)
    finally:
        thread_pool.close(patience=0)


@cache
def _of_machine() -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


@lru_cache(maxsize=4)
def _of_environment(file: str | None, folder: str | None) -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context() if file or folder else _of_machine()
