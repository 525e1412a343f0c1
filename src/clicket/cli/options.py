"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["CallerOption"]

CallerOption = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="Whose call: the id of an API key; empty for the program's own."),
]
