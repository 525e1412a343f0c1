"""The runtime as a service over HTTP. Every route checks whose key it is; nothing of one key is seen by another.

`create_app(runtime)` is an ASGI application (Starlette); `serve(runtime, host=…, port=…)` runs it. Both need the extra `server`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from clicket.errors import UsageError

__all__ = ["Options", "create_app", "serve", "serving"]

# Fetched when they are first used, so that `clicket keys` works where no web framework is installed.
_HOMES = {
    "Options": "clicket.server.options",
    "allow_connections": "clicket.server.http_server",
    "create_app": "clicket.server.app",
    "serve": "clicket.server.http_server",
    "serving": "clicket.server.http_server",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'clicket.server' has no attribute {name!r}")
    try:
        return getattr(import_module(home), name)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("clicket"):
            raise
        raise UsageError(
            f"the server needs the package {missing.name!r}, which is not installed. "
            "Install it with: pip install 'clicket[server]'."
        ) from None
