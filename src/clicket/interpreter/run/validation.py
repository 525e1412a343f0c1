"""Checks before anything runs: sizes and counts here; the code is compiled in the sandbox, never in this process."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clicket.interpreter.result import ProgramError, Status
from clicket.interpreter.run import task_parser
from clicket.interpreter.run.session_slot import listed
from clicket.interpreter.run.task_parser import MAX_TASK, MarkdownTooComplex, Parsed
from clicket.interpreter.session.session import Checked, Session
from clicket.system.bridge import ThreadPool

__all__ = ["TaskRefused", "check", "check_steps", "compiled", "may_be_code", "parsed", "session_lost", "stopped"]

_MAX_BLOCKS = 1_000
_MAX_JOINS = 10
"""Blocks of a task for which a later closing fence is tried."""
_BARE = (
    "The task has no fenced block, so all of it was run as Python: put code between a line ```python and a line ```."
)
_MAGIC = "Lines that begin with % or ! are notebook commands, not Python: remove them."


class TaskRefused(Exception):
    """The run ends with these errors; no further block runs."""

    def __init__(self, *errors: ProgramError, status: Status = "error", reason: str | None = None) -> None:
        super().__init__(errors[0].message)
        self.errors = errors
        self.status = status
        self.reason = reason


def refused(message: str, kind: str = "ValueError", block: int | None = None, line: int | None = None) -> TaskRefused:
    return TaskRefused(ProgramError(type=kind, message=message, block_index=block, line=line, fatal=True))


def stopped() -> TaskRefused:
    """The caller has interrupted the run."""
    error = ProgramError(
        type="KeyboardInterrupt", message="the run was stopped on request before its next block.", fatal=True
    )
    return TaskRefused(error, status="interrupted", reason="cancel")


def session_lost(missed: list[str], why: str) -> TaskRefused:
    """The code reads names that only a lost session had."""
    message = (
        f"the code reads {listed(missed)} of an earlier session that is lost ({why}). Nothing was run. "
        "Define them again: the next run starts in a new session."
    )
    return TaskRefused(ProgramError(type="SessionLost", message=message, fatal=True), status="session_lost")


def parsed(task: str) -> Parsed:
    """The parsed task, with at least one block, or with a text that may be Python as a whole."""
    try:
        size = len(task.encode())
    except UnicodeEncodeError as error:
        line = task.count("\n", 0, error.start) + 1
        raise refused(f"the task has a lone surrogate (half a character) in line {line}: remove it.") from None
    if size > MAX_TASK:
        raise refused(f"the task has {size:,} bytes, and may have {MAX_TASK:,}: send data as files.")
    try:
        found = task_parser.parse(task)
    except MarkdownTooComplex as error:
        raise refused(str(error)) from None
    if not found.blocks and not (found.fences and may_be_code(found)):
        raise _nothing(found)
    return found


def _nothing(found: Parsed) -> TaskRefused:
    others = ", ".join(skipped.what for skipped in found.skipped)
    there = f"There is only: {others}." if others else "Its blocks are empty." if found.text.strip() else "It is empty."
    return refused(f"the task has no Python to run. {there} Put code between a line ```python and a line ```.")


def check(found: Parsed) -> None:
    """Limits on the number of blocks, and on their characters."""
    blocks = found.blocks
    if len(blocks) > _MAX_BLOCKS:
        raise refused(f"the task has {len(blocks):,} blocks: send {_MAX_BLOCKS:,} at most.")
    for index, block in enumerate(blocks or task_parser.as_code(found.text).blocks):
        if (at := block.code.find("\0")) >= 0:
            line = block.code.count("\n", 0, at) + 1
            message = f"block {index + 1} has a NUL character in its line {line}, which no Python source may have."
            raise refused(message, "SyntaxError", index, line)


def check_steps(blocks: int, max_steps: int) -> None:
    if blocks > max_steps:
        raise refused(
            f"the task has {blocks} Python blocks and max_steps is {max_steps}, so none was run. "
            "Send fewer blocks at a time, or join some."
        )


def may_be_code(found: Parsed) -> bool:
    """Whether a text with fences could be Python as a whole, with the fences in its strings."""
    return not found.bare and not found.text.lstrip().startswith(("```", "~~~"))


async def compiled(
    found: Parsed, session: Session, timeout: float, thread_pool: ThreadPool, answers: list[Checked] | None = None
) -> tuple[Parsed, list[Checked]]:
    """Compile every block in the session, unless there are `answers` already.

    If that fails, the fences may be inside of strings: the text is tried as Python as a whole, and a block with a later end.
    """
    codes = [block.code for block in found.blocks]
    if answers:
        pass
    elif may_be_code(found):
        whole, *answers = await session.check([found.text, *codes], timeout)
        if whole.error is None:
            return task_parser.as_code(found.text), [whole]
        if not codes:
            raise _nothing(found)
    else:
        answers = await session.check(codes, timeout)
    for _ in range(_MAX_JOINS):
        index = next((at for at, answer in enumerate(answers) if answer.error is not None), None)
        if index is None:
            return found, answers
        joined = await _joined(found, index, answers[index], session, timeout, thread_pool)
        if joined is None:
            break
        check(found := joined)
        rest = [block.code for block in found.blocks[index:]]
        answers = [*answers[:index], *await session.check(rest, timeout)]
    raise _not_python(found, answers)


async def _joined(
    found: Parsed, index: int, answer: Checked, session: Session, timeout: float, thread_pool: ThreadPool
) -> Parsed | None:
    assert answer.error is not None
    if answer.error.type not in ("SyntaxError", "IndentationError", "TabError"):
        return None
    ends = task_parser.further_ends(found, index)
    if not ends:
        return None
    answers = await session.check([end.code for end in ends], timeout)
    end = next((end for end, checked in zip(ends, answers, strict=True) if checked.error is None), None)
    if end is None:
        return None
    return (
        task_parser.join(found, index, end)
        if task_parser.is_quick(found.text)
        else await thread_pool.run(lambda: task_parser.join(found, index, end))
    )


def _not_python(found: Parsed, answers: Sequence[Checked]) -> TaskRefused:
    errors: list[ProgramError] = []
    for block, (index, answer) in zip(found.blocks, enumerate(answers), strict=True):
        if (error := answer.error) is None:
            continue
        hints = [_BARE] if found.bare else []
        if any(line.lstrip().startswith(("%", "!")) for line in block.code.split("\n")):
            hints.append(_MAGIC)
        where = f"block {index + 1}" + (f", line {error.line}" if error.line else "")
        message = " ".join((f"{error.message} ({where}). Nothing was run.", *hints))
        reported = {**msgspec.structs.asdict(error), "message": message}
        errors.append(ProgramError(**reported, block_index=index, fatal=True))
    return TaskRefused(*errors)
