"""The command line. Results go to stdout, everything else to stderr; how a command ended is its exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. The libraries that draw are loaded only when something is drawn."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        from clicket import __version__

        print(f"clicket {__version__}")
        return 0
    from clicket.cli.app import run

    return run(given)
