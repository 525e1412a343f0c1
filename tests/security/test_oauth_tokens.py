"""Access tokens that must not work, and an authorization server that misbehaves. Each is refused with a clear answer, in bounded time."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from tests.kit.issuer import AUDIENCE, MAP, Issuer, bearer, issuing, raw_token
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import Api, key_for, read_sse, served

from clicket import Policy
from clicket.safety.oauth.subjects import caller_of
from clicket.server import keys


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as made:
        yield made


@asynccontextmanager
async def api(issuer: Issuer, oauth: dict[str, Any] | None = None, **more: Any) -> AsyncIterator[Api]:
    async with served(oauth=oauth or issuer.settings(), **more) as it:
        yield it


async def refused(it: Api, token: str, path: str = "/calls") -> str:
    """The text of a 401, whose challenge is checked."""
    answer = await it.get(path, headers=bearer(token))
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), answer.text
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert len(token) < 20 or token not in answer.text
    return str(answer.json()["detail"])


async def test_a_token_works_and_is_its_subject(issuer: Issuer) -> None:
    async with api(issuer) as it:
        token = issuer.sign("read", "call")
        who = (await it.get("/whoami", headers=bearer(token))).json()
        assert who["id"] == who["name"] == caller_of(issuer.url, "ann")
        assert (who["scopes"], who["keyed"]) == (["call", "read"], True)
        made = (await it.call("add", {"a": 1, "b": 2}, headers=bearer(token))).json()
        assert made["output"] == 3
        assert (await it.runtime.get(made["call_id"])).caller == caller_of(issuer.url, "ann")
        again = issuer.sign("read", client_id="another app", exp=int(time.time()) + 99)
        assert (await it.get(f"/calls/{made['call_id']}", headers=bearer(again))).status_code == 200
        other = issuer.sign("read", sub="bob")
        assert (await it.get(f"/calls/{made['call_id']}", headers=bearer(other))).status_code == 404
        assert issuer.asked.count("/jwks") == 1


async def test_a_key_works_beside_tokens_and_is_never_sent_to_the_issuer(issuer: Issuer) -> None:
    async with api(issuer, issuer.introspected(), options={"api_keys": ("tester:read:0123456789abcdef0123",)}) as it:
        made = await key_for(it, "a", "read")
        assert (await it.get("/calls", headers=made)).status_code == 200
        assert (await it.get("/calls", headers={"x-api-key": "0123456789abcdef0123"})).status_code == 200
        for wrong in ("ck_000000000000_secret", made["authorization"][7:-1]):
            assert (await it.get("/calls", headers=bearer(wrong))).status_code == 401
            assert (await it.get("/calls", headers={"x-api-key": wrong})).status_code == 401
        assert (await it.get("/calls", headers={"x-api-key": issuer.opaque("t", "read")})).status_code == 401
        assert issuer.bodies == []
        assert (await it.get("/calls", headers={**made, "x-api-key": "t"})).status_code == 401
        assert (await it.get("/calls", headers=bearer("t"))).status_code == 200


WRONG_CLAIMS: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "https://other.example"},
    "an audience that begins alike": {"aud": AUDIENCE + ".evil.example"},
    "the resource below /mcp": {"aud": AUDIENCE + "/mcp"},
    "audiences of others": {"aud": ["a", "b"]},
    "no audience": {"aud": None},
    "an empty audience": {"aud": []},
    "an audience that is none": {"aud": {"a": AUDIENCE}},
    "another issuer": {"iss": "https://evil.example"},
    "an issuer with a slash": {"iss": "URL/"},
    "no issuer": {"iss": None},
    "expired": {"exp": int(time.time()) - 60},
    "expired long ago": {"exp": -1},
    "no end": {"exp": None},
    "an end that is text": {"exp": "2099-01-01"},
    "an end that is endless": {"exp": float("inf")},
    "an end that is not a number": {"exp": float("nan")},
    "not yet valid": {"nbf": int(time.time()) + 36_000},
    "issued tomorrow": {"iat": int(time.time()) + 86_400},
    "no subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "a long subject": {"sub": "x" * 300},
    "a subject with a line break": {"sub": "ann\nadmin"},
    "a subject with a NUL": {"sub": "ann\x00"},
    "bound to a key of its client": {"cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}},
    "a scope that is a number": {"scope": 7},
}


async def test_claims_that_do_not_fit(issuer: Issuer) -> None:
    async with api(issuer) as it:
        header = {"alg": "RS256", "kid": "k1"}
        for name, wrong in WRONG_CLAIMS.items():
            changed = {claim: issuer.url + "/" if value == "URL/" else value for claim, value in wrong.items()}
            claims = issuer.claims("read", **changed)
            text = raw_token(header, claims, b"").rstrip(".")
            token = f"{text}.{_signature(issuer, text)}"
            assert await refused(it, token), name
        good = f"{(text := raw_token(header, issuer.claims('read'), b'').rstrip('.'))}.{_signature(issuer, text)}"
        assert (await it.get("/calls", headers=bearer(good))).status_code == 200, "only the claims were wrong"


def _signature(issuer: Issuer, text: str) -> str:
    algorithm = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256)
    made = algorithm.sign(text.encode(), issuer.keys["k1"])
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


async def test_signatures_that_do_not_fit(issuer: Issuer) -> None:
    async with api(issuer) as it:
        claims, good = issuer.claims("admin"), issuer.sign("admin")
        head, body, signature = good.split(".")
        public = issuer.keys["k1"].public_key()
        pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        confused = []
        for secret in (pem, pem.strip(), der, json.dumps(issuer.jwks()[0]).encode()):  # key confusion
            for kid in ({"kid": "k1"}, {}):
                text = raw_token({"alg": "HS256", "typ": "JWT", **kid}, claims, b"").rstrip(".")
                mac = hmac.new(secret, text.encode(), hashlib.sha256).digest()
                confused.append(f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}")
        stranger = Issuer()
        stranger.url, stranger.keys = issuer.url, {}
        stranger.add_key("k1")
        tokens = [
            *confused,
            *(
                raw_token({"alg": alg, "kid": "k1"}, claims, made)
                for alg in ("none", "None", "NONE", "")
                for made in (b"", b"x")
            ),
            raw_token({"kid": "k1"}, claims),
            raw_token({"alg": ["RS256"], "kid": "k1"}, claims),
            raw_token({"alg": "RS256", "kid": ["k1"]}, claims),
            raw_token({"alg": "ES256", "kid": "k1"}, claims),
            f"{head}.{body}.",
            f"{head}.{body}.{signature[:-8]}AAAAAAAA",
            f"{head}.{raw_token({}, {**claims, 'sub': 'root'}).split('.')[1]}.{signature}",
            stranger.sign("admin", kid="k1"),
            raw_token({"alg": "RS256", "kid": "k1", "typ": "logout+jwt"}, claims),
            issuer.sign("admin", headers={"typ": "dpop+jwt"}),
            issuer.sign("admin", headers={"typ": "oauth-id-jag+jwt"}),
            raw_token({"alg": "RS256", "kid": "k1", "crit": ["exp"]}, claims),
            raw_token({"alg": "RS256", "kid": "k1", "b64": False}, claims),
            jwt.encode(claims, "x" * 64, "HS512", {"kid": "k1"}),
        ]
        for token in tokens:
            assert await refused(it, token)
        assert (await it.get("/calls", headers=bearer(good))).status_code == 200


async def test_an_algorithm_that_was_not_chosen(issuer: Issuer) -> None:
    async with api(issuer, issuer.settings(algorithms=["ES256"])) as it:
        assert "algorithm" in await refused(it, issuer.sign("read"))
        issuer.add_key("ec")
        assert (await it.get("/calls", headers=bearer(issuer.sign("read", kid="ec")))).status_code == 200


async def test_keys_and_addresses_in_a_header_are_ignored(issuer: Issuer) -> None:
    async with issuing() as evil, api(issuer) as it:
        evil_url, evil.url = evil.url, issuer.url
        evil.keys = {}
        evil.add_key("mine")
        own = evil.jwks()[0]
        for header in (
            {"jku": f"{evil_url}/jwks"},
            {"x5u": f"{evil_url}/jwks"},
            {"jwk": own},
            {"x5c": ["MIIB"]},
            {"jku": f"{evil_url}/jwks", "jwk": own, "kid": "k1"},
        ):
            assert await refused(it, evil.sign("admin", kid="mine", headers=header))
        assert evil.asked == []
        assert (
            await it.get("/calls", headers=bearer(issuer.sign("read", headers={"jku": evil_url})))
        ).status_code == 200
        assert evil.asked == []


KIDS = (
    "../../../../etc/passwd",
    "/dev/null",
    "' OR 1=1 --",
    "k1\x00",
    "http://127.0.0.1/x",
    "k" * 5_000,
    "",
    "\u202ek1",
)


async def test_the_name_of_a_key_is_only_compared(issuer: Issuer) -> None:
    async with api(issuer) as it:
        for kid in KIDS:
            assert await refused(it, issuer.sign("admin", headers={"kid": kid}))


async def test_unknown_keys_do_not_make_a_storm(issuer: Issuer) -> None:
    async with api(issuer) as it:
        for number in range(30):
            assert await refused(it, issuer.sign("read", headers={"kid": f"unknown-{number}"}))
        assert issuer.asked.count("/jwks") == 2


async def test_text_that_is_no_token(issuer: Issuer) -> None:
    async with api(issuer) as it:
        deep = raw_token({"alg": "RS256"}, b"[" * 9_000)
        nested = base64.urlsafe_b64encode(b'{"a":' * 2_000).rstrip(b"=").decode()
        long = "9" * 6_000
        number = base64.urlsafe_b64encode(f'{{"alg":"RS256","x":{long}}}'.encode()).rstrip(b"=").decode()
        texts = [
            "a",
            "a.b",
            "a.b.c",
            "..",
            "a.b.c.d",
            "a.b.c.d.e",
            deep,
            f"{nested}.e30.eA",
            f"{number}.e30.eA",
            "A" * 20_000,
        ]
        texts += ["e30.e30.", "bnVsbA.bnVsbA.bnVsbA", "W10.e30.eA", "=.=.=", raw_token({"alg": "RS256"}, b"\xff\xfe")]
        for text in texts:
            assert await refused(it, text)
        for value in (
            b"Bearer \xe4\xf6",
            b"Bearer a b",
            b"Bearer a,b",
            b"Bearer {}",
            b"DPoP abc",
            b"Bearer",
        ):
            answer = await it.get("/calls", headers={"authorization": value})
            assert answer.status_code == 401, value
        assert issuer.asked.count("/jwks") <= 2


async def test_an_oversize_token_costs_nothing(issuer: Issuer) -> None:
    async with api(issuer, issuer.introspected()) as it:
        assert "longer" in await refused(it, "x" * 17_000)
        assert issuer.asked == []


@pytest.mark.parametrize("path", ["/calls", "/mcp", "/whoami"])
async def test_a_token_in_the_address_is_refused(issuer: Issuer, path: str) -> None:
    async with api(issuer) as it:
        token = issuer.sign("read", "call")
        for headers in ({}, bearer(token)):
            answer = await it.get(f"{path}?access_token={token}", headers=headers)
            assert answer.status_code == 400
            assert 'error="invalid_request"' in answer.headers["www-authenticate"]
            assert token not in answer.text
        assert (await it.post("/calls", data={"access_token": token})).status_code == 401


async def test_scopes_that_are_not_mapped_allow_nothing(issuer: Issuer) -> None:
    async with api(issuer) as it:
        for scope in (None, "", "read", "admin", "t.unknown", "t.read2", "T.READ", "t.read,t.call", ["x"]):
            answer = await it.get("/whoami", headers=bearer(issuer.sign(scope=scope)))
            assert (answer.status_code, answer.json()["code"]) == (403, "missing_scope"), scope
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
        for more in (
            {"scope": "openid t.read"},
            {"scope": ["t.read"]},
            {"scope": None, "scp": "t.read"},
            {"scp": ["t.read"]},
        ):
            who = await it.get("/whoami", headers=bearer(issuer.sign(**more)))
            assert who.json()["scopes"] == ["read"], more


async def test_what_a_token_lacks_is_named_in_its_own_scopes(issuer: Issuer) -> None:
    async with api(issuer) as it:
        lacking = await it.call("add", {"a": 1, "b": 1}, headers=bearer(issuer.sign("read")))
        assert lacking.status_code == 403
        said = lacking.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in said
        assert 'scope="t.call"' in said
        bulk = {"action": "approve", "ids": ["x"]}
        assert (
            'scope="t.approve"'
            in (await it.post("/bulk", json=bulk, headers=bearer(issuer.sign("call")))).headers["www-authenticate"]
        )
        key = await key_for(it, "k", "read")
        assert "www-authenticate" not in (await it.call("add", {}, headers=key)).headers


WAYS = ("down", "huge", "endless", "slow", "text", "deep", "packed", "elsewhere")


@pytest.mark.parametrize(
    ("kind", "how"),
    [*(("keys", how) for how in WAYS), *((kind, how) for kind in ("introspection", "metadata") for how in WAYS[:4])],
)
async def test_an_issuer_that_misbehaves(issuer: Issuer, kind: str, how: str) -> None:
    given = {
        "keys": issuer.settings(jwks_uri=f"{issuer.url}/jwks", timeout=0.3),
        "introspection": issuer.introspected(timeout=0.3),
        "metadata": issuer.settings(timeout=0.3),
    }[kind]
    async with api(issuer, given) as it:
        token = issuer.opaque("t", "read") if kind == "introspection" else issuer.sign("read")
        issuer.behave = getattr(issuer, how)
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(*(it.get("/calls", headers=bearer(token)) for _ in range(5)))
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (503, "issuer_unavailable")
            assert answer.headers["retry-after"]
            assert issuer.url not in answer.text
        assert len(issuer.asked) <= 2, "requests share a question"
        key = await key_for(it, "k", "read")
        assert (await it.get("/calls", headers=key)).status_code == 200, "keys do not depend on the issuer"


async def test_an_issuer_that_is_gone(issuer: Issuer) -> None:
    async with issuing() as other:
        gone = other.settings()
    async with api(issuer, gone) as it:
        answer = await it.get("/calls", headers=bearer(other.sign("read")))
        assert (answer.status_code, answer.json()["code"]) == (503, "issuer_unavailable")


@pytest.mark.parametrize("other", ["https://evil.example", None, 5])
async def test_metadata_of_another_issuer_is_not_used(issuer: Issuer, other: Any) -> None:
    issuer.metadata = {"issuer": other}
    async with api(issuer) as it:
        answer = await it.get("/calls", headers=bearer(issuer.sign("read")))
        assert answer.status_code == 503
        assert "/jwks" not in issuer.asked


@pytest.mark.parametrize(
    "address",
    ["http://169.254.169.254/keys", "https://169.254.169.254/keys", "https://10.0.0.1/keys", "file:///etc/passwd"],
)
async def test_metadata_cannot_send_requests_elsewhere(issuer: Issuer, address: str) -> None:
    issuer.metadata = {"jwks_uri": address}
    async with api(issuer, issuer.settings(timeout=0.5)) as it:
        answer = await it.get("/calls", headers=bearer(issuer.sign("read")))
        assert (answer.status_code, answer.json()["code"]) == (503, "issuer_unavailable")


LIES: dict[str, dict[str, Any]] = {
    "the text true": {"active": "true"},
    "another issuer": {"iss": "https://evil.example"},
    "another audience": {"aud": "https://other.example"},
    "no audience": {"aud": None},
    "expired": {"exp": 5},
    "no subject": {"sub": None},
    "a refresh token": {"token_type": "refresh_token"},
}


async def test_introspection_that_lies(issuer: Issuer) -> None:
    async with api(issuer, issuer.introspected()) as it:
        for name, lie in LIES.items():
            assert await refused(it, issuer.opaque(f"t-{name.replace(' ', '-')}", "admin", **lie))
        assert await refused(it, "unknown")
        assert (await it.get("/calls", headers=bearer(issuer.opaque("good", "read")))).status_code == 200
        assert issuer.bodies[-1] == {"token": "good", "token_type_hint": "access_token"}


async def test_introspection_with_wrong_credentials(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    async with api(issuer, {**issuer.introspected(), "client_secret": "another-secret-text"}) as it:
        answer = await it.get("/calls", headers=bearer(issuer.opaque("t", "read")))
        assert answer.status_code == 503
        assert "refused this server's own credentials" in caplog.text
        assert "another-secret-text" not in caplog.text


async def test_a_signed_token_may_be_introspected_and_both_kinds_live_together(issuer: Issuer) -> None:
    async with api(issuer, issuer.introspected()) as it:
        token = issuer.sign("read")
        assert await refused(it, token), "the authorization server does not know it"
        issuer.opaque(token, "read")
    async with api(issuer, issuer.introspected(jwks_uri=f"{issuer.url}/jwks")) as it:
        assert (await it.get("/calls", headers=bearer(issuer.sign("read")))).status_code == 200
        assert (await it.get("/calls", headers=bearer(issuer.opaque("t", "read")))).status_code == 200
        assert issuer.bodies[-1]["token"] == "t"


async def test_a_token_for_mcp_works_there_alone(issuer: Issuer) -> None:
    async with api(issuer) as it:
        token = issuer.sign("read", "call", aud=AUDIENCE + "/mcp")
        assert await refused(it, token)
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        kinds = {"accept": "application/json, text/event-stream"}
        for audience in (AUDIENCE + "/mcp", AUDIENCE, [AUDIENCE + "/mcp/", "x"]):
            headers = {**kinds, **bearer(issuer.sign("call", aud=audience))}
            assert (await it.post("/mcp", json=body, headers=headers)).status_code in (200, 400)
        lacking = await it.post("/mcp", json=body, headers={**kinds, **bearer(issuer.sign("read"))})
        assert lacking.status_code == 403
        assert 'scope="t.call"' in lacking.headers["www-authenticate"]


async def test_a_stream_ends_with_its_token(issuer: Issuer) -> None:
    async with api(issuer, issuer.introspected(introspection_cache=0)) as it:
        issuer.opaque("t", "read")
        async with it.stream("GET", "/events", headers=bearer("t")) as response:
            assert response.status_code == 200
            issuer.behave = issuer.down
            count = len(issuer.asked)
            await eventually(lambda: len(issuer.asked) > count)
            issuer.behave = None
            issuer.tokens["t"] = {"active": False}
            async with asyncio.timeout(PATIENCE):
                async for _ in read_sse(response):  # it ends
                    pass
        await eventually(lambda: not it.parts.revocation.streams)


@pytest.mark.parametrize("kind", ["signed", "opaque"])
async def test_a_token_is_nowhere_but_with_its_owner(
    issuer: Issuer, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    given = issuer.settings() if kind == "signed" else issuer.introspected()
    opaque = "fk3Jd9-opaque-token-of-ann-83hf"
    async with api(issuer, given, store=sqlite_url(tmp_path)) as it:
        token = issuer.sign("read", "call") if kind == "signed" else issuer.opaque(opaque, "read", "call")
        bad = issuer.sign("read", exp=5) if kind == "signed" else "another-opaque-token-7dh2k"
        made = (await it.call("add", {"a": 1, "b": 1}, headers=bearer(token))).json()
        await it.get(f"/calls/{made['call_id']}?access_token={token}", headers=bearer(token))
        await refused(it, bad)
        issuer.behave = issuer.down
        await it.get("/calls", headers=bearer(token + "x"))
        logged = caplog.text
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (token.rpartition(".")[2], bad.rpartition(".")[2], "the-secret-of-clicket"):
        assert secret not in logged
        assert secret.encode() not in kept
    assert f"key={caller_of(issuer.url, 'ann')}" in logged


async def test_nobody_approves_their_own_calls_by_another_token_or_a_key(issuer: Issuer) -> None:
    async with api(issuer, policy=Policy(ask=["add"])) as it:
        everything = ("read", "call", "approve")
        ann, ann_elsewhere = (
            issuer.sign(*everything),
            issuer.sign(*everything, client_id="other", exp=int(time.time()) + 200),
        )
        bob = bearer(issuer.sign(*everything, sub="bob"))
        _, text = await keys.create(it.runtime.store, name="ci", scopes=everything, now=1.0, holder="ann")
        _, caller = await keys.create(
            it.runtime.store, name="x", scopes=everything, now=1.0, holder=caller_of(issuer.url, "ann")
        )
        hers = [bearer(ann), bearer(ann_elsewhere), bearer(text), bearer(caller)]
        for number, maker in enumerate(hers):
            body = {"tool": "add", "arguments": {"a": number, "b": 1}, "id": f"c{number}"}
            assert (await it.post("/calls", json=body, headers=maker)).status_code == 202
            for decider in hers:
                answer = await it.post(f"/calls/c{number}/approve", headers=decider)
                assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied"), (
                    number,
                    hers.index(decider),
                )
            decided = await it.post(f"/calls/c{number}/approve", headers=bob)
            assert (decided.status_code, decided.json()["by"]) == (200, caller_of(issuer.url, "bob"))


async def test_a_subject_named_like_a_key_is_not_that_key(issuer: Issuer) -> None:
    async with api(issuer, options={"api_keys": ("tester:read+call:0123456789abcdef0123",)}) as it:
        key = await key_for(it, "boss", "read", "call")
        id = key["authorization"].split("_")[1]
        static = {"x-api-key": "0123456789abcdef0123"}
        for headers in (key, static):
            await it.call("add", {"a": 1, "b": 1}, id="mine", headers=headers)
        for subject in (id, "tester", "boss", "static-x", caller_of(issuer.url, "x")):
            token = bearer(issuer.sign("read", "call", sub=subject))
            assert (await it.get("/calls/mine", headers=token)).status_code == 404, subject
            assert (await it.get("/calls", headers=token)).json()["items"] == []


async def test_authentication_is_on_without_any_key(issuer: Issuer) -> None:
    async with api(issuer) as it:
        assert (await it.get("/calls")).status_code == 401
        assert it.served.issuer == issuer.url
        assert not it.served.locked
    async with api(issuer, host="0.0.0.0") as it:
        headers = {**bearer(issuer.sign("read")), "host": f"127.0.0.1:{it.served.port}"}
        assert (await it.get(f"http://127.0.0.1:{it.served.port}/calls", headers=headers)).status_code == 200


def test_the_map_of_these_tests_has_every_scope() -> None:
    assert set(MAP.values()) == set(keys.SCOPES)
