"""How often each chore of the engine runs.

Read signals every 0.25 s, renew the lease (`Store.renew`) and the entry among the workers every third of it, recover calls of dead owners
once in a lease, sweep old calls, cached results and lost workers every 300 s. While the runtime closes, only the first three go on.
"""

from __future__ import annotations

from functools import partial

from clicket.engine.core import Core
from clicket.engine.fleet.offers import Offers
from clicket.engine.fleet.placement import ROOM_EVERY
from clicket.engine.fleet.sessions import SessionPlaces
from clicket.engine.fleet.worker_entry import WorkerEntry
from clicket.engine.fleet.worker_list import sweep_lost_workers
from clicket.engine.lifecycle.credential_waits import LOOK_EVERY as CREDENTIALS_EVERY
from clicket.engine.lifecycle.credential_waits import CredentialWaits
from clicket.engine.lifecycle.due_calls import FIRST_LOOK, LOOK_EVERY, DueCalls
from clicket.engine.local.background import Background
from clicket.engine.recovery.chores import LISTEN_EVERY, SWEEP_EVERY, Chores, Sweeps
from clicket.safety.credentials import Connecting

__all__ = ["schedule_chores"]


def schedule_chores(
    background: Background,
    core: Core,
    chores: Chores,
    sweeps: Sweeps,
    entry: WorkerEntry,
    offers: Offers,
    sessions: SessionPlaces,
    due_calls: DueCalls,
    credentials: CredentialWaits,
    connecting: Connecting,
) -> None:
    """Each chore with its time."""
    background.every(LISTEN_EVERY, "listen", chores.read_signals, while_closing=True)
    background.every(core.limits.lease / 3, "renew", core.store.renew, while_closing=True)
    background.every(core.limits.lease / 3, "worker", entry.renew, while_closing=True)
    background.every(core.limits.lease, "recover", chores.recover)
    background.every(LOOK_EVERY, "due calls", due_calls.look, first=FIRST_LOOK)
    background.every(SWEEP_EVERY, "sweep", sweeps.sweep_all)
    background.every(SWEEP_EVERY, "cache", core.caching.sweep)
    background.every(ROOM_EVERY, "room", offers.tell_room)
    background.every(SWEEP_EVERY, "sessions", sessions.sweep)
    background.every(SWEEP_EVERY, "grants", core.grants.sweep)
    background.every(SWEEP_EVERY, "lost workers", partial(sweep_lost_workers, core.store, core.clock))
    background.every(CREDENTIALS_EVERY, "credentials", credentials.look)
    background.every(SWEEP_EVERY, "old credentials", connecting.sweep)
