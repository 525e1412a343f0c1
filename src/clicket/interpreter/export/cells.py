"""A run as prose and blocks in the order of the task, each block with its outputs. Every export draws these cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from clicket.interpreter.result import Block, Display, ProgramError, Result
from clicket.interpreter.run.task_parser import plain_text

__all__ = ["Cell", "Output", "Prose", "Shown", "Stream", "cells", "failure"]


class Prose(msgspec.Struct, frozen=True, kw_only=True):
    """Markdown between the blocks, with blocks of other languages."""

    text: str


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    name: Literal["stdout", "stderr"]
    text: str


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One displayed object: data by MIME type. `is_value`: it is the value of the block's last expression."""

    forms: dict[str, str]
    is_value: bool = False


Output = Stream | Shown | ProgramError


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A block and its outputs."""

    block: Block
    outputs: tuple[Output, ...]


def cells(result: Result) -> Iterator[Prose | Cell]:
    """All of a run. The prose after the last block that ran contains the blocks that did not run."""
    lines = plain_text(result.task).split("\n")
    done = 0
    fenced = False
    for block in result.blocks:
        if block.lines is not None:
            fenced = True
            yield from _prose(lines[done : block.lines[0]])
            done = max(done, block.lines[1])
        yield Cell(block=block, outputs=tuple(_outputs(result, block)))
    if fenced or not result.blocks:
        yield from _prose(lines[done:])


def failure(block: Block) -> ProgramError | None:
    """Why a block failed; made from its status if the block has no error itself."""
    if block.error is not None or block.status == "ok":
        return block.error
    return ProgramError(type=block.status, message=block.reason or "", block_index=block.index)


def _prose(lines: list[str]) -> Iterator[Prose]:
    text = "\n".join(lines).strip("\n")
    if text.strip():
        yield Prose(text=text)


def _outputs(result: Result, block: Block) -> Iterator[Output]:
    if block.stdout:
        yield Stream(name="stdout", text=block.stdout)
    if block.stderr:
        yield Stream(name="stderr", text=block.stderr)
    groups = _groups([display for display in result.displays if display.block_index == block.index])
    value = block.value
    for number, forms in enumerate(groups, 1):
        is_value = value is not None and number == len(groups) and forms.get("text/plain") == value
        yield Shown(forms=forms, is_value=is_value)
        value = None if is_value else value
    if value is not None:
        yield Shown(forms={"text/plain": value}, is_value=True)
    if (error := failure(block)) is not None:
        yield error


def _groups(displays: list[Display]) -> list[dict[str, str]]:
    """Representations of one object follow each other; a repeated MIME type starts the next object."""
    groups: list[dict[str, str]] = []
    current: int | None = None
    for display in displays:
        if display.group != current or display.mime in groups[-1]:
            groups.append({})
            current = display.group
        groups[-1][display.mime] = display.data
    return groups
