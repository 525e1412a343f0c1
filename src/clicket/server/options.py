"""Options of a server. The limits keep one client from using up what others need."""

from __future__ import annotations

from math import isfinite
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clicket.errors import UsageError
from clicket.model.printable import repr_without
from clicket.runtime.settings import Settings

__all__ = ["Options", "with_settings"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes are bytes, times are seconds."""

    host: str = "127.0.0.1"
    """The address to listen on. Requests with another name in `Host` are refused."""
    allowed_hosts: tuple[str, ...] = ()
    """More names that `Host` may have, as behind a proxy."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages of these origins (`https://app.example`) may send requests; all others are refused."""
    api_keys: tuple[str, ...] = ()
    """Keys that are not in the store: `name:read+call:secret`, or a bare secret with every scope."""
    access_log: bool = True
    access_lines: Any = None
    """Writes the access log in place of the logger `clicket.access`; see `server.access_log.AccessLog`."""
    max_body_size: int = 4 * 1024 * 1024
    max_upload_size: int = 256 * 1024 * 1024
    max_header_size: int = 32 * 1024
    max_connections: int = 4_096
    """Fewer if the process may open fewer files. At the limit, a new connection replaces one that is idle."""
    header_timeout: float = 10.0
    """For the headers of a request, from the connection or the first byte."""
    body_timeout: float = 30.0
    """For the whole body of a request; in an upload, for each chunk."""
    keep_alive: float = 75.0
    heartbeat: float = 15.0
    """An event stream without events sends a comment this often."""
    stall_timeout: float = 30.0
    """A client that reads nothing for this long is disconnected."""
    event_log_events: int = 10_000
    event_log_bytes: int = 16 * 1024 * 1024
    """Events that `GET /events` keeps for clients that reconnect."""
    stop_timeout: float = 3.0
    """For responses that are still being sent when all calls have ended or were stopped."""

    def __repr__(self) -> str:
        return repr_without(self, "api_keys")

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if isinstance(value, int | float) and not isinstance(value, bool) and (not isfinite(value) or value <= 0):
                raise UsageError(f"the server's {name} must be a number above 0, not {value!r}.")


_FROM_SETTINGS = ("api_keys", "allowed_hosts", "allowed_origins")


def with_settings(options: Options | None, settings: Settings) -> Options:
    """The options with the keys, hosts and origins of the settings added. So a server whose settings name keys always needs one,
    whatever options are given in Python."""
    options = options or Options()
    both = {name: (*getattr(settings.server, name), *getattr(options, name)) for name in _FROM_SETTINGS}
    if settings.server.public_url is not None:  # links to the approver page lead to this name
        both["allowed_hosts"] = (*both["allowed_hosts"], urlsplit(settings.server.public_url).hostname or "")
    return msgspec.structs.replace(options, **{name: tuple(dict.fromkeys(values)) for name, values in both.items()})
