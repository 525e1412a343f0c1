"""Signatures, read by the reference library of Standard Webhooks if it is installed, and by a few lines that follow its text."""

from __future__ import annotations

import hashlib
import hmac
import time
from base64 import b64decode, b64encode

import pytest

from clicket.errors import UsageError
from clicket.telemetry.webhooks.signature import key_of, signed_headers

OLD = "whsec_" + b64encode(b"an old secret of thirty-two byte").decode()
NEW = "whsec_" + b64encode(b"a new secret of thirty-two bytes").decode()
BODY = '{"type":"call.ended","data":{"名":"值"}}'


def verified(secret: str, headers: dict[str, str], body: str) -> bool:
    """As the specification says: any signature of version 1 that fits."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}".encode()
    mac = hmac.new(b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    return f"v1,{b64encode(mac).decode()}" in headers["webhook-signature"].split(" ")


def test_the_example_of_the_specification() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    headers = signed_headers([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330.9, body)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_while_a_secret_is_replaced_both_fit() -> None:
    headers = signed_headers([NEW, OLD], "msg_1", time.time(), BODY.encode())
    assert verified(OLD, headers, BODY)
    assert verified(NEW, headers, BODY)
    assert not verified(OLD, headers, BODY + " ")
    assert not verified(OLD, {**headers, "webhook-id": "msg_2"}, BODY)


def test_the_reference_library_reads_them() -> None:
    reference = pytest.importorskip("standardwebhooks")
    headers = signed_headers([NEW, OLD], "msg_1", time.time(), BODY.encode())
    for secret in (OLD, NEW):
        assert reference.Webhook(secret).verify(BODY, headers)["type"] == "call.ended"
        with pytest.raises(reference.WebhookVerificationError):
            reference.Webhook(secret).verify(BODY + " ", headers)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ="])
def test_a_secret_that_is_none_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(UsageError) as refused:
        key_of(secret)
    assert len(secret) < 8 or secret not in refused.value.message
