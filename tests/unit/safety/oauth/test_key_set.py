"""Which keys of a set are used, and for what. The rest of the set is left out without harm."""

from __future__ import annotations

import sys
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from clicket.errors import UsageError
from clicket.safety.oauth.config import ALGORITHMS
from clicket.safety.oauth.key_set import KeySet, require_jose

RSA = jwt.algorithms.RSAAlgorithm.to_jwk(
    rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key(), as_dict=True
)
EC = jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True)
OKP = jwt.algorithms.OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate().public_key(), as_dict=True)
WHOLE_EC = jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True)
SMALL = jwt.algorithms.RSAAlgorithm.to_jwk(
    rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key(), as_dict=True
)


def of(*keys: Any, algorithms: tuple[str, ...] = ALGORITHMS) -> KeySet:
    return KeySet.of({"keys": list(keys)}, algorithms)


def used_for(key: Any, algorithms: tuple[str, ...] = ALGORITHMS) -> list[str]:
    return [each for found in of(key, algorithms=algorithms).keys for each in found.made]


@pytest.mark.parametrize(
    ("key", "algorithms"),
    [
        (RSA, ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]),
        ({**RSA, "alg": "PS256"}, ["PS256"]),
        (EC, ["ES256"]),
        (OKP, ["EdDSA"]),
        ({**EC, "key_ops": ["verify"]}, ["ES256"]),
    ],
)
def test_a_key_is_bound_to_the_algorithms_of_its_kind(key: dict[str, Any], algorithms: list[str]) -> None:
    assert used_for(key) == algorithms
    assert used_for(key, ("HS256", "none")) == []


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "x"},
        {"kty": "oct", "k": "c2VjcmV0", "alg": "RS256"},
        {**RSA, "alg": "HS256"},
        {**RSA, "alg": "ES256"},
        {**RSA, "use": "enc"},
        {**EC, "key_ops": ["sign"]},
        {**EC, "key_ops": "verify"},
        {**EC, "kid": 5},
        {**EC, "kid": "k" * 1_000},
        {**EC, "crv": "P-999"},
        {**EC, "x": "!!"},
        {**RSA, "n": "AQAB"},
        {**RSA, "n": 5},
        {**RSA, "kty": ["RSA"]},
        SMALL,
        WHOLE_EC,
        {},
        "text",
        None,
    ],
)
def test_what_is_left_out(key: Any) -> None:
    assert of(key).keys == ()
    assert len(of(key, {**EC, "kid": "good"}).keys) == 1, "the others stay"


@pytest.mark.parametrize("document", [{}, {"keys": None}, {"keys": {}}, {"keys": "x"}])
def test_what_is_no_set(document: dict[str, Any]) -> None:
    assert KeySet.of(document, ALGORITHMS).keys == ()


def test_a_token_without_kid_needs_one_key_that_fits() -> None:
    one, two = {**EC, "kid": "1"}, {**EC, "kid": "2"}
    assert of(one, {**RSA, "kid": "3"}).find(None, "ES256") is not None
    assert of(one, two).find(None, "ES256") is None
    assert of(one, two).find("2", "ES256") is not None
    assert of(one, one).find("1", "ES256") is None, "which of them is not known"
    assert of(one).find("1", "RS256") is None
    assert len(of(*[one] * 5_000).keys) == 100


@pytest.mark.parametrize("package", ["jwt", "cryptography"])
def test_without_the_extra_it_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_jose()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=r"clicket\[oauth\]"):
        require_jose()
