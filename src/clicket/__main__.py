"""`python -m clicket` is the command line."""

from __future__ import annotations

import sys

from clicket.cli import main

if __name__ == "__main__":
    sys.exit(main())
