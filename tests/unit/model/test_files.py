"""What is found in the first bytes of a file, and the line that stands in a text for it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.pictures import png

from clicket import File, Image
from clicket.errors import UsageError
from clicket.model.files import FileRef, files_text, ref_of, shown_in

UNKNOWN = "application/octet-stream"
GIF = b"GIF89a" + struct.pack("<HH", 640, 480) + b"\0" * 3
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + b"\0" * 9 + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 480, 640) + b"\3" * 10
)
WEBP_X = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
WEBP_L = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + (639 | 479 << 14).to_bytes(4, "little")
WEBP = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640, 480)


def ref(file: File) -> FileRef:
    data = file.source
    assert isinstance(data, bytes)
    return ref_of(file, "sha256-" + "a" * 64, data, len(data))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(640, 480), "image/png"),
        (GIF, "image/gif"),
        (JPEG, "image/jpeg"),
        (WEBP, "image/webp"),
        (WEBP_L, "image/webp"),
        (WEBP_X, "image/webp"),
    ],
)
def test_an_image_says_what_it_is_and_how_large(data: bytes, kind: str) -> None:
    found = ref(Image(data))
    assert (found.media_type, found.width, found.height) == (kind, 640, 480)


def test_the_bytes_decide_and_not_the_extension_because_vendors_refuse_what_does_not_match() -> None:
    assert ref(Image(GIF, "image/png", name="photo.png")).media_type == "image/gif"


def test_a_picture_that_is_none_is_not_passed_off_as_one() -> None:
    assert ref(File(b"hello", "image/png")).media_type == ref(File(b"hello", name="a.pdf")).media_type == UNKNOWN
    with pytest.raises(UsageError, match="not an image"):
        ref(Image(b"hello", "image/png"))


def test_a_name_says_what_bytes_do_not() -> None:
    assert ref(File(b"a,b\n", name="data.csv")).media_type == "text/csv"
    assert ref(File(b"?")).media_type == "application/octet-stream"
    assert ref(File(b"<svg/>", "image/svg+xml")).is_image


@pytest.mark.parametrize("data", [b"hello", b"", b"%PDF-1.7"])
def test_an_image_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="Use File"):
        ref(Image(data))


@pytest.mark.parametrize("wrong", ["", 5, None, ["a"]])
def test_what_is_no_file_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="bytes, a path or the name of an artifact"):
        File(wrong)
    with pytest.raises(UsageError, match="media type"):
        File(b"x", "text")


def test_the_name_is_that_of_the_path() -> None:
    assert File(Path("/tmp/photo.png")).name == Image("folder/photo.png").name == "photo.png"
    assert File("sha256-" + "0" * 64).name == ""


@given(st.text())
def test_no_name_breaks_the_line(name: str) -> None:
    line = ref(File(b"x", name=name)).line
    assert line.count("[") == line.count("]") == 1
    assert len(line.splitlines()) == 1
    line.encode()


@given(st.binary(max_size=200))
def test_any_bytes_after_a_known_beginning_give_a_size_or_none(rest: bytes) -> None:
    for head in (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", WEBP[:16], WEBP_L[:16], WEBP_X[:16]):
        found = ref(Image(head + rest))
        assert found.width >= 0
        assert found.height >= 0


def test_a_text_holds_lines_at_the_places_of_files() -> None:
    one, two = ref(Image(GIF)), ref(File(b"x", name="x.bin"))
    plain = {"artifact": one.artifact, "media_type": "image/gif", "size": len(GIF), "width": 640, "height": 480}
    assert files_text(["before", plain, "after"], [one]) == f"before\n{one.line}\nafter"
    assert files_text({"a": 1}, [one, two]) == f'{{"a":1}}\n{one.line}\n{two.line}'
    assert shown_in(f"… {one.line} …", [one, two]) == (one,)
