"""Options of several commands."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["CallerOption"]

CallerOption = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="The caller: the id of an API key; empty: the program's own calls."),
]
