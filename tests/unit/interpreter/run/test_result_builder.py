"""A growing result: neither a program's output nor a failing store prevents it."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest

from clicket.errors import NotFound, StoreUnavailable
from clicket.interpreter.result import Display, Variable
from clicket.interpreter.run.block_errors import RunLimits
from clicket.interpreter.run.result_builder import ResultBuilder, bytes_of
from clicket.interpreter.run.task_parser import Fence
from clicket.interpreter.session.block_run import BlockEnd
from clicket.interpreter.session.capture import Capture
from clicket.sandbox import Isolation, Limits

ISOLATION = Isolation(level="full")
PNG = b"\x89PNG" + bytes(20_000)


class FakeArtifactStore:
    def __init__(self, *, full: bool = False) -> None:
        self.full = full
        self.kept: dict[str, bytes] = {}

    async def put(self, pieces: bytes | Sequence[bytes]) -> str:
        if self.full:
            raise StoreUnavailable("no room")
        name = f"sha256-{len(self.kept)}"
        assert not isinstance(pieces, bytes)
        assert (len(pieces), list(pieces)) == (len(list(pieces)), pieces[:]), "they can be iterated more than once"
        self.kept[name] = b"".join(pieces)
        return name

    async def get(self, name: str) -> bytes:
        raise NotFound(name)


def report(*ends: BlockEnd) -> ResultBuilder:
    made = ResultBuilder("task", RunLimits(timeout=1, max_output=100, sandbox=Limits()))
    for index, ended in enumerate(ends):
        made.add_block(index, Fence(code="x", lines=(0, 3)), False, ended)
    return made


@pytest.mark.parametrize(
    ("mime", "data", "expected"),
    [
        ("image/png", base64.b64encode(PNG).decode(), PNG),
        ("image/png", "not base64!", b"not base64!"),
        ("image/png", "é" * 10, "é".encode() * 10),
        ("image/svg+xml", "<svg>é</svg>", "<svg>é</svg>".encode()),
        ("text/html", "YQ==", b"YQ=="),
    ],
)
def test_bytes_of_a_display(mime: str, data: str, expected: bytes) -> None:
    assert bytes_of(mime, data) == expected


async def test_big_displays_are_kept_and_small_ones_travel() -> None:
    made, store = report(BlockEnd(status="ok")), FakeArtifactStore()
    for mime, data in (
        ("image/png", base64.b64encode(PNG).decode()),
        ("image/png", "é" * 20_000),
        ("text/html", "<b>"),
    ):
        made.add_display(Display(mime=mime, data=data))
    await made.store_large(store)
    assert [display.artifact for display in made.result(ISOLATION).displays] == ["sha256-0", "sha256-1", None]
    assert store.kept["sha256-0"] == PNG


async def test_long_output_is_kept_up_to_its_limit_and_says_what_is_missing() -> None:
    ends = []
    for byte in (b"a", b"b", b"c"):
        long = Capture(kept=10, max_spooled=50)
        long.feed(byte * 80)
        ends.append(BlockEnd(status="ok", stdout=long.finish()))
    made = report(*ends)
    store = FakeArtifactStore()
    await made.store_large(store)
    result = made.result(ISOLATION)
    whole = store.kept[result.outputs["stdout"]]
    assert whole == b"a" * 50 + b"b" * 50 + b"\n[140 more bytes were not stored]\n"
    assert "stderr" not in result.outputs
    made.close()


async def test_a_keeper_without_room_costs_nothing_but_what_it_did_not_keep() -> None:
    long = Capture(kept=10, max_spooled=50)
    long.feed(b"a" * 80)
    made = report(BlockEnd(status="ok", stdout=long.finish()))
    made.add_display(Display(mime="text/html", data="x" * 20_000))
    await made.store_large(FakeArtifactStore(full=True))
    result = made.result(ISOLATION)
    assert (result.status, result.outputs, result.displays[0].artifact) == ("ok", {}, None)
    assert [skipped.what for skipped in result.skipped] == ["all of stdout", "a display (text/html)"]
    made.close()


def test_threads_left_and_variables_changed_are_reported() -> None:
    result = report(
        BlockEnd(status="ok", threads=1, variables=(Variable(name="x", type="int", value="1"),)),
        BlockEnd(status="ok", threads=2, variables=(Variable(name="x", type="int", value="2", change="changed"),)),
        BlockEnd(status="ok", variables=(Variable(name="y", type="int", value="2", change="changed"),)),
    ).result(ISOLATION)
    assert ["a thread" in result.warnings[0], "2 threads" in result.warnings[1]] == [True, True]
    assert [(v.name, v.value, v.change) for v in result.variables] == [("x", "2", "created"), ("y", "2", "changed")]


def test_an_error_without_a_message_is_still_an_error() -> None:
    result = report(BlockEnd(status="error")).result(ISOLATION)
    assert result.error is not None
    assert (result.status, result.error.block_index, result.error.fatal) == ("error", 0, False)
