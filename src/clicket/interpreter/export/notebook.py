"""Runs as a Jupyter notebook, format 4.5. Equal runs give equal bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from clicket.interpreter.export.cells import Output, Prose, Shown, Stream, cells
from clicket.interpreter.result import Result

__all__ = ["notebook_json", "to_notebook"]


def to_notebook(results: Result | Iterable[Result]) -> dict[str, Any]:
    """One run or several, as in `interpreter.history`, with their prose and outputs.

    The notebook is not marked as trusted, so Jupyter sanitises its HTML.
    """
    runs = [results] if isinstance(results, Result) else list(results)
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"},
            "clicket": {"runs": [_facts(run) for run in runs]},
        },
        "cells": list(_cells(runs)),
    }


def notebook_json(results: Result | Iterable[Result]) -> bytes:
    """The notebook as a file."""
    return msgspec.json.format(msgspec.json.encode(to_notebook(results)), indent=1) + b"\n"


def _facts(run: Result) -> dict[str, Any]:
    facts: dict[str, Any] = {"status": run.status, "duration": run.duration, "isolation": run.isolation.level}
    return {**facts, "reason": _text(run.reason)} if run.reason else facts


def _cells(runs: list[Result]) -> Iterator[dict[str, Any]]:
    number = 0
    count = 0
    for run in runs:
        for cell in cells(run):
            number += 1
            source = _text(cell.text if isinstance(cell, Prose) else cell.block.code)
            id = f"cell-{number}-{hashlib.sha256(source.encode()).hexdigest()[:8]}"
            if isinstance(cell, Prose):
                yield {"cell_type": "markdown", "id": id, "metadata": {}, "source": source}
                continue
            count += 1
            yield {
                "cell_type": "code",
                "id": id,
                "metadata": {},
                "execution_count": count,
                "source": source.removesuffix("\n"),
                "outputs": [_output(output, count) for output in cell.outputs],
            }


def _output(output: Output, count: int) -> dict[str, Any]:
    if isinstance(output, Stream):
        return {"output_type": "stream", "name": output.name, "text": _text(output.text)}
    if isinstance(output, Shown):
        data = {_text(mime): _data(mime, data) for mime, data in output.forms.items()}
        if output.is_value:
            return {"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}
        return {"output_type": "display_data", "data": data, "metadata": {}}
    return {
        "output_type": "error",
        "ename": _text(output.type),
        "evalue": _text(output.message),
        "traceback": _text(output.traceback or f"{output.type}: {output.message}").splitlines(),
    }


def _data(mime: str, data: str) -> Any:
    """JSON as its value, everything else as text."""
    if mime == "application/json" or mime.endswith("+json"):
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return _text(data)
    return _text(data)


def _text(text: str) -> str:
    """Without lone surrogates, which JSON files cannot have."""
    return text.encode("utf-8", "backslashreplace").decode()
