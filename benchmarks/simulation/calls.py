"""The calls of a simulation. Each step goes through the kernel's table, so an order of steps that clicket forbids fails here, too."""

from __future__ import annotations

from array import array

from clicket.kernel import CALL, State

__all__ = ["Calls"]

_STATES = tuple(State)
_NUMBERS = {state: number for number, state in enumerate(_STATES)}
_EDGES = {(_NUMBERS[a], _NUMBERS[b]) for a, b in CALL.pairs()}
_ENDED = frozenset(_NUMBERS[state] for state in CALL.terminal)
_PENDING = _NUMBERS[State.PENDING]
_NO_OWNER = -1


class Calls:
    """One row for each call, in arrays: millions of them fit into memory."""

    def __init__(self) -> None:
        self.caller: list[str] = []
        self.made_at = array("d")
        self.started_at = array("d")
        self.ended_at = array("d")
        self._state = array("b")
        self.owner = array("i")
        self.fence = array("i")
        self.bodies = array("b")
        """How often the body started."""
        self.idempotent = array("b")
        self.open = 0
        """Calls that have not ended."""
        self.repeated = 0
        """Bodies that ran again although the tool does not allow it."""
        self.unknown = 0
        self.refused = 0
        """Writes of workers that had lost the call."""

    def __len__(self) -> int:
        return len(self._state)

    def add(self, caller: str, at: float, *, idempotent: bool) -> int:
        self.open += 1
        self.caller.append(caller)
        self.made_at.append(at)
        self.started_at.append(-1.0)
        self.ended_at.append(-1.0)
        self._state.append(_PENDING)
        self.owner.append(_NO_OWNER)
        self.fence.append(1)
        self.bodies.append(0)
        self.idempotent.append(idempotent)
        return len(self._state) - 1

    def state(self, call: int) -> State:
        return _STATES[self._state[call]]

    def is_ended(self, call: int) -> bool:
        return self._state[call] in _ENDED

    def _advance(self, call: int, to: State) -> None:
        step = (self._state[call], _NUMBERS[to])
        if step not in _EDGES:
            raise CALL.refusal(_STATES[step[0]], to)
        self._state[call] = step[1]

    def claim(self, call: int, worker: int) -> int:
        """The worker owns the call; returns its fence."""
        assert self.owner[call] == _NO_OWNER, "a call with an owner was claimed"
        self.owner[call] = worker
        self.fence[call] += 1
        return self.fence[call]

    def start(self, call: int, at: float) -> None:
        """The body starts, after its start was written."""
        if self._state[call] == _PENDING:
            self._advance(call, State.INITIALIZING)
            self.started_at[call] = at
        self._advance(call, State.RUNNING)
        self.bodies[call] += 1
        if self.bodies[call] > 1 and not self.idempotent[call]:
            self.repeated += 1

    def end(self, call: int, fence: int, at: float) -> bool:
        """The worker writes the outcome. False: the store refused it, because the worker had lost the call."""
        if fence != self.fence[call]:
            self.refused += 1
            return False
        self._finish(call, State.COMPLETED, at)
        return True

    def recover(self, call: int, at: float) -> bool:
        """The owner is dead. True: the call may run again, and waits. False: it has ended with an unknown outcome."""
        self.owner[call] = _NO_OWNER
        self.fence[call] += 1
        if self.bodies[call] == 0:
            return True
        if not self.idempotent[call]:
            self._finish(call, State.FAILED, at)
            self.unknown += 1
            return False
        self._advance(call, State.RETRYING)
        return True

    def _finish(self, call: int, state: State, at: float) -> None:
        self._advance(call, state)  # the table has no edge out of an end: a second outcome fails here
        self.open -= 1
        self.owner[call] = _NO_OWNER
        self.ended_at[call] = at
