"""Starts sessions in one sandbox. The first call prepares the packages and makes the sandbox."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from clicket.interpreter.sandbox import Isolation, Limits, Sandbox, size_of
from clicket.interpreter.sandbox.isolation import check_layers, check_level
from clicket.interpreter.session.session import Session
from clicket.interpreter.setup import font_cache
from clicket.interpreter.setup.packages import prepare

__all__ = ["WARM_MODULES", "SessionFactory"]

WARM_MODULES = (
    "numpy",
    "pandas",
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
)
"""Modules that a spare session imports in advance, if they are installed: together that takes a second or two."""
_PLOTS = "matplotlib.pyplot"
_PRELOAD_TIMEOUT = 120.0


class SessionFactory:
    def __init__(
        self,
        *,
        require: str = "full",
        limits: Limits | None = None,
        python: str | None = None,
        without: Iterable[str] = (),
        packages: Iterable[str] | None = None,
        wheels: str | os.PathLike[str] | None = None,
        install: Iterable[str] = (),
        preload: Iterable[str] = (),
        grace: float = 1.0,
        max_output: int | str = "64MiB",
        kept_output: int | str = "1MiB",
    ) -> None:
        self.require: str = check_level(require)
        self.limits: Limits = limits or Limits()
        self.preload: tuple[str, ...] = tuple(preload)
        self._python = python
        self._without = check_layers(without)
        self._packages = {"packages": packages, "wheels": wheels, "install": install, "python": python}
        self._grace = grace
        self._max_output = size_of(max_output, "max_output")
        self._kept_output = size_of(kept_output, "kept_output")

        self._preparing = asyncio.Lock()
        self._prepared: tuple[Sandbox, dict[str, Any]] | None = None
        self._font_folder: Path | None = None
        self._fonts_saved = False
        """The first session that has loaded matplotlib saves its font list: one that is there may be outdated."""

    async def __call__(self, more: Sequence[str] = ()) -> Session:
        """Start a session, with `preload` and `more` imported."""
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
        async with self._preparing:
            prepared, self._prepared = self._prepared, None
            if prepared is not None:
                await prepared[0].close()

    async def _load(self, session: Session, modules: Sequence[str]) -> None:
        if not modules:
            return
        loaded = await session.preload(modules, timeout=_PRELOAD_TIMEOUT)
        if _PLOTS in loaded and self._font_folder is not None and not self._fonts_saved:
            self._fonts_saved = True
            await font_cache.save_font_list(session, self._font_folder)

    async def _ready(self) -> tuple[Sandbox, dict[str, Any]]:
        async with self._preparing:
            if self._prepared is None:
                packages = await prepare(**self._packages)  # type: ignore[arg-type]  # it checks what the caller gave
                settings = dict(packages.settings)
                readable = list(packages.readable)
                self._font_folder = font_cache.cache_folder(self._python)
                if self._font_folder is not None:
                    settings["font_cache"] = str(self._font_folder)
                    readable.append(self._font_folder)
                sandbox = Sandbox(
                    require=self.require,
                    limits=self.limits,
                    python=self._python,
                    without=self._without,
                    readable=readable,
                )
                self._prepared = sandbox, settings
            return self._prepared


def limits_of(limits: Limits | None, memory: int | str | None) -> Limits:
    """`limits`, with `memory` in place of its own if given."""
    if memory is None:
        return limits or Limits()
    given = {} if limits is None else {name: getattr(limits, name) for name in limits.__struct_fields__}
    return Limits(**{**given, "memory": size_of(memory, "memory")})
