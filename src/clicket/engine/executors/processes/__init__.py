"""Tools that run in child processes, so that they can always be stopped and cannot affect other calls.

    runtime ── pool ── handle ══ job socket ═════════════╗
                          ║                              ║
                          ╚═ lifeline ═ guard ── fork ── child ── the tool ── its own children

The *child* runs tool bodies, one at a time, and is kept warm between calls. The *guard* is its small parent: it runs no
foreign code, adopts the processes that the tool orphans, and ends the whole tree when the runtime asks for it, when the tool process
dies, or when the runtime is gone. Only JSON crosses the sockets.

In the runtime:

- `pool`: `ProcessPool`, which starts, reuses and replaces tool processes
- `handle`: one tool process as the runtime sees it: gives it a job, ends it
- `file_outputs`: outputs with images or files, on their way from the child
- `target`: names a tool, so that the child can import it
- `wire`: the frames between runtime and child

In the child processes:

- `guard`: the parent of a tool process
- `job_loop`: takes jobs and runs them one after another
- `body`: one job: finds the tool, runs it, encodes its output
- `child_deps`: the deps that factories make in the child
- `connection`: the tool process's end of the job socket
- `termination`: when a tool process must exit
- `tree`: finds and ends process trees

The names below are imported lazily: the child imports this package too, and needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clicket.engine.executors.processes.pool import (
        ProcessPool,
        Target,
        ToolFailed,
        ToolProcess,
        ToolProcessDied,
        factories_for,
        target_of,
    )

__all__ = ["ProcessPool", "Target", "ToolFailed", "ToolProcess", "ToolProcessDied", "factories_for", "target_of"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from clicket.engine.executors.processes import pool

    return getattr(pool, name)
