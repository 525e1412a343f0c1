"""The hub of one thread: which tools may be called, why the others may not, and setting a status as an operator."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

import msgspec

from clicket.engine.hub.hub import Change, Hub, Watcher
from clicket.engine.hub.judge import Place, ToolState, ToolView, judge, judge_all, offered, status_of
from clicket.engine.hub.prompt import prompt_of, summary_of
from clicket.engine.hub.snapshot import dump, load
from clicket.errors import Conflict, ToolNotFound, UsageError, did_you_mean
from clicket.kernel import TOOL_STATUS, ToolStatus
from clicket.model.codec import clean
from clicket.model.ports import SHARED_PLACE, OutcomeStats, ToolHealth
from clicket.model.ports.health import health_after
from clicket.model.request import check_name
from clicket.safety.vault import hide_known
from clicket.tools import Tool

__all__ = ["ThreadHub"]

logger = logging.getLogger("clicket.hub")

_LOOK_EVERY = 1.0
_TRIES = 20
_MAX_CAUSE = 300

Audit = Callable[..., Awaitable[None]]


def _fit(text: str) -> str:
    """A person's text, cleaned, without known secrets, and at most 1,000 characters."""
    return hide_known(clean(text))[:1_000]


class ThreadHub:
    """`hub = rt.hub("t1")`. Every method reads the store, so all processes see the same state."""

    def __init__(
        self,
        hub: Hub,
        thread: str,
        caller: str,
        audit: Audit | None = None,
        forbids: Callable[[Tool], str | None] | None = None,
        *,
        resets_shared: bool = True,
    ) -> None:
        """`resets_shared`: this caller may reset breakers over all callers."""
        check_name("thread", thread)
        self.thread: str = thread
        self._forbids = forbids
        self._hub = hub
        self._caller = caller
        self._place: Place = (caller, thread)
        self._resets_shared = resets_shared
        self._audit = audit

    # Reading.

    async def tools(self) -> list[ToolView]:
        """Every registered tool: is it available, if not why, and which tools to call first."""
        hub = self._hub
        health = await self._health()
        views = judge_all(hub.registry, health, hub.clock.now(), hub.opened_at, self._place)
        return views if self._forbids is None else [self._permitted(view, self._forbids) for view in views]

    def _permitted(self, view: ToolView, forbids: Callable[[Tool], str | None]) -> ToolView:
        """A tool that the policy denies for all arguments is not available, either."""
        why = forbids(self._find(view.name))
        if why is None:
            return view
        text = f"the policy denies it: {why}"
        return msgspec.structs.replace(view, available=False, reason=text, suggested=[], why=f"{view.name!r}: {text}.")

    async def available(self) -> list[str]:
        """The names of the tools that a model may be offered now."""
        return [tool.name for tool in await self.offered()]

    async def offered(self, *, lately: bool = False) -> Sequence[Tool]:
        """The tools that a model may be offered now. `lately`: a recent read is enough, for a caller that asks at every step; the hub
        checks each call again."""
        found = self.offered_now(lately)
        return await self._offered() if found is None else found

    def offered_now(self, lately: bool = False) -> Sequence[Tool] | None:
        """As `offered`; None: the store must be read."""
        hub = self._hub
        if not hub.offers_all(self.thread, self._caller, lately):
            return None
        found = hub.registry.listed()
        return found if self._forbids is None else self._without_forbidden(found)

    async def _offered(self) -> Sequence[Tool]:
        hub = self._hub
        health = await self._health()
        now = hub.clock.now()
        return self._without_forbidden(
            [tool for tool in hub.registry.listed() if offered(tool, health, now, self.thread)]
        )

    def _without_forbidden(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        forbids = self._forbids
        return tools if forbids is None else [tool for tool in tools if forbids(tool) is None]

    async def status(self, name: str) -> ToolState:
        tool = self._find(name)
        hub = self._hub
        health = await self._health()
        return judge(tool, hub.registry, health, hub.clock.now(), hub.opened_at, self._place).state

    async def states(self) -> dict[str, ToolState]:
        """The status of every registered tool."""
        return {view.name: view.state for view in await self.tools()}

    async def summary(self) -> str:
        """One line for a log: totals, what is available, what failed, what waits for what."""
        return summary_of(await self.tools())

    async def prompt(self) -> str:
        """Text for a model: what it can call now, what it cannot, and why."""
        return prompt_of(await self.tools(), {tool.name: tool.description for tool in self._hub.registry})

    async def watch(self) -> AsyncIterator[Change]:
        """Changes of status from now on, of this process and of others."""
        watcher = Watcher(self._caller, self.thread)
        self._hub.watchers[watcher] = None
        try:
            known = {name: state.status for name, state in (await self.states()).items()}
            while True:
                timer = self._hub.clock.call_later(_LOOK_EVERY, watcher.news.set)
                try:
                    await watcher.news.wait()
                finally:
                    timer.cancel()
                watcher.news.clear()
                states = await self.states()
                changes, watcher.changes = watcher.changes, []
                for change in changes:
                    known[change.tool] = change.after
                    yield change
                for name, state in states.items():
                    before = known.get(name, state.status)
                    known[name] = state.status
                    if before is not state.status:
                        yield Change(
                            thread=self.thread,
                            caller=self._caller,
                            tool=name,
                            before=before,
                            after=state.status,
                            reason=state.reason,
                            at=state.last_updated,
                        )
        finally:
            self._hub.watchers.pop(watcher, None)

    # Changing.

    async def set(self, name: str, status: ToolStatus | str, reason: str = "", *, by: str = "") -> ToolState:
        """Set a tool's status as an operator; `available` does what `reset` does. Raises on a transition that the table lacks."""
        try:
            wanted = ToolStatus(status)
        except ValueError:
            near = did_you_mean(str(status), [str(known) for known in ToolStatus])
            raise UsageError(f"{status!r} is not a status of a tool.{near} Known: {', '.join(ToolStatus)}.") from None
        tool = self._find(name)
        await self._write(self._place, tool.name, wanted, _fit(reason), _fit(by))
        if wanted is ToolStatus.AVAILABLE and self._resets_shared and tool.options.breaker == "shared":
            await self._write(SHARED_PLACE, tool.name, wanted, _fit(reason), _fit(by))
        return await self.status(name)

    async def reset(self, name: str | None = None, *, by: str = "") -> list[str]:
        """Make a tool, or all tools, available again. Returns the names of those that were not available, or had failures.

        The tools need not be registered here: what the thread has on record is enough.
        """
        own = await self._hub.rows(*self._place)
        shared = await self._hub.rows(*SHARED_PLACE) if self._resets_shared else {}
        registered = [tool.name for tool in self._hub.registry]
        if name is not None and name not in own and name not in shared:
            self._find(name, own)
        names = dict.fromkeys([*registered, *own, *shared] if name is None else [name])
        reason, by = "reset by hand", _fit(by)
        reset: list[str] = []
        for each in names:
            done = await self._write(self._place, each, ToolStatus.AVAILABLE, reason, by)
            if each in shared:
                done = await self._write(SHARED_PLACE, each, ToolStatus.AVAILABLE, reason, by) or done
            if done:
                reset.append(each)
        return reset

    async def report(self, name: str, *, ok: bool, error: str = "") -> ToolState:
        """Report how a run of the tool ended that clicket did not make, such as one in a browser or in another program.

        It counts as the outcome of a call: for the tool's health, its breaker, and the tools that depend on it. No call is recorded.
        """
        if type(ok) is not bool:
            raise UsageError(f"ok must be True or False, not {ok!r}.")
        tool = self._find(name)
        hub = self._hub
        places = [self._place, *([SHARED_PLACE] if tool.options.breaker == "shared" else [])]
        for place in places:
            await self._count(place, tool, ok=ok, cause=_fit(error)[:_MAX_CAUSE])
        if not ok:
            hub.degraded.add(self._place)
        await self._health()
        hub.announce(*self._place, tool.name)
        return await self.status(name)

    async def _count(self, place: Place, tool: Tool, *, ok: bool, cause: str) -> None:
        """Count an outcome at a place, as a store counts that of a call."""
        for _ in range(_TRIES):
            old = (await self._hub.rows(*place)).get(tool.name) or ToolHealth(tool=tool.name)
            stats = OutcomeStats(
                tool.name, "completed" if ok else "failed", "", None, 0.0, "completed" if ok else "failed",
                max(self._hub.clock.now(), old.updated_at), "" if ok else cause, "" if ok else tool.options.version,
            )  # fmt: skip
            if await self._hub.store.put_tool_health(*place, health_after(old, stats), old.version):
                return
        raise self._busy(tool.name)

    def _on_record(self, name: str, health: ToolHealth, place: Place) -> tuple[ToolStatus, int]:
        """The status of a row and its failures in a row, as far as they count there."""
        tool = self._hub.registry.get(name)
        if tool is None:  # only its last announcement is known
            failures = health.consecutive_failures
            status = health.status or ("failed" if failures and health.announced == "failed" else "available")
            return ToolStatus(status), failures
        if tool.options.breaker == "shared" and place != SHARED_PLACE:
            return ToolStatus(health.status or "available"), 0
        return status_of(tool, health, place[1]), health.consecutive_failures

    async def _write(self, place: Place, name: str, wanted: ToolStatus, reason: str, by: str) -> bool:
        hub = self._hub
        for _ in range(_TRIES):
            health = (await hub.rows(*place)).get(name) or ToolHealth(tool=name)
            current, failures = self._on_record(name, health, place)
            free = wanted is ToolStatus.AVAILABLE
            if free and current is wanted and not failures:
                return False
            if current is not wanted:
                TOOL_STATUS.advance(current, wanted)
            new = msgspec.structs.replace(
                health,
                status=None if free else str(wanted),
                reason=reason,
                by=by,
                consecutive_failures=0 if free else health.consecutive_failures,
                announced=str(wanted),
                updated_at=max(hub.clock.now(), math.nextafter(health.updated_at, math.inf)),  # after the last outcome
            )
            announced = ToolStatus(health.announced)
            # The status that follows from the counters may not have been announced yet.
            steps = ((announced, current, health.last_error), (current, wanted, reason))
            changes = [step for step in steps if step[0] is not step[1]]
            if await hub.put(place, new, health.version, *changes):
                await self._health()
                for before, after, why in changes:
                    hub.changed(*place, name, before, after, why)
                facts = {"tool": name, "before": str(current), "after": str(wanted), "reason": reason}
                await self._note("hub.status_set", by, **facts)
                return True
        raise self._busy(name)

    # Snapshots.

    async def snapshot(self) -> str:
        """The health of every registered tool as JSON, for `restore` in this store or another."""
        health = await self._health()
        now = self._hub.clock.now()
        views = judge_all(self._hub.registry, health, now, self._hub.opened_at, self._place)
        return dump(views, health, self._hub.registry, now)

    async def restore(self, text: str | bytes, *, by: str = "") -> bool:
        """Replace the recorded health by that of a snapshot. False: the snapshot does not load; a warning is logged, and nothing
        changes."""
        try:
            restored = load(text, self._hub.clock.now())
        except (ValueError, TypeError, OverflowError, RecursionError) as error:  # msgspec's errors are ValueErrors
            logger.warning("a snapshot for thread %s does not load, so nothing was restored: %s", self.thread, error)
            return False
        for new in restored:
            tool = self._hub.registry.get(new.tool)
            if tool is None:
                logger.warning("a snapshot for thread %s has %r, which is not registered here", self.thread, new.tool)
                continue
            await self._replace(tool, new)
        await self._note("hub.restored", _fit(by), tools=len(restored))
        return True

    async def _replace(self, tool: Tool, new: ToolHealth) -> None:
        """Write a tool's health, and announce a change of status. It is dated now: the next sweep would remove the health of an
        old snapshot as unused."""
        new = msgspec.structs.replace(new, tool_version=tool.options.version)
        after = status_of(tool, new, self.thread)
        new = msgspec.structs.replace(new, announced=str(after), updated_at=self._hub.clock.now())
        for _ in range(_TRIES):
            old = (await self._hub.rows(*self._place)).get(tool.name) or ToolHealth(tool=tool.name)
            announced = ToolStatus(old.announced)
            changes = [(announced, after, new.reason)] if announced is not after else []
            if await self._hub.put(self._place, new, old.version, *changes):
                state = await self.status(tool.name)
                for before, now, _ in changes:
                    self._hub.changed(self._caller, self.thread, tool.name, before, now, state.reason)
                return
        raise self._busy(tool.name)

    async def _health(self) -> dict[str, ToolHealth]:
        return await self._hub.tool_health(self._caller, self.thread)

    def _find(self, name: str, known: Iterable[str] = ()) -> Tool:
        tool = self._hub.registry.get(name)
        if tool is None:
            near = did_you_mean(str(name), {*self._hub.registry.names, *known})
            raise ToolNotFound(f"there is no tool {str(name)[:200]!r}.{near}")
        return tool

    def _busy(self, name: str) -> Conflict:
        return Conflict(f"{name!r} in thread {self.thread!r} is being changed by other processes. Try again.")

    async def _note(self, what: str, by: str, **details: object) -> None:
        if self._audit is not None:
            await self._audit(what, by=by, thread=self.thread, **details)
