"""Any bytes from the sandbox decode to a valid frame or raise `Violation`: no other exception."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.interpreter.sandbox import frames
from clicket.interpreter.session import protocol

DONE: dict[str, Any] = {
    "type": "done",
    "id": 3,
    "status": "ok",
    "value": "42",
    "error": {"type": "ValueError", "message": "no", "traceback": "…", "line": None},
    "exit_code": None,
    "variables": [
        {"name": "x", "type": "int", "value": "1", "length": None, "shape": None, "change": "created"},
        {"name": "a", "type": "ndarray", "value": "…", "length": 2, "shape": [2, 3], "change": "changed"},
    ],
    "threads": 0,
    "names": ["x", "a"],
}
DISPLAY = {"type": "display", "id": 3, "group": 0, "mime": "text/html", "data": "<b>"}
EACH = [
    DONE,
    DISPLAY,
    {"type": "ready", "layers": ["seccomp"], "python": "3.11.7"},
    {"type": "refused", "layer": "landlock", "message": "no"},
    {"type": "checked", "id": 1, "blocks": [{"error": None, "imports": ["os"], "loads": ["a"], "stores": ["b"]}]},
    {"type": "preloaded", "id": 1, "modules": ["numpy"]},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("frame", EACH, ids=lambda f: f["type"])
def test_each_frame_as_the_worker_packs_it(frame: dict[str, Any]) -> None:
    (answer,) = protocol.Frames().feed(frames.pack(frame))
    assert msgspec.to_builtins(answer) == msgspec.to_builtins(msgspec.json.decode(json.dumps(frame), type=type(answer)))
    assert type(answer).__struct_config__.tag == frame["type"]


@given(st.lists(st.sampled_from(EACH), max_size=5), st.lists(st.integers(0, 2000), max_size=8))
def test_frames_come_whole_however_they_are_cut(sent: list[dict[str, Any]], cuts: list[int]) -> None:
    data = b"".join(frames.pack(frame) for frame in sent)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader = protocol.Frames()
    got = [answer for a, b in itertools.pairwise(edges) for answer in reader.feed(data[a:b])]
    assert [type(answer).__struct_config__.tag for answer in got] == [frame["type"] for frame in sent]
    [more] = reader.feed(frames.pack(EACH[0]))
    assert type(more).__struct_config__.tag == EACH[0]["type"], "no bytes are left over"


@given(st.binary(max_size=200) | JSON.map(lambda v: json.dumps(v).encode()))
def test_other_bodies_are_violations(body: bytes) -> None:
    with pytest.raises(protocol.Violation):
        protocol.decode(body)


@given(
    st.sampled_from(EACH),
    st.data(),
    JSON,
)
def test_a_frame_with_one_wrong_field_is_right_or_a_violation(
    frame: dict[str, Any], data: st.DataObject, value: Any
) -> None:
    key = data.draw(st.sampled_from([*frame, "more"]))
    try:
        answer = protocol.decode(json.dumps(frame | {key: value}).encode())
    except protocol.Violation:
        return
    assert key != "more"
    given = (value, tuple(value) if isinstance(value, list) else value)
    # Blocks, types and shapes may be written in a shorter form.
    assert msgspec.to_builtins(answer)[key] in given or key in {"blocks", "type", "shape"}


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_garbage_is_a_violation_or_waits_for_more(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader = protocol.Frames()
    try:
        for a, b in itertools.pairwise(edges):
            assert list(reader.feed(data[a:b])) == []
    except protocol.Violation:
        pass


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"type":"done"}',
        b'{"type":"nobody","id":1}',
        b'{"x":' + b"[" * 100_000,
        b'{"type":"done","id":1,"status":' + b'{"a":' * 100_000,
        b'{"type":"done","id":' + b"9" * 10_000 + b',"status":"ok"}',
        b'{"type":"done","id":0,"status":"ok"}',
        b'{"type":"done","id":1.5,"status":"ok"}',
        b'{"type":"done","id":true,"status":"ok"}',
        b'{"type":"done","id":1,"status":"killed"}',
        b'{"type":"done","id":1,"status":"ok","value":"\\ud800"}',
        b'{"type":"done","id":1,"status":"ok","value":"\xff"}',
        b'{"type":"done","id":1,"status":"ok","threads":NaN}',
        b'{"type":"done","id":1,"status":"ok","threads":-1}',
        b'{"type":"done","id":1,"status":"ok"} {}',
        b'{"type":"done","id":1,"status":"ok","value":"' + b"x" * 300_000 + b'"}',
        b'{"type":"done","id":1,"status":"ok","names":[' + b'"ab",' * 20_000 + b'"ab"]}',
        b'{"type":"done","id":1,"status":"ok","names":["' + b"n" * 3_000 + b'"]}',
    ],
    ids=lambda body: body[:60].decode("latin-1"),
)
def test_violations(body: bytes) -> None:
    with pytest.raises(protocol.Violation) as caught:
        list(protocol.Frames().feed(framed(body)))
    assert len(str(caught.value)) < 400


def test_a_nul_is_a_character() -> None:
    (answer,) = protocol.Frames().feed(framed(b'{"type":"done","id":1,"status":"ok","value":"a\\u0000b"}'))
    assert isinstance(answer, protocol.DoneFrame)
    assert answer.value == "a\0b"


def test_a_length_beyond_the_limit_is_refused_from_its_head() -> None:
    reader = protocol.Frames()
    with pytest.raises(protocol.Violation, match="announced"):
        list(reader.feed((protocol.MAX_FRAME + 1).to_bytes(4, "big")))


def test_only_displays_may_be_long() -> None:
    long = "x" * (protocol.MAX_SMALL_FRAME + 10)
    (answer,) = protocol.Frames().feed(frames.pack(DISPLAY | {"data": long}))
    assert isinstance(answer, protocol.DisplayFrame)
    assert answer.data == long
    many = {"type": "preloaded", "id": 1, "modules": ["ab"] * 1_000_000}
    with pytest.raises(protocol.Violation):
        list(protocol.Frames().feed(frames.pack(many)))


@pytest.mark.parametrize("code", ["print('ä')", "a = '\ud800'", "\0", "x" * 100_000])
def test_the_worker_reads_what_we_send(code: str) -> None:
    sent = protocol.execute(7, code, "<block 1>")
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4
    assert frames.decode(sent[4:]) == {"op": "exec", "id": 7, "code": code, "name": "<block 1>"}
    assert frames.decode(protocol.check(8, [code])[4:]) == {"op": "check", "id": 8, "codes": [code]}
    assert frames.decode(protocol.preload(9, ["os"])[4:]) == {"op": "preload", "id": 9, "modules": ["os"]}
