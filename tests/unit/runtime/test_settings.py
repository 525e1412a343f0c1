"""Settings: arguments over environment over file over defaults, each value with its origin, every mistake named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clicket import Runtime, Settings
from clicket.errors import UsageError


def write(folder: Path, text: str) -> Path:
    path = folder / "clicket.toml"
    path.write_text(text)
    return path


def test_the_defaults_are_the_documented_ones() -> None:
    settings = Settings.load(environ={}, file=None)
    assert settings.store == "sqlite:///.clicket/clicket.db"
    assert settings.durability == "process"
    assert (settings.limits.max_concurrency, settings.limits.worker_threads) == (10, 4)
    assert settings.limits.lease == 10
    assert settings.shown()["retention"] is None
    assert settings.origins == {}


@pytest.mark.parametrize(
    ("store", "seconds", "most"),
    [
        ("sqlite:///x.db", 30 * 86_400, 2 << 30),
        ("postgresql://host/db", 30 * 86_400, 2 << 30),
        ("redis://host", 86_400, None),
        ("rediss://host", 86_400, None),
        ("memory://", 86_400, None),
    ],
)
def test_calls_are_kept_longer_where_accounts_are_kept(store: str, seconds: float, most: int | None) -> None:
    kept = Settings(store=store).retention
    assert (kept.age, kept.most_bytes) == (seconds, most)
    assert Settings(store="memory://").replace(store=store).retention == kept, "of the store that is used in the end"
    own = Settings(store=store, retention=5.0, retention_bytes=7).retention
    assert (own.age, own.most_bytes) == (5.0, 7)
    assert Settings(store=store, retention_bytes=0).retention.most_bytes is None, "0: no bound"


def test_each_source_wins_over_the_one_before(tmp_path: Path) -> None:
    path = write(tmp_path, 'store = "memory://"\nmax_concurrency = 3\nlease = 4\n')
    environ = {"CLICKET_MAX_CONCURRENCY": "5", "CLICKET_LEASE": "6.5", "OTHER": "x"}
    settings = Settings.load(file=path, environ=environ, lease=7, durability=None)
    assert (settings.store, settings.limits.max_concurrency, settings.limits.lease) == ("memory://", 5, 7)
    assert settings.origins == {
        "store": str(path),
        "max_concurrency": "CLICKET_MAX_CONCURRENCY",
        "lease": "argument",
    }


def test_the_file_is_found_here_or_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "max_concurrency = 3\n")
    assert Settings.load(environ={"CLICKET_CONFIG": str(tmp_path / "clicket.toml")}).limits.max_concurrency == 3
    monkeypatch.chdir(tmp_path)
    assert Settings.load(environ={}).limits.max_concurrency == 3


def test_text_of_the_environment_is_converted() -> None:
    settings = Settings.load(
        environ={
            "CLICKET_TOOLS": "a:b, c:d,",
            "CLICKET_QUEUE_TIMEOUT": "",
            "CLICKET_CANCEL_GRACE": "0.5",
            "CLICKET_MAX_THREAD_CONCURRENCY": "2",
            "CLICKET_DURABILITY": "power",
        }
    )
    assert settings.tools == ("a:b", "c:d")
    assert settings.limits.queue_timeout is None
    limits = settings.limits
    assert (limits.cancel_grace, limits.max_thread_concurrency, settings.durability) == (0.5, 2, "power")


@pytest.mark.parametrize(
    ("environ", "given", "word"),
    [
        ({"CLICKET_MAX_CONCURRENCY": "many"}, {}, "CLICKET_MAX_CONCURRENCY"),
        ({"CLICKET_MAX_CONCURRENCY": "0"}, {}, "max_concurrency"),
        ({"CLICKET_MAX_CONCURRENCY": "-3"}, {}, "max_concurrency"),
        ({"CLICKET_LEASE": "nan"}, {}, "lease"),
        ({"CLICKET_LEASE": "inf"}, {}, "lease"),
        ({"CLICKET_DURABILITY": "maybe"}, {}, "durability"),
        ({}, {"max_concurrency": 2.5}, "max_concurrency"),
        ({}, {"max_concurency": 2}, "Did you mean 'max_concurrency'"),
        ({}, {"store": 5}, "store"),
        ({}, {"cancel_grace": -1}, "cancel_grace"),
    ],
)
def test_values_that_do_not_fit_are_refused_with_their_origin(
    environ: dict[str, str], given: dict[str, Any], word: str
) -> None:
    with pytest.raises(UsageError, match=word):
        Settings.load(environ=environ, **given)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("max_concurency = 3", "Did you mean 'max_concurrency'"),
        ("max_concurrency = ", "TOML"),
        ("[table]\nx = 1", "table"),
        ('max_concurrency = "x"', "max_concurrency"),
        ('durability = "maybe"', "durability"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(tmp_path: Path, text: str, word: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError, match=word) as refused:
        Settings.load(file=path, environ={})
    assert "clicket.toml" in refused.value.message or "durability" in refused.value.message


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        Settings.load(file=tmp_path / "missing.toml", environ={})
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="TOML"):
        Settings.load(file=tmp_path / "bad.toml", environ={})


@pytest.mark.parametrize(
    "wrong", [{"max_concurrency": 0}, {"lease": -1.0}, {"durability": "x"}, {"worker_threads": -1}]
)
def test_settings_made_by_hand_are_checked_too(wrong: Any) -> None:
    with pytest.raises(UsageError):
        Settings(**wrong)


def test_settings_are_frozen_and_arguments_of_the_runtime_win() -> None:
    settings = Settings(store="memory://", max_concurrency=2)
    with pytest.raises(AttributeError):
        settings.store = "x"  # type: ignore[misc]  # the point
    rt = Runtime(store="sqlite:///x.db", settings=settings)
    assert (rt.settings.store, rt.settings.limits.max_concurrency) == ("sqlite:///x.db", 2)


def test_limits_carry_every_bound_over() -> None:
    limits = Settings(max_concurrency=2, max_queue=3, tool_process_memory=5, cancel_grace=0.1).limits
    assert (limits.max_concurrency, limits.max_queue, limits.tool_process_memory) == (2, 3, 5)
    assert limits.cancel_grace == 0.1
    memory = Settings().limits.tool_process_memory
    assert memory is None or memory > 0


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("memry://", "Did you mean 'memory'"),
        ("mysql://x", "mysql"),
        ("sqlite:calls.db", "names no file"),
        ("sqlite://calls.db", "names no file"),
        ("memory", "Write memory://"),
        ("postgres", "Write postgresql://"),
        ("sqlite://", "sqlite:///"),
        ("sqlite:///", "sqlite:///"),
        ("sqlite://host/path", "sqlite:///"),
        ("", "store"),
        ("C:\\calls.db", r"is a path of Windows.*Write sqlite:///relative"),
        ("C:/calls.db", "is a path of Windows"),
        ("data\\calls.db", "is a path of Windows"),
        ("\\\\server\\share\\calls.db", "is a path of Windows"),
        ("sqlite:///C:\\data\\calls.db", "is a path of Windows"),
        ("sqlite:///C:/data/calls.db", "is a path of Windows"),
        ("sqlite://C:/calls.db", "is a path of Windows"),
        ("sqlite:C:\\calls.db", "is a path of Windows"),
        ("file:///tmp/calls.db", "Write sqlite:///path.db"),
        ("http://127.0.0.1:8000", r"clicket.client.Client\('http://127.0.0.1:8000'\)"),
    ],
)
async def test_a_store_that_is_none_is_refused_with_what_there_is(url: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        await Runtime(store=url, settings=Settings()).open()


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="local"):
        Runtime(engine="cluster")


@pytest.mark.parametrize("url", ["example.org/hook", "ftp://example.org", "http://", "http://h:port", "https://[x"])
def test_the_public_url_is_an_address(url: str) -> None:
    with pytest.raises(UsageError, match="public_url must be an address"):
        Settings(public_url=url, secret_key="the key of these settings")


def test_a_policy_that_came_out_empty_does_not_open_what_the_file_closed(tmp_path: Path) -> None:
    file = tmp_path / "clicket.toml"
    file.write_text('[policy]\ndeny = ["pay"]\n')
    for text in ("", "  "):
        with pytest.raises(UsageError, match="it is empty"):
            Settings.load(file=file, environ={"CLICKET_POLICY": text})
    assert Settings.load(file=file, environ={"CLICKET_POLICY": "{}"}).policy.is_open


@pytest.mark.parametrize("name", ["calls.db", "./deep/calls.db", "{tmp}/calls.db", "odd ?#%41.db"])
async def test_a_plain_path_is_a_sqlite_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    given = name.format(tmp=tmp_path)
    for settings in (
        Settings(store=given),
        Settings.load(environ={"CLICKET_STORE": given}),
        Settings().replace(store=given),
    ):
        async with Runtime(settings=settings) as runtime:
            assert runtime.settings.store.startswith("sqlite:///")
        assert (tmp_path / given).is_file()
    async with Runtime(store=given, settings=Settings()):
        pass
    assert len(list(tmp_path.rglob("*.db"))) == 1
