"""A peer's ASGI application on uvicorn, with the settings that `clicket serve` gives it. Prints its port, ends with SIGTERM."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn

__all__ = ["serve"]


def serve(app: Any) -> None:
    # With an explicit protocol: only then does asyncio disable Nagle's algorithm; else each answer waits for 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="httptools",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=True,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
            backlog=2_048,
        )
        bound.listen(config.backlog)  # a client may connect as soon as it reads the port, and is served after the start
        print(bound.getsockname()[1], flush=True)
        uvicorn.Server(config).run(sockets=[bound])
