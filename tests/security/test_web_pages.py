"""Untrusted pages: where fetching one may lead, how much of it is read, and what hostile markup can do. Traffic stays
on loopback."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import is_running
from tests.kit.waiting import PATIENCE, eventually
from tests.unit.search.web.kit import Request, answer, head, packed, page, serving

from clicket.model.document import Document
from clicket.web import PageFailed, Pages

ARTICLE = "<html><title>A title</title><nav>Menu</nav><main><p>" + "Words that matter. " * 20 + "</p></main></html>"


class Found:
    """An engine that finds given documents."""

    name = "found"

    def __init__(self, *urls: str) -> None:
        self.urls = urls

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]:
        return [Document(id=url, title="", text="An excerpt.", url=url, source="found") for url in self.urls]


def here(*urls: str, **options: Any) -> Pages:
    return Pages(Found(*urls), **{"allow_hosts": ["127.0.0.1"], "timeout": PATIENCE, **options})


async def resolved(host: str, port: int) -> Iterable[str]:
    return {"private.example": ["10.0.0.1"], "half.example": ["93.184.216.34", "127.0.0.1"]}.get(host, ["127.0.0.1"])


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1/", "loopback"),
        ("http://localhost/", "loopback"),
        ("http://2130706433/", "loopback"),
        ("http://0x7f.1/", "loopback"),
        ("http://0177.0.0.1/", "IPv4"),
        ("http://[::1]/", "loopback"),
        ("http://[::ffff:127.0.0.1]/", "loopback"),
        ("http://[::ffff:a9fe:a9fe]/", "credentials"),
        ("http://169.254.169.254/latest/meta-data/", "credentials"),
        ("http://192.168.0.1/", "private"),
        ("http://private.example/", "private"),
        ("http://half.example/", "loopback"),
        ("http://0.0.0.0/", "unspecified"),
        ("http://user:pass@site.example/", "user or password"),
        ("file:///etc/passwd", "http and https"),
        ("ftp://site.example/", "http and https"),
        ("gopher://site.example/", "http and https"),
        ("data:text/html,<p>hi", "http and https"),
        ("http://", "http and https"),
        ("http://[::1", "address"),
        ("http://site.example:99999/", "address"),
        ("http://site.example/" + "x" * 3000, "longer"),
        ("http://exa\tmple/", ""),
        ("http://a b/", ""),
    ],
)  # fmt: skip
async def test_addresses_that_are_not_reached(url: str, reason: str) -> None:
    with pytest.raises(PageFailed) as refused:
        await Pages(Found(), resolve=resolved, timeout=2).read(url)
    assert reason in refused.value.message


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:10.0.0.1]/",
        "http://2852039166/",
        "//10.1.2.3/x",
        "http://localhost:1/",
        "file:///etc/passwd",
        "http://user@127.0.0.1/",
        "javascript:alert(1)",
        "http://[",
        "",
    ],
)
async def test_redirects_are_judged_like_addresses(location: str) -> None:
    async with serving(lambda _: answer(b"", "302 Found", location=location)) as web:
        with pytest.raises(PageFailed):
            await here().read(f"{web.url}/start")
        assert len(web.seen) <= 6  # an empty link points to its own page


async def test_redirects_end_and_carry_nothing() -> None:
    def handle(request: Request) -> bytes:
        if request.path == "/loop":
            return answer(b"", "302 Found", location="/loop", set_cookie="a=b; Path=/")
        if request.path == "/start":
            return answer(b"", "301 Moved Permanently", location="/end#part", set_cookie="a=b; Path=/")
        return page(ARTICLE)

    async with serving(handle) as web:
        pages = here()
        with pytest.raises(PageFailed, match="more than 5 times"):
            await pages.read(f"{web.url}/loop")
        got = await pages.read(f"{web.url}/start")
    assert got.url == f"{web.url}/end"
    assert got.title == "A title"
    assert "Menu" not in got.text
    assert all("cookie" not in request.headers and "referer" not in request.headers for request in web.seen)
    assert {request.headers["user-agent"].partition("/")[0] for request in web.seen} == {"clicket"}


async def endless(start: bytes, part: bytes, count: int) -> AsyncIterator[bytes]:
    yield start
    for _ in range(count):
        yield part


async def test_a_page_of_100_megabytes_is_read_as_far_as_allowed() -> None:
    part = b"<p>" + b"many words " * 5957 + b"</p>"
    async with serving(lambda _: endless(head(content_type="text/html"), part, 1600)) as web:
        tracemalloc.start()
        try:
            got = await here().read(web.url)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert got.truncated
        assert 1_900_000 < len(got.text) <= 2_100_000
        assert peak < 40_000_000
        assert web.sent < 20_000_000  # in transit when the client closed


async def test_what_grows_when_it_is_unpacked_is_cut_too() -> None:
    bomb = gzip.compress(b"<p>" + b"0" * 50_000_000, 1)
    assert len(bomb) < 400_000
    raw = zlib.compressobj(wbits=-15)
    bare = raw.compress(ARTICLE.encode()) + raw.flush()

    def handle(request: Request) -> bytes:
        if request.path == "/bomb":
            return answer(bomb, content_type="text/html", content_encoding="gzip")
        if request.path == "/bare":
            return answer(bare, content_type="text/html", content_encoding="deflate")
        if request.path == "/zlib":
            return answer(zlib.compress(ARTICLE.encode()), content_type="text/html", content_encoding="deflate")
        if request.path == "/broken":
            return answer(b"\xff" * 90, content_type="text/html", content_encoding="gzip")
        if request.path == "/br":
            return answer(b"x", content_type="text/html", content_encoding="br")
        return packed(ARTICLE.encode())

    async with serving(handle) as web:
        pages = here()
        tracemalloc.start()
        try:
            got = await pages.read(f"{web.url}/bomb")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert got.truncated
        assert len(got.text) <= 2 * 1024 * 1024
        assert peak < 20_000_000
        for path in ("/gzip", "/bare", "/zlib"):
            assert "Words that matter." in (await pages.read(web.url + path)).text
        for path in ("/broken", "/br"):
            with pytest.raises(PageFailed):
                await pages.read(web.url + path)


async def test_slow_pages_are_left() -> None:
    async def dripping(_: Request) -> AsyncIterator[bytes]:
        yield head(content_type="text/html")
        while True:
            await asyncio.sleep(0.02)
            yield b"<p>x"

    async def silent(_: Request) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    for handle in (dripping, silent):
        async with serving(handle) as web:
            with pytest.raises(PageFailed, match=r"took longer|not enough time"):
                await asyncio.wait_for(here(timeout=0.3).read(web.url), PATIENCE)


async def test_a_page_that_fails_leaves_its_excerpt_and_is_reported() -> None:
    def handle(request: Request) -> bytes:
        if request.path == "/bad":
            return page("gone", "404 Not Found")
        if request.path == "/wall":
            return page("<p>Log in</p>")
        return page(ARTICLE)

    async with serving(handle) as web:
        urls = [f"{web.url}/{path}" for path in ("good", "bad", "wall", "good#again", "later")]
        pages = here(*urls, "http://10.0.0.1/x", top=4)
        answer = await pages.ask("x", k=10, deadline=PATIENCE)
        again = await pages.ask("y", k=10, deadline=PATIENCE)
    texts = [document.text for document in answer.documents]
    assert texts[0].startswith("Words that matter.")
    assert texts[1:3] == ["An excerpt."] * 2
    assert texts[3] == texts[0]
    assert texts[4:] == ["An excerpt."] * 2
    assert len(answer.notes) == 1
    assert "1 of 4 pages could not be read (127.0.0.1: its server answered 404" in answer.notes[0]
    assert again.documents == answer.documents
    assert sorted(request.path for request in web.seen) == ["/bad", "/good", "/wall"]  # each fetched once
    assert pages.failures == 1


async def test_pages_end_before_the_deadline_and_keep_what_came() -> None:
    async def hangs() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async with serving(lambda request: hangs() if request.path == "/hang" else page(ARTICLE)) as web:
        deadline, texts = 0.5, ["", ""]
        while not texts[1].startswith("Words"):  # a slow machine needs longer to read the good page
            assert deadline < PATIENCE
            deadline *= 2
            pages = here(f"{web.url}/hang", f"{web.url}/good")
            answer = await asyncio.wait_for(pages.ask("x", k=5, deadline=deadline), PATIENCE)
            texts = [document.text for document in answer.documents]
            assert texts[0] == "An excerpt."


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("<p>caf\u00e9 " * 9, "text/html; charset=iso-8859-1", "caf\u00e9"),
        ('<meta charset="gbk"><p>' + "\u4e2d\u6587\u7f51\u9875" * 9, "text/html; charset=utf-8", "\u4e2d\u6587\u7f51\u9875"),
        ('<meta content="text/html; charset=Shift_JIS"><p>' + "\u65e5\u672c\u8a9e" * 9, "text/html", "\u65e5\u672c\u8a9e"),
        ("<p>caf\u00e9 " * 9, "text/html; charset=punycode", "caf\u00e9"),
        ("<p>caf\u00e9 " * 9, "text/html; charset=no-such-thing", "caf\u00e9"),
        ("caf\u00e9 " * 9, "text/plain", "caf\u00e9"),
    ],
)  # fmt: skip
async def test_wrong_and_right_charsets(body: str, content_type: str, text: str) -> None:
    codec = "gbk" if "gbk" in body else "cp932" if "JIS" in body else "cp1252" if "8859" in content_type else "utf-8"
    async with serving(lambda _: answer(body.encode(codec), content_type=content_type)) as web:
        assert text in (await here().read(web.url)).text


@pytest.mark.parametrize("kind", ["image/png", "application/zip", "application/octet-stream", "video/mp4"])
async def test_what_is_no_page_is_not_read(kind: str) -> None:
    async with serving(lambda _: endless(head(content_type=kind), b"x" * 65536, 1600)) as web:
        with pytest.raises(PageFailed, match=kind):
            await here().read(web.url)
        assert web.sent < 20_000_000


def pdf(text: str) -> bytes:
    """One page with this text."""
    drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    made, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(places) + 1, table)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(places) + 1, len(made))
    return made + head + end


async def test_a_pdf_is_a_page_too() -> None:
    async with serving(lambda _: answer(pdf("Words that matter."), content_type="application/pdf")) as web:
        assert (await here().read(web.url)).text.strip() == "Words that matter."
        with pytest.raises(PageFailed, match="more than 400 bytes"):
            await here(max_size=400).read(web.url)
    async with serving(lambda _: answer(b"<p>not so", content_type="application/pdf")) as web:
        with pytest.raises(PageFailed, match="damaged"):
            await here().read(web.url)


async def test_a_pdf_that_takes_too_long_leaves_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow, new, started = tmp_path / "slow.py", tmp_path / "new", tmp_path / "pid"
    told = f"open({str(new)!r}, 'w').write(str(os.getpid()))\nos.rename({str(new)!r}, {str(started)!r})"
    slow.write_text(f"import os, time\n{told}\ntime.sleep(600)\n")
    monkeypatch.setattr("clicket.search.extract.pdf._CHILD", slow)
    timeout = 1.0
    async with serving(lambda _: answer(pdf("x"), content_type="application/pdf")) as web:
        while not started.exists():  # a slow machine needs longer to start the process
            assert timeout < PATIENCE
            timeout *= 2
            with pytest.raises(PageFailed):
                await here(timeout=timeout).read(web.url)
    pid = int(started.read_text())
    await eventually(lambda: not is_running(pid))


async def test_hosts_that_are_to_be_left_alone_are() -> None:
    async with serving(lambda _: page(ARTICLE)) as web:
        answer = await here(web.url, skip=["127.0.0.1"]).ask("x", k=5, deadline=None)
        assert not web.seen
    assert answer.documents[0].text == "An excerpt."
