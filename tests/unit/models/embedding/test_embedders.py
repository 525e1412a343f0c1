"""Embedders by their names: fastembed and the OpenAI SDK are the real ones, sentence-transformers is a fake with its signatures.

`fixtures/tiny` is an ONNX model of 239 bytes: it looks each of five words up in a table of three numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.models.embedding import kinds
from clicket.search import Document, Index, TextEmbedder, embedder_of

np = pytest.importorskip("numpy")

TINY = Path(__file__).parent / "fixtures" / "tiny"
TEXTS = ["car drove", "automobile", "egg"]


def similar(embedder: TextEmbedder) -> list[float]:
    """How similar the first text is to each of them."""
    vectors = embedder.embed(TEXTS)
    assert (vectors.dtype, vectors.shape) == (np.float32, (3, embedder.dimensions))
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
    return [round(float(one), 2) for one in vectors @ vectors[0]]


# Of a function.


def test_any_function_is_an_embedder_and_is_made_at_the_first_use() -> None:
    made: list[str] = []

    def load() -> Any:
        made.append("loaded")
        return lambda texts: [(len(text), 2.0) for text in texts]

    embedder = TextEmbedder("lengths", load)
    assert made == []
    assert embedder.embed([]).shape == (0, 2)
    assert np.allclose(embedder.embed(["abcd"]), [[4 / 20**0.5, 2 / 20**0.5]])
    assert (made, embedder.dimensions, embedder.name) == (["loaded"], 2, "lengths")


def test_a_vector_without_a_direction_stays_zero() -> None:
    assert TextEmbedder("none", lambda: lambda texts: [[0.0, 0.0] for _ in texts]).embed(["x"]).tolist() == [[0.0, 0.0]]


def test_a_text_that_no_encoding_can_write_is_cleaned() -> None:
    given: list[str] = []

    def encode(texts: list[str]) -> list[list[float]]:
        given.extend(texts)
        return [[1.0]] * len(texts)

    TextEmbedder("utf-8", lambda: encode).embed(["lone \ud800"])
    given[0].encode()


# Of fastembed.


@pytest.mark.parametrize(
    "named",
    [
        f"onnx:{TINY}",
        {"kind": "onnx", "model": str(TINY), "threads": 1},
        {"kind": "fastembed", "model": "sentence-transformers/all-MiniLM-L6-v2", "specific_model_path": str(TINY)},
    ],
    ids=["folder", "options", "fastembed"],
)
def test_a_local_model_needs_no_network(named: str | Mapping[str, Any]) -> None:
    assert similar(embedder_of(named)) == [1.0, 0.77, 0.0]


def test_an_onnx_model_is_named_by_its_content(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name / "model"
        folder.mkdir(parents=True)
        for file in TINY.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
    first, second = embedder_of(f"onnx:{tmp_path}/a/model"), embedder_of(f"onnx:{tmp_path}/b/model")
    assert first.name == second.name
    assert np.array_equal(first.embed(TEXTS), second.embed(TEXTS))
    content = (tmp_path / "b" / "model" / "model.onnx").read_bytes()
    (tmp_path / "b" / "model" / "model.onnx").write_bytes(content.replace(b"tiny", b"tony"))
    assert embedder_of(f"onnx:{tmp_path}/b/model").name != first.name


def test_a_search_by_meaning_finds_other_words() -> None:
    documents = [Document(id="1", title="", text="automobile"), Document(id="2", title="", text="egg recipe")]
    with Index.open(":memory:", embedder=embedder_of(f"onnx:{TINY}")) as index:
        index.add(documents)
        assert index.find("car")[0].id == "1"


def test_a_model_that_cannot_be_loaded_is_named() -> None:
    with pytest.raises(UsageError, match=r"fastembed:no/such cannot be loaded: Model no/such is not supported"):
        embedder_of("fastembed:no/such").embed(["x"])


# Of sentence-transformers.


class FakeSentenceTransformer:
    """`SentenceTransformer` as version 6.2 has it, as far as it is used."""

    def __init__(self, model_name_or_path: str | None = None, *, device: str | None = None) -> None:
        self.given = (model_name_or_path, device)

    def encode(self, inputs: list[str], *, show_progress_bar: bool | None = None) -> Any:
        assert self.given == ("all-MiniLM-L6-v2", "cpu")
        assert show_progress_bar is False
        return np.array([{"car drove": [2, 0], "automobile": [1, 1]}.get(text, [0, 3]) for text in inputs], np.float32)


@pytest.fixture
def fake_sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = FakeSentenceTransformer  # type: ignore[attr-defined]  # the module is a fake
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(kinds, "find_spec", lambda name: module)


@pytest.mark.usefixtures("fake_sentence_transformers")
def test_sentence_transformers() -> None:
    embedder = embedder_of({"kind": "sentence-transformers", "model": "all-MiniLM-L6-v2", "device": "cpu"})
    assert similar(embedder) == [1.0, 0.71, 0.0]
    assert embedder.name == "sentence-transformers:all-MiniLM-L6-v2"


# Of a server.


class Server:
    """An OpenAI-compatible server behind the SDK's own client."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers = iter(answers)
        self.asked: list[httpx.Request] = []
        self.client = httpx.Client(transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if (answer := next(self.answers, None)) is not None:
            return answer
        texts = json.loads(request.content)["input"]
        data = [{"object": "embedding", "index": at, "embedding": [len(text), 1.0]} for at, text in enumerate(texts)]
        return httpx.Response(200, json={"object": "list", "data": data[::-1], "model": "m", "usage": {}})


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    with one.client:
        yield one


def test_a_server_is_asked_with_the_model_and_its_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("MY_KEY", "sk-mine")
    given = {"kind": "openai", "model": "small@https://own.example/v1", "dimensions": 2, "api_key_env": "MY_KEY"}
    embedder = embedder_of({**given, "http_client": server.client})
    assert np.allclose(embedder.embed(["abc", "a"])[:, 0], [3 / 10**0.5, 1 / 2**0.5]), "in the order of the texts"
    (request,) = server.asked
    assert (str(request.url), request.headers["authorization"]) == (
        "https://own.example/v1/embeddings",
        "Bearer sk-mine",
    )
    body = json.loads(request.content)
    assert (body["model"], body["dimensions"], embedder.name) == ("small", 2, "openai:small")


def test_a_server_of_ones_own_needs_no_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    given = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:11434/v1", "http_client": server.client}
    assert embedder_of(given).dimensions == 2


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (401, UsageError, "refused the key"),
        (429, RetryableError, "gave no answer"),
        (503, RetryableError, "gave no answer"),
        (404, ClicketError, "refused the request"),
    ],
)
def test_what_a_server_refuses(status: int, kind: type[ClicketError], text: str) -> None:
    pytest.importorskip("openai")
    server = Server(httpx.Response(status, json={"error": {"message": "no: sk-secret"}}))
    given = {"kind": "openai", "model": "m@http://x.test/v1", "http_client": server.client, "max_retries": 0}
    with server.client, pytest.raises(kind, match=text) as raised:
        embedder_of(given).embed(["x"])
    assert type(raised.value) is kind
    assert status != 401 or "sk-secret" not in str(raised.value)


# Names.


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("minilm", "does not name an embedder"),
        ("onnx:", "does not name an embedder"),
        ({"model": "x"}, "does not name an embedder"),
        ("fastembd:x", "Did you mean 'fastembed'"),
        (7, "not by int"),
        ("onnx:/no/where", r"/no/where has no model.onnx or onnx/model.onnx"),
        ({"kind": "openai", "model": "x", "api_key": "sk"}, "api_key_env"),
        ({"kind": "openai", "model": "x", "api_key_env": "NOT_SET_ANYWHERE"}, "'NOT_SET_ANYWHERE', which is not set"),
    ],
)
def test_a_mistaken_name_says_how_to_write_it(named: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        embedder_of(named)


@pytest.mark.parametrize(
    ("named", "extra"),
    [
        ("fastembed:x", "embeddings"),
        (f"onnx:{TINY}", "embeddings"),
        ("sentence-transformers:x", "sentence-transformers"),
        ("openai:x", "openai"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(named: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=rf"not installed. Run: pip install 'clicket\[{extra}\]'"):
        embedder_of(named)
