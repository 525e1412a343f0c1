"""A program's output and frames: output within limits, and frames that violate the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples
from tests.kit.waiting import eventually
from tests.unit.interpreter.session.fake_process import (
    READY,
    done,
    follow,
    opened,
    outcome,
    pour,
)

from clicket.interpreter.sandbox.frames import pack
from clicket.interpreter.session import session as sessions
from clicket.interpreter.session.session import OutputItem


class TestOutput:
    async def test_what_is_shown_weighs_what_it_takes_of_our_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_MAX_DISPLAYED", 100_000)
        for text, outcome_ in (("x" * 40_000, "ok"), ("x" * 40_000 + "\N{GRINNING FACE}", "killed")):
            async with opened() as (session, process):
                session.begin("…", name="<block 1>", timeout=5)
                process.say(type="display", id=1, group=1, mime="text/plain", data=text)
                if outcome_ == "ok":
                    process.say(**done())
                assert (await follow(session))[1].status == outcome_

    async def test_more_than_it_may(self) -> None:
        async with opened(max_output=100_000, kept_output=1_000) as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            await pour(process, 1_000_000)
            _, ended = await follow(session)
            assert (ended.status, ended.reason) == ("killed", "output")
            assert ended.stdout.cut
            assert len(ended.stdout.text) < 1_100
            assert ended.stdout.spool is not None
            assert ended.stdout.spool.size >= 100_000

    async def test_shows_more_than_it_may(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_MAX_DISPLAYED", 6_000)
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            for _ in range(20):
                process.say(type="display", id=1, group=0, mime="text/plain", data="x" * 100)
            items, ended = await follow(session)
            assert (ended.status, ended.reason) == ("killed", "output")
            assert 1 < len(items) < 10

    async def test_unread_output_does_not_grow(self) -> None:
        async with opened(max_output=1 << 30) as (session, process):
            session.begin("…", name="<block 1>", timeout=None)
            poured = await pour(process, 50_000_000)
            assert 4_000_000 < poured < 8_000_000
            watching = session.watch()
            got = len((await anext(watching)).text)  # reading frees space
            assert await pour(process, 1_000_000) == 1_000_000
            process.say(**done())
            async for item in watching:
                got += len(item.text) if isinstance(item, OutputItem) else 0
            assert got == poured + 1_000_000

    async def test_pictures_count_too(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            os.set_blocking(process.inside_answers, False)
            frame, sent = pack({"type": "display", "id": 1, "group": 0, "mime": "image/png", "data": "x" * 30_000}), 0
            for _ in range(3_000):
                with contextlib.suppress(BlockingIOError):
                    os.write(process.inside_answers, frame)
                    sent += len(frame)
                await asyncio.sleep(0)
            assert 4_000_000 < sent < 6_000_000


class TestProtocol:
    @pytest.mark.parametrize(
        "data",
        [
            pack(done(2)),
            pack(READY),
            pack({"type": "refused", "layer": "x", "message": "y"}),
            pack({"type": "checked", "id": 1, "blocks": []}),
            pack({"type": "display", "id": 9, "group": 0, "mime": "a", "data": ""}),
            b"\xff\xff\xff\xff",
            b"hello world, this is not a frame",
            b"\0\0\0\0",
            (5).to_bytes(4, "big") + b"[[[[[",
        ],
        ids=lambda data: data[:30].decode("latin-1"),
    )
    async def test_violations(self, data: bytes) -> None:
        async with opened(grace=0.05) as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            os.write(process.inside_answers, data)
            _, ended = await follow(session)
            assert (ended.status, ended.reason) == ("killed", "protocol")
            assert ended.detail

    async def test_half_a_frame_is_waited_for_until_the_deadline(self) -> None:
        async with opened(grace=0.01) as (session, process):
            session.begin("…", name="<block 1>", timeout=0.05)
            os.write(process.inside_answers, pack(done())[:-1])
            assert await outcome(session) == ("killed", "timeout")

    async def test_a_forged_end_does_not_affect_the_next_block(self) -> None:
        """The program sends an end frame and continues. The real end frame comes later, and belongs to no block."""
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done(value="forged"))
            assert (await follow(session))[1].value == "forged"
            process.say(**done(value="true"))
            session.begin("…", name="<block 2>", timeout=5)
            process.say(type="display", id=1, group=0, mime="a", data="old")
            process.say(**done(2, value="next"))
            items, ended = await follow(session)
            assert (items, ended.value) == ([], "next")

    async def test_late_answers_without_end(self) -> None:
        async with opened() as (session, process):
            session.begin("…", name="<block 1>", timeout=5)
            process.say(**done())
            await follow(session)
            for _ in range(1_025):
                process.say(**done())
                await asyncio.sleep(0)
            await eventually(lambda: session.exit_reason is not None)
            session.begin("…", name="<block 2>", timeout=5)
            assert await outcome(session) == ("killed", "protocol")

    @settings(max_examples=examples(40))
    @given(
        st.lists(
            st.one_of(
                st.binary(max_size=40),
                st.sampled_from([done(), done(2), READY, {"type": "checked", "id": 1, "blocks": []}]).map(pack),
                st.builds(
                    lambda number, data: pack({"type": "display", "id": number, "group": 0, "mime": "t", "data": data}),
                    st.integers(0, 2),
                    st.text(st.characters(codec="utf-8"), max_size=10),
                ),
            ),
            max_size=6,
        ),
        st.binary(max_size=30),
    )
    def test_whatever_comes_the_block_ends(self, sent: list[bytes], output: bytes) -> None:
        async def check() -> None:
            async with opened(grace=0.001) as (session, process):
                session.begin("…", name="<block 1>", timeout=0.003)
                os.write(process.inside_stdout, output)
                for data in sent:
                    os.write(process.inside_answers, data)
                    await asyncio.sleep(0)
                _, ended = await follow(session)
                assert (ended.status, ended.reason) in {
                    ("ok", None),
                    ("interrupted", "timeout"),
                    ("killed", "protocol"),
                    ("killed", "timeout"),
                }
                assert ended.stdout.text == output.decode("utf-8", "replace")

        asyncio.run(check())
