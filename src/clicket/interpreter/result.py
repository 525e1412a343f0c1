"""The result of a run, as plain values. All of it comes from the sandbox and is treated as data, never as code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, overload

import msgspec

from clicket.interpreter.sandbox.isolation import Isolation

__all__ = ["Block", "Display", "File", "ProgramError", "Result", "Skipped", "Status", "Variable", "Variables", "worst"]

Status = Literal["ok", "error", "exit", "interrupted", "killed", "crashed", "session_lost"]
_WORST = ("ok", "error", "interrupted", "exit", "crashed", "killed", "session_lost")


class ProgramError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a block failed. The traceback shows lines of the program only. A fatal error ended the run."""

    type: str
    message: str
    traceback: str = ""
    block_index: int | None = None
    line: int | None = None
    fatal: bool = False


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """A name that a run created or changed. `value` is a short text, made without running code of the program."""

    name: str
    type: str
    value: str = ""
    length: int | None = None
    shape: tuple[int, ...] | None = None
    change: Literal["created", "changed"] = "created"


class Variables(Sequence[Variable]):
    """Variables in order; also found by name: `r.variables["x"].value`, `"x" in r.variables`."""

    __slots__ = ("_items", "_names")

    def __init__(self, items: Iterable[Variable] = ()) -> None:
        self._items = tuple(items)
        self._names = {item.name: item for item in self._items}

    @overload
    def __getitem__(self, key: int | str) -> Variable: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Variable, ...]: ...
    def __getitem__(self, key: Any) -> Any:
        return self._names[key] if isinstance(key, str) else self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._names if isinstance(key, str) else key in self._items

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variables) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return f"Variables({', '.join(f'{v.name}: {v.type} = {v.value}' for v in self._items)})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)


class Display(msgspec.Struct, frozen=True, kw_only=True):
    """One representation of a displayed object. Pictures are base64, everything else is text. Representations of the same object
    have the same `group`."""

    mime: str
    data: str
    block_index: int = 0
    group: int = 0
    artifact: str | None = None
    """The name of its bytes in the artifact store, if they are many."""


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the run created or changed, stored as an artifact."""

    name: str
    size: int
    sha256: str
    artifact: str | None


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was left out: a block of another language, a file over a limit, a link."""

    what: str
    why: str


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One block and its outcome."""

    index: int
    code: str
    lines: tuple[int, int] | None = None
    """The fence's first line in the task, counted from 0, and the line after its last one. None for bare code."""
    status: Status
    reason: str | None = None
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    error: ProgramError | None = None
    duration: float = 0.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. `status` is the worst of its blocks; `reason` says why it was killed, or the signal that it crashed with."""

    status: Status
    reason: str | None = None
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    """The `repr` of the last block's last expression."""
    error: ProgramError | None = None
    """The error behind the status."""
    errors: tuple[ProgramError, ...] = ()
    variables: Variables = Variables()
    displays: tuple[Display, ...] = ()
    files: tuple[File, ...] = ()
    imports: tuple[str, ...] = ()
    """Modules in the import statements of the code."""
    blocks: tuple[Block, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    """For the reader: a new session, threads left running."""
    outputs: dict[str, str] = {}
    """Artifacts of `stdout` and `stderr`, where these were shortened."""
    isolation: Isolation
    duration: float = 0.0
    exit_code: int | None = None
    task: str = ""
    """The Markdown or code as it was given."""

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def size(self) -> int:
        """Approximate number of characters."""
        written = sum(len(block.stdout) + len(block.stderr) + len(block.code) for block in self.blocks)
        return 2 * written + len(self.task) + sum(len(display.data) for display in self.displays)

    @property
    def fatal(self) -> bool:
        """Whether the run ended before its last block had finished."""
        return any(error.fatal for error in self.errors)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the tool's output. Empty fields are left out, except those in `_ALWAYS_THERE`.

        Code and output of single blocks are not repeated. A display that is stored as an artifact has no data.
        """
        plain: dict[str, Any] = {name: getattr(self, name) for name in _ALWAYS}
        plain["error"] = None if self.error is None else _sparse(self.error)
        plain["variables"] = [_sparse(variable) for variable in self.variables]
        plain["displays"] = [_shown(display) for display in self.displays]
        plain["files"] = [_plain(file) for file in self.files]
        plain["isolation"] = _plain(self.isolation)
        plain["blocks"] = [_brief(block) for block in self.blocks]
        plain["errors"] = [_sparse(error) for error in self.errors]
        plain["skipped"] = [_sparse(skipped) for skipped in self.skipped]
        plain |= {"reason": self.reason, "exit_code": self.exit_code, "outputs": dict(self.outputs)}
        plain |= {"imports": list(self.imports), "warnings": list(self.warnings)}
        return {name: value for name, value in plain.items() if name in _ALWAYS_THERE or value not in (None, [], {})}

    def text(self) -> str:
        """The run as text for a model."""
        parts = [f"status: {self.status}" + (f" ({self.reason})" if self.reason else "")]
        parts += [
            f"{name}:\n{text.rstrip()}" for name, text in (("stdout", self.stdout), ("stderr", self.stderr)) if text
        ]
        if self.value is not None:
            parts.append(f"value: {self.value}")
        parts += [error.traceback.rstrip() or f"{error.type}: {error.message}" for error in self.errors]
        if self.displays:
            parts.append("shown: " + ", ".join(display.mime for display in self.displays))
        if self.files:
            parts.append("files: " + ", ".join(f"{file.name} ({file.size} bytes)" for file in self.files))
        parts += [f"not taken: {skipped.what}: {skipped.why}" for skipped in self.skipped]
        return "\n".join((*parts, *self.warnings))


_ALWAYS = ("status", "stdout", "stderr", "value", "duration")
_ALWAYS_THERE = frozenset(
    (*_ALWAYS, "reason", "error", "errors", "variables", "displays", "files", "imports", "isolation")
)


def _sparse(value: msgspec.Struct) -> dict[str, Any]:
    """The fields that are not None, empty text or False."""
    return {
        name: field for name, field in _plain(value).items() if field is not None and field != "" and field is not False
    }


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.structs.asdict(value)
    return {name: list(field) if isinstance(field, tuple) else field for name, field in fields.items()}


def _shown(display: Display) -> dict[str, Any]:
    return _sparse(display) | {"data": display.data if display.artifact is None else None}


def _brief(block: Block) -> dict[str, Any]:
    fields = {"index": block.index, "status": block.status, "reason": block.reason, "value": block.value}
    return {name: value for name, value in fields.items() if value is not None} | {"duration": block.duration}


def worst(statuses: Iterable[Status]) -> Status:
    """The status of a run from those of its blocks."""
    return max(statuses, key=_WORST.index, default="ok")
