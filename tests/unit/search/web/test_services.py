"""Each service against a server with its protocol: requests, responses, and the error of each failure."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from tests.unit.search.web.engines import MAKE, QUICK, WITH_KEY
from tests.unit.search.web.kit import FOUND, KEY, SERVICES, Request, answer, page, searxng, serving

from clicket.errors import UsageError
from clicket.search.engines.fusion import Mixed
from clicket.testing import memory_runtime
from clicket.web import EngineFailed, JsonEngine, SearXNG, engine_of


@pytest.mark.parametrize("name", MAKE)
async def test_speaks_its_protocol(name: str) -> None:
    async with serving(SERVICES[name]) as web:
        engine = MAKE[name](web, **QUICK)
        found = await engine.search("Ada & Bernoulli? 数", k=5)
    assert len(web.seen) == 1
    assert web.seen[0].headers["user-agent"].startswith("clicket/")
    asked = web.seen[0].params.get("q") if web.seen[0].method == "GET" else None
    assert (asked or web.seen[0].json.get("q") or web.seen[0].json.get("query")) == "Ada & Bernoulli? 数"
    assert [one.title for one in found] == [f"Page {n}" for n in range(1, 6)]
    assert [one.url for one in found] == [each["url"] for each in FOUND[:5]]
    assert [one.id for one in found] == [f"//site{n}.example/p?id={n}" for n in range(1, 6)]
    assert {one.source for one in found} == {engine.name} == {name}
    assert found[2].text.startswith("Words of page 3.")


async def test_marks_of_brave_are_taken_out_and_more_snippets_taken_in() -> None:
    async with serving(SERVICES["brave"]) as web:
        (found,) = await MAKE["brave"](web).search("x", k=1)
        assert found.text == "Words of page 1. It's marked & cut"
        (found,) = await MAKE["brave"](web, params={"extra_snippets": True}).search("x", k=1)
        assert found.text == "One more.\nAnd another."


async def test_whole_pages_of_tavily_go_before_excerpts() -> None:
    async with serving(SERVICES["tavily"]) as web:
        (found,) = await MAKE["tavily"](web, params={"include_raw_content": True}).search("x", k=1)
    assert found.text == "All of Words of page 1."
    assert found.score == 1.0


@pytest.mark.parametrize("name", MAKE)
async def test_asks_for_no_more_than_the_service_gives(name: str) -> None:
    async with serving(SERVICES[name]) as web:
        assert len(await MAKE[name](web).search("x", k=1000)) in (20, 30)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("query", ["word " * 300, "一二三四" * 300, "a" * 500], ids=["words", "no spaces", "one word"])
async def test_long_queries_are_cut_to_what_the_service_takes(name: str, query: str) -> None:
    async with serving(SERVICES[name]) as web:
        assert await MAKE[name](web).search(query)


@pytest.mark.parametrize("name", ["brave", "bing"])
async def test_an_answer_without_results_is_none(name: str) -> None:
    async with serving(SERVICES[name]) as web:
        assert await MAKE[name](web).search("nothing") == []


@pytest.mark.parametrize("name", WITH_KEY)
async def test_a_wrong_key_is_said_and_not_shown(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "wrong-key-9876543210-wrong"

    async with serving(SERVICES[name]) as web:
        engine = MAKE[name](web, key=wrong, **QUICK)
        with pytest.raises(EngineFailed, match="key") as failed:
            await engine.search("x")
    assert len(web.seen) == 1  # a retry would not help
    assert failed.value.details["status"] in (401, 403, 422)
    assert wrong not in f"{failed.value!r} {failed.value.details} {engine!r} {caplog.text}"


async def test_a_key_that_the_service_repeats_is_on_no_record() -> None:
    short = "k3y$&"

    def handle(request: Request) -> bytes:
        return answer({"message": f"Unauthorized: {request.headers['x-api-key']} is bad"}, "403 Forbidden")

    async with serving(handle) as web, memory_runtime() as runtime:
        engine = MAKE["serper"](web, key=short, runtime=runtime)
        with pytest.raises(EngineFailed) as failed:
            await engine.search("x")
        call = (await runtime.history()).items[0]
        record = await runtime.get(call.id)
    assert "Unauthorized: *** is bad" in failed.value.message
    assert short not in msgspec.json.encode(record).decode()
    assert short not in msgspec.json.encode(record.events if hasattr(record, "events") else record).decode()


async def test_a_key_in_an_address_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = "an/odd key+0123456789abcdef"
    asked = {"q": "{query}", "format": "json", "api_key": "{key}"}
    async with serving(searxng) as web:
        assert await JsonEngine("mine", f"{web.url}/search", params=asked, key=key).search("x")
        assert web.seen[0].params["api_key"] == key
        web.handle = lambda _: answer(b"", "302 Found", location="http://10.0.0.1/" + web.seen[0].target)
        with pytest.raises(EngineFailed) as failed:
            await JsonEngine("mine", f"{web.url}/search", params=asked, key=key).search("x")
    shown = f"{caplog.text} {failed.value!r}"
    assert "HTTP Request: GET" in shown
    assert "0123456789abcdef" not in shown


async def test_searxng_without_json_says_what_to_change() -> None:
    async with serving(lambda _: page("<h1>Forbidden</h1>", "403 FORBIDDEN")) as web:
        with pytest.raises(EngineFailed, match=r"settings\.yml"):
            await SearXNG(web.url).search("x")


async def test_nothing_because_engines_behind_it_are_silent_is_a_failure() -> None:
    silent = {"query": "x", "results": [], "unresponsive_engines": [["google", "Suspended: CAPTCHA"]]}
    async with serving(lambda _: answer(silent)) as web:
        with pytest.raises(EngineFailed, match="CAPTCHA"):
            await SearXNG(web.url).search("x")
        web.handle = lambda _: answer({**silent, "unresponsive_engines": []})
        assert await SearXNG(web.url).search("x") == []


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (page("<html><title>Just a moment</title><p>Are you a robot?</p></html>"), "a web page, not with JSON"),
        (answer(b"", "200 OK", content_type="application/json"), "empty"),
        (answer(b"", "204 No Content"), "empty"),
        (answer(b'{"results": [{"title": "x', content_type="application/json"), "none"),
        (answer(b"[1, 2]", content_type="application/json"), "no results at"),
        (answer({"web": {"results": {}}, "results": 7, "organic": "", "webPages": []}), "no results at"),
        (answer(b"GIF89a", content_type="image/gif"), "image/gif"),
        (answer({"error": {"message": "Server is on fire"}}), "on fire"),
        (answer({"results": [1, None, {}, []]} | {"organic": [1], "web": {"results": [2]}, "webPages": {"value": [3]}}),
         "has a title or a text"),
        (answer({"message": "boom"}, "500 Internal Server Error"), "boom"),
    ],
    ids=["page", "empty", "no content", "cut", "list", "odd", "picture", "complaint", "junk", "500"],
)  # fmt: skip
async def test_what_is_no_answer_is_a_failure(name: str, response: bytes, reason: str) -> None:
    async with serving(lambda _: response) as web:
        with pytest.raises(EngineFailed) as failed:
            await MAKE[name](web, **QUICK).search("x")
    assert reason in failed.value.message
    assert failed.value.message.startswith(f"{name}: ")
    assert "<" not in failed.value.message


async def test_odd_results_are_survived() -> None:
    results = [
        {"title": None, "url": "https://a.example/", "content": 7},
        {"title": ["x", "y"], "url": "javascript:alert(1)", "content": {"a": 1}, "score": "high"},
        {"title": "No address"},
        {"title": "Same", "url": "https://a.example"},
        {"url": "https://b.example/", "content": "Only text", "score": float(3), "new": {"field": []}},
        "text",
        None,
        {"title": "T\x00", "url": "http://[bad", "content": ""},
    ]
    async with serving(lambda _: answer({"results": results})) as web:
        found = await SearXNG(web.url).search("x")
    assert [(one.title, one.text, one.url, one.score) for one in found] == [
        ("", "7", "https://a.example/", 0.0),
        ("x\ny", "", "", 0.0),
        ("No address", "", "", 0.0),
        ("", "Only text", "https://b.example/", 3.0),
        ("T", "", "", 0.0),
    ]


async def test_mixed_engines_are_fused_and_one_that_fails_harms_none() -> None:
    async with serving(searxng) as first, serving(SERVICES["serper"]) as second, serving(lambda _: page("no")) as third:
        mixed = Mixed([MAKE["searxng"](first), MAKE["serper"](second), MAKE["tavily"](third)])
        found = await mixed.ask("x", k=5, deadline=5)
    assert [one.title for one in found.documents] == [f"Page {n}" for n in range(1, 6)]
    assert len([note for note in found.notes if note.startswith("failed: tavily")]) == 1


async def test_any_json_service_by_declaration() -> None:
    def handle(request: Request) -> bytes:
        assert request.method == "POST"
        assert request.path == "/v2/find"
        assert request.params == {"lang": "en", "safe": "true", "site": "site: ada"}
        assert request.headers["x-token"] == f"Token {KEY}"
        assert request.json == {"search": {"text": "ada", "size": 3}, "tags": ["ada", "web"], "auth": KEY}
        hits = [{"_id": 1, "doc": {"head": "One", "parts": ["a", "b"], "at": "https://one.example"}, "rank": 0.5}]
        return answer({"data": [{"hits": hits}, {"hits": [{"_id": 2, "doc": {"name": "Two"}}]}]})

    async with serving(handle) as web:
        engine = engine_of(
            {
                "kind": "json",
                "name": "mine",
                "url": f"{web.url}/v2/find",
                "method": "POST",
                "params": {"lang": "en", "safe": True, "site": "site: {query}"},
                "headers": {"x-token": "Token {key}"},
                "body": {"search": {"text": "{query}", "size": "{k}"}, "tags": ["{query}", "web"], "auth": "{key}"},
                "key_env": "MY_KEY",
                "results": "data.*.hits",
                "fields": {
                    "id": "_id",
                    "title": "doc.head|doc.name",
                    "url": "doc.at",
                    "text": "doc.parts",
                    "score": "rank",
                },
            },
            environ={"MY_KEY": KEY},
        )
        found = await engine.search("ada", k=3)
    assert [(one.id, one.title, one.text, one.score) for one in found] == [
        ("//one.example", "One", "a\nb", 0.5),
        ("2", "Two", "", 0.0),
    ]


async def test_redirects_to_other_places_are_refused() -> None:
    async with serving(lambda _: answer(b"", "302 Found", location="http://169.254.169.254/latest/meta-data")) as web:
        with pytest.raises(EngineFailed, match=r"169\.254"):
            await SearXNG(web.url).search("x")


@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        ({"kind": "brav"}, "Did you mean 'brave'"),
        ({}, "Known: searxng"),
        ({"kind": "brave"}, "BRAVE_API_KEY is not set"),
        ({"kind": "brave", "key_env": "OTHER"}, "OTHER is not set"),
        ({"kind": "brave", "key": "a", "key_env": "B"}, "not both"),
        ({"kind": "searxng", "url": "http://x", "timout": 3}, "Did you mean 'timeout'"),
        ({"kind": "searxng"}, "url"),
        ({"kind": "searxng", "url": "x"}, "http://"),
        ({"kind": "searxng", "url": "http://x", "pages": {"tops": 1}}, "Did you mean 'top'"),
        ({"kind": "searxng", "url": "http://x", "rate": "fast"}, "'10/s'"),
        ({"kind": "json", "name": "x", "url": "http://x", "fields": {"titel": "t"}}, "Did you mean 'title'"),
        ({"kind": "tool", "tool": "x"}, "runtime"),
    ],
)  # fmt: skip
def test_wrong_declarations_are_named(declared: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        engine_of(declared, environ={})
    assert complaint in refused.value.message


def test_the_usual_variables_hold_the_keys() -> None:
    assert engine_of({"kind": "brave", "pages": 3}, environ={"BRAVE_API_KEY": KEY}).name == "brave"
