"""Cases in files: lines of JSON, which this module writes and reads; and datasets of pydantic-evals, both ways."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.evals.case import Case
from clicket.model.codec import decode, encode

__all__ = ["from_pydantic_evals", "load_cases", "save_cases", "to_pydantic_evals"]

_NO_YAML = "a dataset in YAML needs PyYAML: pip install pyyaml. Or save it as JSON: dataset.to_file('cases.json')."


def save_cases(path: str | os.PathLike[str], cases: Iterable[Case]) -> int:
    """Write one case a line; returns how many."""
    lines = [encode(case) for case in cases]
    Path(path).write_bytes(b"".join(line + b"\n" for line in lines))
    return len(lines)


def load_cases(path: str | os.PathLike[str]) -> list[Case]:
    """Cases of a file: lines of JSON (`save_cases`), or a dataset of pydantic-evals as JSON or YAML."""
    file = Path(path)
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the cases in {file}: {error.strerror}.") from None
    if file.suffix in (".yaml", ".yml"):
        return from_pydantic_evals(_yaml(file, raw))
    if file.suffix == ".json":
        return from_pydantic_evals(_json(file, raw))
    cases = []
    for number, line in enumerate(raw.splitlines(), 1):
        if line.strip():
            try:
                cases.append(msgspec.json.decode(line, type=Case))
            except (msgspec.MsgspecError, ValueError, UsageError) as error:
                raise UsageError(
                    f"line {number} of {file} is not a case ({error}). A line is JSON: "
                    '{"message": "Refund order 7.", "name": "refund", "expected": "refunded"}.'
                ) from None
    return cases


def to_pydantic_evals(cases: Iterable[Case], name: str = "clicket") -> dict[str, Any]:
    """A dataset of pydantic-evals as plain JSON: `Dataset[str, Any, dict].from_dict(…)`, or a file for `from_file`. History and recorded
    calls are in each case's metadata under `clicket`."""
    return {"name": name, "cases": [_their_case(case) for case in cases]}


def from_pydantic_evals(dataset: Any) -> list[Case]:
    """Cases of a `Dataset`, or of its plain JSON. Its evaluators are code, and stay there."""
    plain = dataset.model_dump(mode="json") if hasattr(dataset, "model_dump") else dataset
    listed = plain.get("cases") if isinstance(plain, Mapping) else None
    if not isinstance(listed, list):
        raise UsageError(
            f"a dataset of pydantic-evals has a list of cases, {{'cases': [{{'inputs': …}}]}}, and this is {plain!r:.100}."
        )
    return [_our_case(number, each) for number, each in enumerate(listed, 1)]


def _their_case(case: Case) -> dict[str, Any]:
    own = {key: value for key, value in (("history", case.history), ("calls", case.calls)) if value not in ((), None)}
    metadata = {**case.metadata, **({"clicket": msgspec.to_builtins(own)} if own else {})}
    found: dict[str, Any] = {"name": case.name or None, "inputs": case.message, "metadata": metadata or None}
    if case.expected is not None:
        found["expected_output"] = case.expected
    return found


def _our_case(number: int, given: Any) -> Case:
    if not isinstance(given, Mapping) or "inputs" not in given:
        raise UsageError(f"case {number} of the dataset has no inputs: {given!r:.100}.")
    inputs, metadata = given["inputs"], dict(given.get("metadata") or {})
    own = metadata.pop("clicket", {})
    fields = {
        "message": inputs if isinstance(inputs, str) else encode(inputs).decode(),
        "name": given.get("name") or "",
        "expected": given.get("expected_output"),
        "metadata": metadata,
        **own,
    }
    try:
        return msgspec.convert(fields, Case)
    except (msgspec.ValidationError, UsageError) as error:
        raise UsageError(f"case {number} of the dataset: {error}.") from None


def _json(file: Path, raw: bytes) -> Any:
    try:
        return decode(raw)
    except (msgspec.MsgspecError, ValueError) as error:
        raise UsageError(
            f"{file} is not JSON: {error}. Lines of JSON are read from a file that ends in .jsonl."
        ) from None


def _yaml(file: Path, raw: bytes) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own
    except ModuleNotFoundError:
        raise UsageError(_NO_YAML) from None
    try:
        return yaml.safe_load(raw)
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is not YAML: {error}") from None
