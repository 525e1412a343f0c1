"""Makes an embedder from its name in the settings. Settings hold no API key, only the name of the environment variable that has it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from hashlib import file_digest
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clicket.errors import ClicketError, RetryableError, UsageError, did_you_mean
from clicket.models.embedding.embedder import Encode, TextEmbedder

__all__ = ["embedder_of"]

_FORM = (
    'Write "fastembed:MODEL", "sentence-transformers:MODEL" (or a folder), "onnx:FOLDER", "openai:MODEL", "openai:MODEL@URL", or '
    '{kind = "openai", model = "MODEL", base_url = "…", api_key_env = "…"}.'
)
_ONNX_FILES = ("model.onnx", "onnx/model.onnx")
_TRANSIENT = (408, 409, 425, 429)


def embedder_of(named: str | Mapping[str, Any]) -> TextEmbedder:
    """`"fastembed:MODEL"`, `"sentence-transformers:MODEL"` or its folder, `"onnx:FOLDER"`, `"openai:MODEL"` or `"openai:MODEL@URL"` for a
    server with the same protocol, or a mapping with `kind`, `model` and options. Options go to the library as they are:
    `fastembed.TextEmbedding`, `sentence_transformers.SentenceTransformer` or `openai.OpenAI`. Of an ONNX file, `pooling` is `mean` (the
    default), `cls` or `disabled`; of a server, `dimensions` may shorten the vectors, and `api_key_env` names the variable with the key.

    A model is read at the first use. fastembed and sentence-transformers fetch a model that is not on this machine."""
    if isinstance(named, str):
        kind, found, model = named.partition(":")
        given: dict[str, Any] = {"kind": kind.strip(), "model": model.strip()} if found else {}
    elif isinstance(named, Mapping):
        given = dict(named)
    else:
        raise UsageError(f"an embedder is named by a text or a table, not by {type(named).__name__}. {_FORM}")
    kind, model = str(given.pop("kind", "")), str(given.pop("model", ""))
    if not kind or not model:
        raise UsageError(f"{named!r} does not name an embedder. {_FORM}")
    made = _KINDS.get(kind)
    if made is None:
        raise UsageError(f"there is no kind of embedder {kind!r}.{did_you_mean(kind, _KINDS)} {_FORM}")
    return made(model, given)


def _fastembed(model: str, options: dict[str, Any]) -> TextEmbedder:
    _require("fastembed", "embeddings")

    def load() -> Encode:
        return import_module("fastembed").TextEmbedding(model, **options).embed  # type: ignore[no-any-return]  # by its name

    return TextEmbedder(f"fastembed:{model}", load)


def _onnx(folder: str, options: dict[str, Any]) -> TextEmbedder:
    """A folder as Hugging Face has it: `tokenizer.json` and its configuration beside the model."""
    _require("fastembed", "embeddings")
    path = Path(folder).expanduser().resolve()
    file = next((name for name in _ONNX_FILES if (path / name).is_file()), None)
    if file is None:
        raise UsageError(f"{path} has no {' or '.join(_ONNX_FILES)}. {_FORM}")
    pooling = str(options.pop("pooling", "mean")).lower()
    with (path / file).open("rb") as content:
        name = f"onnx:{path.name}-{file_digest(content, 'sha256').hexdigest()[:12]}:{pooling}"

    def load() -> Encode:
        described = import_module("fastembed.common.model_description")
        library = import_module("fastembed").TextEmbedding
        if not any(each["model"].lower() == name.lower() for each in library.list_supported_models()):
            library.add_custom_model(
                model=name,
                pooling=described.PoolingType(pooling.upper()),
                normalization=False,
                sources=described.ModelSource(hf=path.name),  # never asked: the folder is given below
                dim=0,
                model_file=file,
            )
        return library(name, specific_model_path=str(path), **options).embed  # type: ignore[no-any-return]  # the same

    return TextEmbedder(name, load)


def _sentence_transformers(model: str, options: dict[str, Any]) -> TextEmbedder:
    _require("sentence_transformers", "sentence-transformers")

    def load() -> Encode:
        made = import_module("sentence_transformers").SentenceTransformer(model, **options)
        return lambda texts: made.encode(texts, show_progress_bar=False)

    return TextEmbedder(f"sentence-transformers:{model}", load)


def _openai(model: str, options: dict[str, Any]) -> TextEmbedder:
    _require("openai", "openai")
    _require("numpy", "embeddings")
    if "api_key" in options:
        raise UsageError("an embedder is named without its key: name the variable that has it with api_key_env.")
    before, at, url = model.rpartition("@")
    if at and url.startswith(("http://", "https://")):
        model = before
        options["base_url"] = url
    variable = options.pop("api_key_env", None)
    if variable is not None and not os.environ.get(str(variable)):
        raise UsageError(f"api_key_env names the variable {variable!r}, which is not set.")
    key = os.environ.get(str(variable or "OPENAI_API_KEY"))
    if key is None and options.get("base_url"):
        key = "none"  # a server of one's own may need none, but the SDK wants one
    size = options.pop("dimensions", None)
    wanted = {} if size is None else {"dimensions": size}

    def load() -> Encode:
        sdk = import_module("openai")
        client = sdk.OpenAI(**({} if key is None else {"api_key": key}), **options)

        def encode(texts: list[str]) -> list[Any]:
            try:
                answer = client.embeddings.create(model=model, input=texts, encoding_format="float", **wanted)
                return [each.embedding for each in sorted(answer.data, key=lambda each: each.index)]
            except sdk.APIError as error:
                raise _translated(error, f"embedding model {model!r}") from error

        return encode

    return TextEmbedder(f"openai:{model}", load)


def _translated(error: Any, which: str) -> ClicketError:
    """The SDK has retried already. What a server says about a key it refuses may repeat the key."""
    status = getattr(error, "status_code", None)
    if status in (401, 403):
        return UsageError(f"the server of {which} refused the key (HTTP {status}). Set OPENAI_API_KEY, or api_key_env.")
    if status is None or status in _TRANSIENT or status >= 500:
        return RetryableError(f"the server of {which} gave no answer: {error}")
    return ClicketError(f"the server of {which} refused the request: {error}")


def _require(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise UsageError(f"Embeddings need {package}, which is not installed. Run: pip install 'clicket[{extra}]'.")


_KINDS: dict[str, Callable[[str, dict[str, Any]], TextEmbedder]] = {
    "fastembed": _fastembed,
    "sentence-transformers": _sentence_transformers,
    "onnx": _onnx,
    "openai": _openai,
}
