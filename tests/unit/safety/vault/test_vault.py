"""Sealing, opening, and comparing."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket import Settings
from clicket.errors import UsageError
from clicket.safety.vault import MASK, Vault, hide, look, resembles, restored, still_masked

KEY, OTHER = "a key for the tests", "another key for them"
ME = ("caller", "thread", "id")
GIVEN = {"password": "hunter2", "n": 1.0}


def test_what_was_sealed_opens_for_its_call_alone() -> None:
    vault = Vault.of(KEY)
    kept = vault.keep(ME, "created", GIVEN, {"m": 1})
    assert vault.unseal(ME, "created", kept) == {"arguments": GIVEN, "metadata": {"m": 1}}
    for others in (("", "thread", "id"), ("caller", "x", "id"), ("caller", "thread", "i")):
        assert vault.unseal(others, "created", kept) is None
    assert vault.unseal(ME, "approval_given", kept) is None
    assert "hunter2" not in str(kept)


def test_keys_are_rotated() -> None:
    old = Vault.of(KEY).keep(ME, "created", GIVEN, None)
    rotated = Vault.of(f"{OTHER}, {KEY}")
    assert rotated.unseal(ME, "created", old) == {"arguments": GIVEN}
    assert rotated.equal(ME, old["arguments_hash"], {}, GIVEN)
    new = rotated.keep(ME, "created", GIVEN, None)
    assert Vault.of(OTHER).unseal(ME, "created", new) == {"arguments": GIVEN}
    assert Vault.of(KEY).unseal(ME, "created", new) is None


def test_two_seals_of_one_thing_are_not_alike() -> None:
    vault = Vault.of(KEY)
    assert vault.keep(ME, "created", GIVEN, None)["sealed"] != vault.keep(ME, "created", GIVEN, None)["sealed"]


@given(st.text(max_size=60))
def test_a_seal_that_somebody_else_wrote_does_not_open(text: str) -> None:
    vault = Vault.of(KEY)
    name = vault.keep(ME, "created", GIVEN, None)["sealed"].split(".")[1]
    for forged in (text, f"1.{name}.{text}", 5, None):
        assert vault.unseal(ME, "created", {"sealed": forged}) is None


def test_a_seal_that_was_changed_does_not_open() -> None:
    vault = Vault.of(KEY)
    sealed = vault.keep(ME, "created", GIVEN, None)["sealed"]
    for at in range(12, len(sealed) - 4, 7):
        other = "A" if sealed[at] != "A" else "B"
        assert vault.unseal(ME, "created", {"sealed": sealed[:at] + other + sealed[at + 1 :]}) is None


def test_equal_keys_mean_equal_json() -> None:
    vault = Vault.of(KEY)
    kept = vault.keep(ME, "created", GIVEN, None)["arguments_hash"]
    shown = {"password": MASK, "n": 1}
    assert Vault.of(KEY).equal(ME, kept, shown, {"n": 1, "password": "hunter2"})
    assert not vault.equal(ME, kept, shown, {"n": 1, "password": "hunter3"})
    assert kept != vault.keep(("", "thread", "id"), "created", GIVEN, None)["arguments_hash"]


def test_without_a_key_only_what_is_shown_can_be_compared() -> None:
    kept = Vault().keep(ME, "created", GIVEN, None)
    assert set(kept) == {"arguments_hash"}
    stranger = Vault()
    assert stranger.equal(ME, kept["arguments_hash"], {"password": MASK, "n": 1}, {"password": "any", "n": 1})
    assert not stranger.equal(ME, kept["arguments_hash"], {"password": MASK, "n": 1}, {"password": "any", "n": 2})


def test_refused_arguments_with_secrets_get_a_keyed_hash() -> None:
    vault = Vault.of(KEY)
    ordinary = vault.fingerprint({"a": 1}, frozenset())
    assert ordinary["sha256"] is not None
    for refused, sensitive in (({"a": "x"}, frozenset({"b"})), ('{"a": "ghp_' + "a1" * 20, frozenset[str]())):
        kept = vault.fingerprint(refused, sensitive)
        assert kept["sha256"] is None
        assert vault.same_refused(refused, kept)
        assert not vault.same_refused({"other": 1}, kept)
        assert Vault().same_refused(refused, kept)  # by its size


@pytest.mark.parametrize("key", ["short", f"{KEY},short"])
def test_a_weak_key_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(UsageError, match="16 characters") as caught:
        Vault.of(key)
    assert KEY not in str(caught.value)


def test_without_the_library_a_key_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from clicket.safety.vault import Vault\n"
        "from clicket.errors import UsageError\n"
        "Vault().keep(('', '', ''), 'created', {}, None)\n"
        "try: Vault.of('k' * 20)\n"
        "except UsageError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'clicket[secrets]'" in done.stdout


def test_settings_do_not_tell_the_key() -> None:
    settings = Settings(secret_key=KEY, store="redis://:hunter2@localhost:6379/0")
    assert KEY not in repr(settings)
    assert KEY not in str(settings)
    assert "hunter2" not in repr(settings)
    rebuild, parts = settings.__reduce__()  # the contents of a serialized copy
    assert KEY not in repr(parts)
    assert rebuild(*parts) == Settings(store=settings.store)
    assert KEY not in repr(Vault.of(KEY))


values: Any = st.dictionaries(
    st.sampled_from("abcd"), st.sampled_from([1, "x", "secret value", ["y", {"a": 2}]]), max_size=4
)


@given(values)
def test_what_is_shown_resembles_what_was_given(arguments: dict[str, Any]) -> None:
    secrets = look(arguments, None, frozenset({"a"}))
    assert secrets is not None
    assert resembles(secrets.arguments, arguments)
    assert restored(secrets.arguments, secrets.arguments, arguments) == arguments
    assert hide(arguments, secrets) == secrets.arguments


def test_edits_keep_what_masks_stand_for() -> None:
    real = {"password": "hunter2", "to": "bob", "notes": ["Bearer abc", "x"]}
    shown = {"password": MASK, "to": "bob", "notes": [f"Bearer {MASK}", "x"]}
    edited = {**shown, "to": "eve", "notes": [f"Bearer {MASK}", "y"]}
    meant = restored(edited, shown, real)
    assert meant == {"password": "hunter2", "to": "eve", "notes": ["Bearer abc", "y"]}
    assert not still_masked(meant, real)
    moved = restored({**shown, "to": MASK}, shown, real)
    assert moved["to"] == MASK
    assert still_masked(moved, real)
