"""Availability as text: one line for logs, several for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clicket.engine.hub.judge import ToolView
from clicket.kernel import ToolStatus

__all__ = ["prompt_of", "summary_of"]


def summary_of(views: Sequence[ToolView]) -> str:
    available = [view.name for view in views if view.available]
    failed = [view.name for view in views if view.status is ToolStatus.FAILED]
    waiting = [f"{view.name} for {', '.join(view.missing)}" for view in views if view.missing]
    held = [f"{view.name}: {view.status}" for view in views if view.status in _HELD]
    roots = sum(view.is_root for view in views)
    line = f"tools ({len(views)}) (available: {len(available)}, failed: {len(failed)}, root: {roots}): "
    line += f"[{', '.join(available)}]"
    for title, names in (("failed", failed), ("waiting", waiting), ("held", held)):
        if names:
            line += f" [{title}: {'; '.join(names)}]"
    return line


def prompt_of(views: Sequence[ToolView], descriptions: Mapping[str, str]) -> str:
    """What the model needs to choose its next call: names and reasons, no schemas."""
    lines = ["Tools that you can call now:"]
    for view in views:
        if view.available:
            about = descriptions.get(view.name, "").strip().split("\n", 1)[0]
            again = " (it failed before; one careful try is allowed)" if view.state.should_rebind else ""
            lines.append(f"- {view.name}: {about}{again}" if about else f"- {view.name}{again}")
    if len(lines) == 1:
        lines.append("- none")
    closed = [view for view in views if not view.available]
    if closed:
        lines.append("Tools that you cannot call now:")
        for view in closed:
            first = f" First call {' or '.join(view.suggested)}." if view.suggested else ""
            why = " ".join(view.reason.split())  # a tool's error text must not add lines
            lines.append(f"- {view.name}: {why.rstrip('.')}.{first}")
    return "\n".join(lines)


_HELD = (ToolStatus.UNAVAILABLE, ToolStatus.MAINTENANCE)
