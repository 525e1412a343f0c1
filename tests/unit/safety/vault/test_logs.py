"""Our loggers write no secret, not even in a traceback."""

from __future__ import annotations

import gc
import io
import logging

import pytest

from clicket.safety.vault import MASK, guard_logs, look, watch_for

TOKEN = "ghp_" + "aB3" * 12


def logger_and_output(name: str = "clicket.tests.logs") -> tuple[logging.Logger, io.StringIO]:
    logger, out = logging.getLogger(name), io.StringIO()
    logger.handlers = [logging.StreamHandler(out)]
    logger.propagate = False
    guard_logs()
    guard_logs()
    return logger, out


def test_tokens_are_hidden_in_lines_and_tracebacks() -> None:
    logger, out = logger_and_output()
    try:
        raise ValueError(f"no good: {TOKEN}")
    except ValueError:
        logger.exception("it was %s, %d", TOKEN, 5)
    assert TOKEN not in out.getvalue()
    assert f"it was {MASK}, 5" in out.getvalue()
    assert f"ValueError: no good: {MASK}" in out.getvalue()
    assert len(logger.filters) == 1


def test_declared_values_are_hidden_while_somebody_holds_the_call() -> None:
    logger, out = logger_and_output()
    secrets = look({"password": "hunter2"}, None, frozenset({"password"}))
    assert secrets is not None
    watch_for(secrets)
    logger.warning("it was hunter2")
    assert out.getvalue() == f"it was {MASK}\n"
    del secrets
    gc.collect()
    logger.warning("it was hunter2")
    assert out.getvalue().endswith("it was hunter2\n")


def test_an_ordinary_line_and_a_wrong_one_are_left_alone() -> None:
    logger, out = logger_and_output()
    logger.warning("%s of %s", "a", "b")
    assert out.getvalue() == "a of b\n"
    record = logger.makeRecord(logger.name, logging.WARNING, "f", 1, "%d", ("x",), None)
    assert logger.filter(record)
    assert record.args == ("x",)


@pytest.mark.parametrize("name", ["httpx", "httpx2", "httpcore2.http11", "openai._base_client"])
def test_http_clients_say_no_query(name: str) -> None:
    """They log whole URLs at INFO, and many services take their key in the query."""
    logger, out = logger_and_output(name)
    logger.setLevel(logging.DEBUG)
    try:
        logger.info('HTTP Request: %s %s "%s"', "GET", "https://api.test/v1/x?key=hunter2&q=a#b", "HTTP/1.1 200 OK")
        logger.debug("got [(b'location', b'https://api.test/x?token=hunter2')]")
        logger.info('HTTP Request: GET https://ann:hunter22@api.test/plain "HTTP/1.1 200 OK"')
        try:
            raise ValueError("no answer of https://api.test/?key=hunter2")
        except ValueError:
            logger.exception("failed")
    finally:
        logger.handlers, logger.propagate = [], True
        logger.setLevel(logging.NOTSET)
    assert "hunter2" not in out.getvalue()
    assert 'GET https://api.test/v1/x?… "HTTP/1.1 200 OK"' in out.getvalue()
    assert "/plain" in out.getvalue()
