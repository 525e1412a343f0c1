"""`python -m clicket` is the command line."""

from __future__ import annotations

import os
import sys

from clicket.cli import main

if __name__ == "__main__":
    # Python puts the working directory first: what a program saved there must not be imported in place of a package. Where
    # clicket itself was found there, it stays.
    if not sys.flags.safe_path and sys.path[0] != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
        del sys.path[0]
    sys.exit(main())
