"""The deps of a run: values of this process, of which only the names are stored."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["NO_DEPS", "RunDeps", "how_to_give"]


class RunDeps(msgspec.Struct, frozen=True, eq=False):
    """`names`: what the run was begun with. `values`: those of them that this process has."""

    names: tuple[str, ...] = ()
    values: dict[str, Any] = {}

    def __repr__(self) -> str:
        """Without values: they may hold secrets."""
        return f"RunDeps({', '.join(self.names)})"


NO_DEPS = RunDeps()


def how_to_give(name: str) -> str:
    """Both ways to give a dep, for messages."""
    return f"Give it to the run: agent.run(…, deps={{{name!r}: …}}); or to every run and call: Runtime(deps={{{name!r}: factory}})."
