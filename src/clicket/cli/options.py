"""Options of several commands."""

from __future__ import annotations

from typing import Annotated

import typer

from clicket.cli.completion import complete_thread

__all__ = ["CallerOption", "OnlyThreadOption", "ThreadOption"]

CallerOption = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="The caller: the id of an API key; empty: the program's own calls."),
]
ThreadOption = Annotated[
    str | None, typer.Option(help="The thread, if two threads used the same id.", autocompletion=complete_thread)
]
OnlyThreadOption = Annotated[
    str | None, typer.Option(help="Only calls of this thread.", autocompletion=complete_thread)
]
