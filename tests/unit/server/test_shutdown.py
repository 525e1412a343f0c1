from __future__ import annotations

from clicket.server.shutdown import Shutdown


def test_it_begins_once_and_calls_what_was_not_taken_back() -> None:
    shutdown, called = Shutdown(), []
    shutdown.on_begin(lambda: called.append("one"))
    remove = shutdown.on_begin(lambda: called.append("two"))
    remove()
    remove()
    assert not shutdown.begun
    shutdown.begin()
    shutdown.begin()
    assert shutdown.begun
    assert called == ["one"]
