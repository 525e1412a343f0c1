"""How a server is set up. Limits are there so that no client can take more than its share."""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.settings import Settings

__all__ = ["Options", "complete"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes are bytes, times are seconds."""

    host: str = "127.0.0.1"
    """Where it is bound; requests that name another host in `Host` are refused."""
    allowed_hosts: tuple[str, ...] = ()
    """More names under which it may be asked for, as behind a proxy."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages of these origins (`https://app.example`) may use it; none unless named."""
    api_keys: tuple[str, ...] = ()
    """Keys that are not in the store: `name:read+call:secret`, or a bare secret with every scope."""
    access_log: bool = True
    access_lines: Any = None
    """Writes the access log in place of the logger `clicket.access`; see `server.access_log.AccessLog`."""
    max_body_size: int = 4 * 1024 * 1024
    max_upload_size: int = 256 * 1024 * 1024
    max_header_size: int = 32 * 1024
    max_connections: int = 4_096
    """Fewer where the process may not have so many files open. At the most, a new one replaces one without a request."""
    header_timeout: float = 10.0
    """For the head of a request, from the connection or the first byte."""
    body_timeout: float = 30.0
    """For the whole body of a request; an upload gets as long for each piece."""
    keep_alive: float = 75.0
    heartbeat: float = 15.0
    """A silent stream says that it lives this often."""
    stall_timeout: float = 30.0
    """A reader that takes nothing for so long is dropped."""
    event_log_events: int = 10_000
    event_log_bytes: int = 16 * 1024 * 1024
    """What `GET /events` keeps for readers that come back."""
    stop_timeout: float = 3.0
    """For answers that are still being sent when all calls have ended or were stopped."""

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if isinstance(value, int | float) and not isinstance(value, bool) and (not isfinite(value) or value <= 0):
                raise UsageError(f"the server's {name} must be a number above 0, not {value!r}.")


_FROM_SETTINGS = ("api_keys", "allowed_hosts", "allowed_origins")


def complete(options: Options | None, settings: Settings) -> Options:
    """The options of a server over a runtime with these settings. Keys, hosts and origins of both count: whatever is given in
    Python, a server whose settings name keys is never open."""
    options = options or Options()
    both = {name: (*getattr(settings, name), *getattr(options, name)) for name in _FROM_SETTINGS}
    return msgspec.structs.replace(options, **{name: tuple(dict.fromkeys(values)) for name, values in both.items()})
