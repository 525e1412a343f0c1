"""What this server can lose with its settings. Settings that break the chosen durability are refused."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from clicket.errors import StoreUnavailable
from clicket.stores.redis.connection import Connection, packed

__all__ = ["assess"]

_SETTINGS = (b"appendonly", b"appendfsync", b"no-appendfsync-on-rewrite", b"save", b"maxmemory-policy")
_OLDEST = (7, 0)


async def assess(connection: Connection, url: str, durability: str) -> list[str]:
    """The risks of the server's settings; raises `StoreUnavailable` for settings that cannot hold calls, or this durability."""
    status, config = await connection.execute([packed(b"INFO"), packed(b"CONFIG", b"GET", *_SETTINGS)])
    info = _info(status)
    _refuse_old(url, info.get("redis_version", ""))
    settings = None if isinstance(config, ResponseError) else _pairs(config)
    policy = (settings or {}).get("maxmemory-policy", info.get("maxmemory_policy", ""))
    if policy.startswith("allkeys"):
        raise StoreUnavailable(
            f"{url}: with `maxmemory-policy {policy}` the server throws calls away when its memory is full. "
            "Set `maxmemory-policy noeviction`, or use a server of its own for the store.",
            url=url,
        )
    if settings is None:
        return _unseen(url, durability, info)
    if durability == "power":
        _refuse_power(url, settings)
    risks = _losses(settings)
    if policy.startswith("volatile"):
        risks.append(
            f"`maxmemory-policy {policy}`: when memory is full, ended calls and cached results go before their time; "
            "calls under way stay."
        )
    return risks


def _losses(settings: dict[str, str]) -> list[str]:
    if settings.get("appendonly") == "yes":
        fsync = settings.get("appendfsync", "")
        if fsync == "always":
            return []
        if (
            fsync == "everysec"
        ):  # while an fsync is under way, Redis keeps what it has acknowledged in its own memory for up to 2 s
            how = "if the server's machine fails, or the server is killed while its disk is slow, up to two seconds of calls"
        else:
            how = "if the server's machine fails, what the operating system had not written yet"
        return [f"`appendfsync {fsync}`: {how} can be lost. `always` loses nothing."]
    if settings.get("save"):
        since = f"everything since its last snapshot (`save {settings['save']}`)"
        return [f"`appendonly no`: if the server dies, {since} is lost. Set `appendonly yes`."]
    return [
        '`appendonly no` and `save ""`: if the server dies or is restarted, everything is lost. Set `appendonly yes`.'
    ]


def _refuse_power(url: str, settings: dict[str, str]) -> None:
    wanted = {"appendonly": "yes", "appendfsync": "always"}
    if settings.get("appendfsync") == "always":  # else it says nothing
        wanted["no-appendfsync-on-rewrite"] = "no"
    wrong = {name: settings.get(name, "") for name, value in wanted.items() if settings.get(name) != value}
    if wrong:
        needed = " and ".join(f"`{name} {wanted[name]}`" for name in wanted)
        found = ", ".join(f"`{name} {value}`" for name, value in wrong.items())
        raise StoreUnavailable(
            f'{url}: durability="power" needs {needed}, and this server has {found}. Set them (CONFIG SET, and in redis.conf), '
            'or choose durability="process".',
            url=url,
        )


def _unseen(url: str, durability: str, info: dict[str, str]) -> list[str]:
    """Managed servers forbid CONFIG: then the settings cannot be checked."""
    if durability == "power":
        raise StoreUnavailable(
            f'{url}: durability="power" cannot be promised: the server does not let us read its settings (CONFIG GET). '
            'Allow it, or choose durability="process" and ask its administrator about `appendfsync always`.',
            url=url,
        )
    aof = {"1": "it does keep an append-only file", "0": "it keeps no append-only file"}.get(
        info.get("aof_enabled", "")
    )
    return [
        "the server does not let us read its settings (CONFIG GET), so what it can lose is unknown"
        + (f"; {aof}." if aof else ".")
    ]


def _refuse_old(url: str, version: str) -> None:
    numbers: tuple[int, ...] = ()
    with contextlib.suppress(ValueError):
        numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers and numbers < _OLDEST:
        raise StoreUnavailable(
            f"{url}: this server is Redis {version}; the store needs 7.0 or newer. Upgrade it, or use another store.",
            url=url,
        )


def _info(status: Any) -> dict[str, str]:
    if not isinstance(status, bytes):
        return {}
    lines = (line.partition(":") for line in status.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def _pairs(flat: Sequence[Any]) -> dict[str, str]:
    texts = [item.decode(errors="replace") if isinstance(item, bytes) else str(item) for item in flat]
    return dict(zip(texts[::2], texts[1::2], strict=False))
