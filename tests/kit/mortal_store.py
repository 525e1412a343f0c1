"""A SQLite store that can simulate the death of its process while the test lives on."""

from __future__ import annotations

from clicket.stores.sqlite import SqliteStore

__all__ = ["MortalStore"]


class MortalStore(SqliteStore):
    """A subclass, because it does from inside what the end of a process does from outside."""

    @property
    def owner(self) -> int:
        assert self._writer is not None
        return self._writer.owner

    def look_by_hand(self) -> None:
        """Stops looking for writes of other processes by itself; the test calls `look`."""
        if self._looking is not None:
            self._looking.cancel()

    def look(self) -> None:
        if self._writer is not None and self._writer.others_wrote():
            self.on_hint("any", 0)

    async def expire(self, observer: MortalStore, renewed: float) -> None:
        """Sets the last renewal of the lease to `renewed`; `observer` reads it from the file."""
        if self._writer is not None:
            owner = self.owner
            self._writer.renew_by = renewed
            await observer._write(
                lambda c: c.execute("UPDATE owners SET renewed = ? WHERE id = ?", (renewed, owner)).get
            )

    def slots(self) -> list[tuple[str, int]]:
        """Names of slots, and their owners."""
        assert self._reader is not None
        return list(self._reader.execute("SELECT name, owner FROM slots"))

    async def die(self) -> None:
        """Close the connections and leave the owner registered, as the end of a process does."""
        writer, self._writer = self._writer, None
        assert writer is not None
        await writer.drain()
        await self._checkpointer.close()
        for connection in (self._reader, self._peek, writer.connection):
            if connection is not None:
                connection.close()
        self._close_threads()
