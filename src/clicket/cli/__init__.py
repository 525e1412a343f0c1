"""The command line. Results go to stdout, everything else to stderr.

`app` parses the command line, `commands` has one module per command, `context` is what a command gets: `terminal`, settings,
tools (`tool_loader`) and a runtime. `errors` and `exit_codes` are how commands end, `shutdown` how servers do.
Display: `formatting` of values and events, `columns` and `chart` for tables, `call_list` for lists of calls and their pages,
`call_progress` and `progress_bar` for what runs, `record_view`, `search_view`, `notebook_view` (with `notebook_files`, `saved_names`)
and `worker_log` for what they name.
`chat` and `demo` are packages; `orphans` finds calls of dead owners, `doctor_checks` checks store and sandbox, `completion` is
for shells, `options` are shared by commands, `health_port` answers the probes of a worker.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `--version` imports nothing else."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        from clicket import __version__

        print(f"clicket {__version__}")
        return 0
    from clicket.cli.app import run

    return run(given)
