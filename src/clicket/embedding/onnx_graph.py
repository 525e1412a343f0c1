"""Writes the ONNX graph of a BERT encoder from the shapes of its weights. No ONNX library is needed.

The graph holds no numbers: onnxruntime gets the weights separately. So the graph is a few kilobytes, and no converted file
is stored. Its nodes are the fused ones that onnxruntime has for such encoders on a CPU.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clicket.errors import UsageError

__all__ = ["Encoder", "graph", "in_bytes", "weights"]

FLOAT, INT8, INT32 = 1, 3, 6
"""Numbers of types in onnx.proto."""
_MATRICES = ("attention.weight", "mix.weight", "widen.weight", "narrow.weight")
_SCALE, _ZERO = ".scale", ".zero"
_LARGEST = 63
CONTRIB = "com.microsoft"
_STANDARD = ("MatMul", "DynamicQuantizeLinear")
"""Nodes of ONNX itself; the others are onnxruntime's."""


class Encoder(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a BERT encoder, as in its `config.json`."""

    num_hidden_layers: int
    num_attention_heads: int
    hidden_size: int
    layer_norm_eps: float = 1e-12
    max_position_embeddings: int = 512


def weights(tensors: Mapping[str, Any], encoder: Encoder) -> dict[str, Any]:
    """The tensors of a checkpoint as the graph needs them: matrices transposed, and query, key and value joined."""
    import numpy as np

    def get(name: str) -> Any:
        if name not in tensors:
            raise UsageError(f"the weights have no tensor {name!r}: they are not those of a BERT encoder")
        return np.ascontiguousarray(tensors[name], dtype=np.float32)

    def transposed(name: str) -> Any:
        return np.ascontiguousarray(get(name).T)

    out = {
        "words": get("embeddings.word_embeddings.weight"),
        "positions": get("embeddings.position_embeddings.weight"),
        "kinds": get("embeddings.token_type_embeddings.weight"),
        "norm.weight": get("embeddings.LayerNorm.weight"),
        "norm.bias": get("embeddings.LayerNorm.bias"),
    }
    for layer in range(encoder.num_hidden_layers):
        theirs, ours = f"encoder.layer.{layer}.", f"{layer}."
        three = [f"{theirs}attention.self.{part}." for part in ("query", "key", "value")]
        out[ours + "attention.weight"] = np.concatenate([transposed(part + "weight") for part in three], axis=1)
        out[ours + "attention.bias"] = np.concatenate([get(part + "bias") for part in three])
        for name, part in (("mix", "attention.output"), ("widen", "intermediate"), ("narrow", "output")):
            out[f"{ours}{name}.weight"] = transposed(f"{theirs}{part}.dense.weight")
            out[f"{ours}{name}.bias"] = get(f"{theirs}{part}.dense.bias")
        for name, part in (("mixed", "attention.output"), ("narrowed", "output")):
            out[f"{ours}{name}.weight"] = get(f"{theirs}{part}.LayerNorm.weight")
            out[f"{ours}{name}.bias"] = get(f"{theirs}{part}.LayerNorm.bias")
    return out


def in_bytes(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The same weights with the matrices of all layers as whole numbers of eight bits, and a scale for each of their columns. Seven of the
    bits are used: a processor without an instruction for such products adds two of them in sixteen bits, which overflow otherwise."""
    import numpy as np

    out: dict[str, Any] = {}
    for name, array in arrays.items():
        out[name] = array
        if name.endswith(_MATRICES):
            scale = np.maximum(np.abs(array).max(axis=0) / _LARGEST, 1e-12).astype(np.float32)
            out[name] = np.round(array / scale).astype(np.int8)
            out[name + _SCALE], out[name + _ZERO] = scale, np.zeros(scale.shape, dtype=np.int8)
    return out


def graph(encoder: Encoder, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """A ModelProto from `ids`, `kinds_of` and `mask` (int32, texts by tokens) to `hidden` (float, texts by tokens by size). Matrices
    that `shapes` has a scale for are of eight bits, and what they are multiplied with is rounded to eight bits first."""
    eps = {"epsilon": encoder.layer_norm_eps}
    embedding = ["ids", "kinds_of", "words", "positions", "kinds", "norm.weight", "norm.bias", "mask"]
    nodes = [_node("EmbedLayerNormalization", embedding, ["hidden.0", "lengths"], eps)]
    for layer in range(encoder.num_hidden_layers):
        before, after = f"hidden.{layer}", f"hidden.{layer + 1}"
        a, b, c, d, e, f = (f"{layer}.{step}" for step in "abcdef")
        heads = {"num_heads": encoder.num_attention_heads}
        attention, mix, mixed, widen, narrow, narrowed = (
            [f"{layer}.{name}.weight", f"{layer}.{name}.bias"]
            for name in ("attention", "mix", "mixed", "widen", "narrow", "narrowed")
        )
        nodes += [
            *_attention(before, attention, a, heads, shapes),
            _product(a, mix[0], b, shapes),
            _node("SkipLayerNormalization", [b, before, *mixed, mix[1]], [c], eps),
            _product(c, widen[0], d, shapes),
            _node("BiasGelu", [d, widen[1]], [e], {}),
            _product(e, narrow[0], f, shapes),
            _node("SkipLayerNormalization", [f, c, *narrowed, narrow[1]], [after], eps),
        ]
    last = f"hidden.{encoder.num_hidden_layers}"
    body = b"".join(_field(1, one) for one in nodes)
    body += _field(2, b"encoder")
    for name, shape in shapes.items():
        is_small = name.endswith(_ZERO) or name + _SCALE in shapes
        body += _field(5, _external_tensor(name, shape, INT8 if is_small else FLOAT))
    body += b"".join(_field(11, _value(name, INT32, 2)) for name in ("ids", "kinds_of", "mask"))
    body += _field(12, _value(last, FLOAT, 3))
    opsets = _field(8, _number(2, 17)) + _field(8, _field(1, CONTRIB.encode()) + _number(2, 1))
    return _number(1, 8) + _field(7, body) + opsets


def _attention(
    takes: str, weights: Sequence[str], gives: str, heads: Mapping[str, int], shapes: Mapping[str, Sequence[int]]
) -> list[bytes]:
    matrix, bias = weights
    if matrix + _SCALE not in shapes:
        return [_node("Attention", [takes, matrix, bias, "lengths"], [gives], heads)]
    rounded, scale, zero = (f"{gives}.{part}" for part in ("rounded", "scale", "zero"))
    parts = [rounded, matrix, bias, scale, matrix + _SCALE, "lengths", zero, matrix + _ZERO]
    return [
        _node("DynamicQuantizeLinear", [takes], [rounded, scale, zero], {}),
        _node("QAttention", parts, [gives], heads),
    ]


def _product(takes: str, matrix: str, gives: str, shapes: Mapping[str, Sequence[int]]) -> bytes:
    if matrix + _SCALE not in shapes:
        return _node("MatMul", [takes, matrix], [gives], {})
    return _node("DynamicQuantizeMatMul", [takes, matrix, matrix + _SCALE, matrix + _ZERO], [gives], {})


# --- the encoding of protocol buffers, as far as it is needed --------------------------------------------------------


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _node(kind: str, takes: Sequence[str], gives: Sequence[str], options: Mapping[str, int | float]) -> bytes:
    out = b"".join(_field(1, one.encode()) for one in takes) + b"".join(_field(2, one.encode()) for one in gives)
    out += _field(4, kind.encode())
    out += b"".join(_field(5, _option(name, value)) for name, value in options.items())
    return out if kind in _STANDARD else out + _field(7, CONTRIB.encode())


def _option(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _field(1, name.encode()) + _number(3, value) + _number(20, 2)
    return _field(1, name.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)


def _external_tensor(name: str, shape: Sequence[int], kind: int) -> bytes:
    """A tensor whose numbers are passed separately. onnxruntime requires the name of a file, and never opens it."""
    sizes = b"".join(_number(1, one) for one in shape)
    place = _field(13, _field(1, b"location") + _field(2, b"beside"))
    return sizes + _number(2, kind) + _field(8, name.encode()) + place + _number(14, 1)


def _value(name: str, kind: int, axes: int) -> bytes:
    sizes = b"".join(_field(1, _field(2, f"{name}.{axis}".encode())) for axis in range(axes))
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, sizes)))
