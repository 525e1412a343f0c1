"""`python -m clicket` is the command line."""

from __future__ import annotations

import sys

from clicket.cli import main

if __name__ == "__main__":
    if (
        not sys.flags.safe_path
    ):  # the working directory: what a program saved there must not be imported in place of a package
        del sys.path[0]
    sys.exit(main())
