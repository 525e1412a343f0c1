"""Frames as the inside writes and reads them: equal to any JSON, complete or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.interpreter.sandbox import frames

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), values, max_size=5))
def test_what_is_packed_is_plain_json_and_comes_back(value: dict[str, Any]) -> None:
    frame = frames.pack(value)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert json.loads(frame[4:]) == frames.decode(frame[4:]) == value


@given(st.dictionaries(st.text(), values, max_size=5))
def test_without_the_accelerator_it_is_the_same(value: dict[str, Any]) -> None:
    to_text, from_text = frames.plain_codec()
    text = to_text(value)
    assert text.encode() == frames.encode(value)
    assert from_text(text) == (value, len(text))


@given(st.binary(max_size=40))
def test_what_is_no_json_is_one_kind_of_error(body: bytes) -> None:
    try:
        frames.decode(body)
    except frames.BadFrame:
        with pytest.raises(ValueError):
            json.loads(body.decode("utf-8", "strict") if body.strip() == body else "")


def test_lone_surrogates_do_not_stop_a_frame() -> None:
    assert frames.encode({"text": "a\ud800b"}) == b'{"text":"a?b"}'


@pytest.mark.parametrize("value", [{"x": float("nan")}, {"x": float("inf")}, {"x": object()}, {"x": b"bytes"}])
def test_what_json_cannot_say_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        frames.pack(value)


def test_through_a_small_pipe_and_to_its_end() -> None:
    read, write = os.pipe()
    sent = [{"text": "é" * 300_000}, {}, {"n": 1}]

    def send() -> None:
        for value in sent:
            frames.write(write, value)
        os.close(write)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        assert [frames.read(read), frames.read(read), frames.read(read), frames.read(read)] == [*sent, None]
    finally:
        thread.join()
        os.close(read)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"\0\0", "middle"),
        (b"\0\0\0\5{}", "middle"),
        (b"\0\0\0\0", "JSON"),
        (b"\0\0\0\2[]", "not a list"),
        (b"\0\0\0\4{}{}", "follow"),
        (b"\0\0\0\2\xff\xfe", "UTF-8"),
        (b"\xff\xff\xff\xff", "announces"),
        (b"\x02\x00\x00\x01", "announces"),
    ],
)
def test_a_broken_frame_is_named(data: bytes, part: str) -> None:
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    with pytest.raises(frames.BadFrame, match=part):
        frames.read(read)
    os.close(read)


def test_too_much_is_refused_before_it_is_sent() -> None:
    with pytest.raises(frames.BadFrame, match="in pieces"):
        frames.pack({"text": "x" * frames.MAX_FRAME})


def test_nothing_heavy_is_loaded_for_them(library: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(library)!r}); import clicket.interpreter.sandbox.boot; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"json", "re", "enum", "typing", "signal", "contextlib", "ctypes"} & set(loaded.split())


def test_a_program_that_ruins_its_builtins_still_speaks_in_frames(library: Path) -> None:
    code = f"""
import sys; sys.path.insert(0, {str(library)!r})
from clicket.interpreter.sandbox import frames
import builtins, os
go = os._exit
os.read = os.write = builtins.len = builtins.isinstance = builtins.memoryview = builtins.min = None
frames.write(1, {{"heard": frames.read(0)}})
go(0)
"""
    given = frames.pack({"x": "y" * 100})
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], input=given, capture_output=True, check=True)
    assert frames.decode(done.stdout[4:]) == {"heard": {"x": "y" * 100}}
