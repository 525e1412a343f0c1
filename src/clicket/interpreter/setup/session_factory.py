"""Makes sessions, all in one sandbox. Packages are prepared and the sandbox is made when the first one is asked for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from clicket.interpreter.session.session import Session
from clicket.interpreter.setup import font_cache
from clicket.interpreter.setup.packages import prepare
from clicket.sandbox import Isolation, Limits, Sandbox, size_of
from clicket.sandbox.isolation import check_layers, check_level

__all__ = ["WARM_MODULES", "SessionFactory"]

WARM_MODULES = (
    "numpy",
    "pandas",
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
)
"""What a spare session has loaded, as far as it is installed: together they take a second or two to import."""
_PLOTS = "matplotlib.pyplot"
_PRELOAD = 120.0


class SessionFactory:
    def __init__(
        self,
        *,
        require: str = "full",
        limits: Limits | None = None,
        memory: int | str | None = None,
        python: str | None = None,
        without: Iterable[str] = (),
        packages: Iterable[str] | None = None,
        wheels: str | os.PathLike[str] | None = None,
        install: Iterable[str] = (),
        preload: Iterable[str] = (),
        grace: float = 1.0,
        max_output: int | str = "64MiB",
        kept_output: int | str = "1MiB",
        temp: Path | None = None,
    ) -> None:
        self.require: str = check_level(require)
        self.limits: Limits = limits_of(limits, memory)
        self.preload: tuple[str, ...] = tuple(preload)
        self._python = python
        self._without = check_layers(without)
        self._packages = {"packages": packages, "wheels": wheels, "install": install, "python": python}
        self._grace = grace
        self._max_output = size_of(max_output, "max_output")
        self._kept_output = size_of(kept_output, "kept_output")
        self._temp = temp
        self._making = asyncio.Lock()
        self._made: tuple[Sandbox, dict[str, Any]] | None = None
        self._fonts: Path | None = None
        self._fonts_are_new = False
        """The first session that has loaded matplotlib tells once what it goes by: a list that is there may be an old one's."""

    async def __call__(self, more: Sequence[str] = ()) -> Session:
        """A session that is ready, with the modules loaded that each one is to have, and `more`."""
        sandbox, settings = await self._ready()
        session = await Session.start(
            sandbox, settings=settings, grace=self._grace, max_output=self._max_output, kept_output=self._kept_output
        )
        try:
            await self._load(session, (*self.preload, *more))
        except BaseException:
            await session.close()
            raise
        return session

    async def isolation(self) -> Isolation:
        return await (await self._ready())[0].isolation()

    async def close(self) -> None:
        async with self._making:
            made, self._made = self._made, None
            if made is not None:
                await made[0].close()

    async def _load(self, session: Session, modules: Sequence[str]) -> None:
        if not modules:
            return
        loaded = await session.preload(modules, timeout=_PRELOAD)
        if _PLOTS in loaded and self._fonts is not None and not self._fonts_are_new:
            self._fonts_are_new = True
            await font_cache.fetch(session, self._fonts)

    async def _ready(self) -> tuple[Sandbox, dict[str, Any]]:
        async with self._making:
            if self._made is None:
                prepared = await prepare(**self._packages)  # type: ignore[arg-type]  # as they were given: it checks them
                settings, shown = dict(prepared.settings), list(prepared.readable)
                self._fonts = font_cache.shelf(self._python)
                if self._fonts is not None:
                    settings["seed"] = str(self._fonts)
                    shown.append(self._fonts)
                sandbox = Sandbox(
                    require=self.require, limits=self.limits, python=self._python, without=self._without,
                    readable=shown, temp=self._temp,
                )  # fmt: skip
                self._made = sandbox, settings
            return self._made


def limits_of(limits: Limits | None, memory: int | str | None) -> Limits:
    """The limits as given, with the memory that was named beside them."""
    if memory is None:
        return limits or Limits()
    given = {} if limits is None else {name: getattr(limits, name) for name in limits.__struct_fields__}
    return Limits(**{**given, "memory": size_of(memory, "memory")})
