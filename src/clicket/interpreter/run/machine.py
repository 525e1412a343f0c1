"""Drives one run through the states of the code table (`kernel/code.py`). Each step does the work of one state.

A change of state is announced after it has happened. Every run ends, and its result is the last message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from clicket.errors import UsageError
from clicket.interpreter.files.artifacts import ArtifactStore
from clicket.interpreter.files.inputs import FileRefused, Inputs, write_inputs
from clicket.interpreter.files.outputs import OutputLimits, collect
from clicket.interpreter.result import Display, ProgramError, Result, Status
from clicket.interpreter.run import messages, validation
from clicket.interpreter.run.block_errors import RunLimits, error_of_check
from clicket.interpreter.run.messages import Message
from clicket.interpreter.run.result_builder import ResultBuilder
from clicket.interpreter.run.session_slot import SessionSlot
from clicket.interpreter.run.task_parser import Fence, Parsed, is_quick
from clicket.interpreter.run.validation import TaskRefused
from clicket.interpreter.sandbox.isolation import Isolation
from clicket.interpreter.session.block_run import BlockEnd, BlockItem, OutputItem
from clicket.interpreter.session.exit_reason import SessionGone
from clicket.interpreter.session.session import Checked, Session
from clicket.interpreter.session.uses import UseHandler
from clicket.kernel import CODE, CodeState
from clicket.system.bridge import ThreadPool

__all__ = ["Machine", "RunOptions"]

_CHECK_TIMEOUT = 30.0
"""Seconds for the child to compile all blocks."""
_SHORT = 64 * 1024
"""Characters of a block that may be compiled and run in one request: compiling cannot be interrupted."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The same for every run of an interpreter."""

    limits: RunLimits
    max_steps: int = 10
    folder: Path | None = None
    """Host folder for names in `file_names`."""
    output_limits: OutputLimits = OutputLimits()


class Machine:
    """Call `step` until `state` is terminal, or `finish`; then `result` is set."""

    def __init__(
        self,
        task: str,
        *,
        slot: SessionSlot,
        isolation: Isolation,
        options: RunOptions,
        store: ArtifactStore,
        thread_pool: ThreadPool,
        inputs: Inputs | None = None,
        uses: UseHandler | None = None,
    ) -> None:
        self.state: CodeState = CODE.initial
        self.result: Result | None = None
        self.stepping: bool = False
        self.recorded = False
        """Set by the interpreter when the result is in its history."""
        self._task = task
        self._slot = slot
        self._isolation = isolation
        self._options = options
        self._store = store
        self._thread_pool = thread_pool
        self._inputs = inputs or Inputs()
        self._uses = uses
        self._messages: list[Message] | None = []
        """Messages of the current step; None if the caller wants none."""
        self._builder = ResultBuilder(task, options.limits)
        self._parsed = Parsed(text="", fences=())
        self._blocks: tuple[Fence, ...] = ()
        self._checked: list[Checked] = []
        self._at = 0
        """Index of the next or running block."""
        self._running = False
        self._items: AsyncIterator[BlockItem] | None = None
        """Items of the running block."""
        self._ended: BlockEnd | None = None
        self._stopped = False
        self._fatal: ProgramError | None = None

    @property
    def done(self) -> bool:
        return self.state in CODE.terminal

    async def step(self) -> AsyncGenerator[Message, None]:
        """Do the work of the current state and yield its messages. Closed early or cancelled, it stops the program first."""
        async with self._driving():
            was = self.state
            while self.state is was:
                for message in await self._more():
                    yield message

    async def stream(self) -> AsyncGenerator[Message, None]:
        """All remaining steps. Closed early or cancelled, it stops the program first."""
        async with self._driving():
            while not self.done:
                for message in await self._more():
                    yield message

    async def finish(self) -> None:
        """All remaining steps, without messages."""
        async with self._driving():
            self._messages = None
            while not self.done:
                await self._more()

    @asynccontextmanager
    async def _driving(self) -> AsyncIterator[None]:
        if self.done:
            raise UsageError(f"this run has ended ({self.state}). Begin another one.")
        if self.stepping:
            raise UsageError("a step of this run is under way. Take its messages to their end before the next step.")
        self.stepping = True
        try:
            yield
        except BaseException as error:
            await self._on_aborted(error)
            raise
        finally:
            self.stepping = False

    async def interrupt(self) -> None:
        """Stop the running block and run no further one. Returns when it has ended."""
        self._stopped = True
        if self._running and self._slot.session is not None:
            await self._slot.session.stop("cancel")

    def kill(self) -> None:
        """Kill the program at once."""
        self._stopped = True
        if not self.done and self._slot.session is not None:
            self._slot.session.kill("cancel")

    async def abandon(self) -> None:
        """Stop the running block and end the run, if it has not ended."""
        if self.done:
            return
        self._stopped = True
        if self._running and self._slot.session is not None:  # otherwise the session was closed, which ended the block
            await self._halt(self._slot.session)
        if self._ended is not None and self.state is CodeState.MONITORING:
            self._record_end(self._ended)
        self.state = CODE.advance(self.state, CodeState.ERROR)
        dead = self._slot.session is not None and not self._slot.session.alive
        self.result = self._builder.result(self._isolation, "interrupted", "cancel")
        self._builder.close()
        if dead or (self._fatal is not None and self.result.status == "exit"):
            await self._drop()
        elif self._slot.session is not None:
            self._slot.session.idle()

    # --- the work of each state ---------------------------------------------------------------------------------------

    async def _more(self) -> Sequence[Message]:
        """Handle the next item of a running block, or do the work of the state. Returns the messages."""
        if self.state is CodeState.MONITORING and self._ended is None:
            if self._items is None:
                self._items = self._session.watch()
            self._on_item(await anext(self._items))
        else:
            await self._advance()
        if not self._messages:
            return ()
        found, self._messages = self._messages, []
        return found

    async def _advance(self) -> None:
        try:
            if self._stopped and self.state not in (CodeState.MONITORING, CodeState.COLLECTING):
                raise validation.stopped()
            await _WORK[self.state](self)
        except TaskRefused as refusal:
            self._builder.errors.extend(refusal.errors)
            await self._fail(refusal.errors[0], refusal.status, refusal.reason)
        except SessionGone as gone:
            error = error_of_check(gone.exit_reason)
            self._builder.errors.append(error)
            await self._fail(error, gone.exit_reason.status, gone.exit_reason.reason)

    async def _parse(self) -> None:
        quick = is_quick(self._task)
        self._parsed = (
            validation.parsed(self._task)
            if quick
            else await self._thread_pool.run(lambda: validation.parsed(self._task))
        )
        self._builder.skipped.extend(self._parsed.skipped)
        self._blocks = self._parsed.blocks
        self._change(CodeState.VALIDATING, "the blocks are found")
        self._announce(messages.progress, len(self._blocks))

    async def _validate(self) -> None:
        validation.check(self._parsed)
        session = await self._slot.take()
        self._isolation = session.isolation
        if self._needs_no_preparation() and await self._run_at_once(session):
            return
        before = len(self._blocks)
        self._parsed, self._checked = await validation.compiled(
            self._parsed, session, _CHECK_TIMEOUT, self._thread_pool, self._checked
        )
        self._blocks = self._parsed.blocks
        self._builder.skipped[:] = self._parsed.skipped
        validation.check_steps(len(self._blocks), self._options.max_steps)
        self._validated()
        if len(self._blocks) != before:
            self._announce(messages.progress, len(self._blocks))

    def _validated(self) -> None:
        for answer in self._checked:
            self._builder.imports.update(dict.fromkeys(answer.imports))
        self._change(CodeState.PREPARING, "every block is Python")

    async def _prepare(self) -> None:
        loads = {name for answer in self._checked for name in answer.loads}
        stores = {name for answer in self._checked for name in answer.stores}
        if missed := self._slot.missed(loads - stores):
            raise validation.session_lost(missed, self._slot.why)
        self._add_warning()
        limits = self._options.limits.sandbox
        try:
            written = await write_inputs(
                self._session.process,
                self._inputs,
                folder=self._options.folder,
                store=self._store,
                thread_pool=self._thread_pool,
                each=limits.file_size,
                whole=limits.disk,
            )
        except FileRefused as error:
            raise TaskRefused(ProgramError(type=error.kind, message=f"{error} Nothing was run.", fatal=True)) from None
        self._slot.signatures.update(written)
        self._change(CodeState.EXECUTING, "the session is ready")

    def _add_warning(self) -> None:
        if warning := self._slot.take_warning():
            self._builder.warnings.append(warning)

    async def _execute(self) -> None:
        self._send()
        self._sent()

    def _send(self, on_checked: Callable[[Checked], None] | None = None) -> None:
        run = "" if self._slot.runs == 1 else f"run {self._slot.runs}, "
        name = f"<{run}block {self._at + 1}>"
        self._ended = None
        self._running = True
        code = self._blocks[self._at].code
        timeout = self._options.limits.timeout
        self._session.begin(code, name=name, timeout=timeout, on_checked=on_checked, uses=self._uses)

    def _sent(self) -> None:
        block = self._blocks[self._at]
        self._announce(messages.block_started, self._at, block.code, None if self._parsed.bare else block.lines)
        self._change(CodeState.MONITORING, f"block {self._at + 1} of {len(self._blocks)} runs")

    async def _monitored(self) -> None:
        """The block has ended: record it and choose the next state."""
        assert self._ended is not None
        ended, self._ended = self._ended, None
        self._record_end(ended)
        if self._fatal is None and self._stopped and self._at < len(self._blocks):
            self._fatal = validation.stopped().errors[0]
            self._builder.errors.append(self._fatal)
        if self._fatal is not None:
            self._change(CodeState.COLLECTING, f"the run ends here: {ended.status}")
        elif self._at < len(self._blocks):
            self._change(CodeState.EXECUTING, "the next block")
        else:
            self._change(CodeState.COLLECTING, "all blocks have run")

    async def _collect(self) -> None:
        slot = self._slot
        work = self._session.process.work_fd
        taken = await collect(
            work, slot.signatures, self._store, self._thread_pool, self._options.output_limits, slot.empty_at
        )
        slot.signatures, slot.empty_at = taken.signatures, taken.empty_at
        self._builder.files = taken.files
        self._builder.skipped.extend(taken.skipped)
        await self._builder.store_large(self._store)
        if self._fatal is not None:
            await self._fail(self._fatal, *(("interrupted", "cancel") if self._stopped else (None, None)))
            return
        self._session.idle()
        self._change(CodeState.COMPLETED, "the run is complete")
        self._conclude(None, None)

    # --- the short way ------------------------------------------------------------------------------------------------

    def _needs_no_preparation(self) -> bool:
        """One short block, no messages, no input files, no lost names: only a syntax error could prevent the block from running."""
        return (
            self._messages is None
            and len(self._blocks) == 1
            and len(self._blocks[0].code) <= _SHORT
            and not (self._inputs.files or self._inputs.file_names)
            and not self._slot.misses
            and not validation.may_be_code(self._parsed)
        )

    async def _run_at_once(self, session: Session) -> bool:
        """Let the child compile and run the block in one request. False if the block does not compile."""
        self._send(self._on_checked)
        async for item in session.watch():
            self._on_item(item)
        if self.state is CodeState.MONITORING:
            return True
        self._ended = None
        if not self._checked:
            assert session.exit_reason is not None
            raise SessionGone(session.exit_reason)
        return False

    def _on_checked(self, answer: Checked) -> None:
        """Called when the child has compiled the block. It runs now, unless there was an error."""
        self._checked = [answer]
        if answer.error is None:
            self._validated()
            self._add_warning()
            self._change(CodeState.EXECUTING, "the session is ready")
            self._sent()

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def _on_aborted(self, error: BaseException) -> None:
        """The caller stopped driving this run, or the host failed."""
        await self.abandon()
        if not isinstance(error, asyncio.CancelledError | GeneratorExit):
            self.result = None  # a failure of the host is not a result of the program

    async def _fail(self, error: ProgramError, status: Status | None, reason: str | None) -> None:
        was = self.state
        session = self._slot.session
        self._change(CodeState.ERROR, f"{error.type}: {error.message}")
        self._announce(messages.error, error.message, error.block_index or 0, was)
        self._conclude(status, reason)
        assert self.result is not None
        if session is not None and (not session.alive or self.result.status == "exit"):
            await self._drop()
        elif session is not None:
            session.idle()

    def _conclude(self, status: Status | None, reason: str | None) -> None:
        self.result = self._builder.result(self._isolation, status, reason)
        self._builder.close()
        if self._messages is not None:
            self._messages.append(messages.final_result(self.result.to_json()))

    async def _drop(self) -> None:
        """Drop the session. Names that its blocks were about to bind count as lost too."""
        assert self.result is not None
        begun = self._checked[: len(self._builder.blocks)]
        reason = f" ({self.result.reason})" if self.result.reason else ""
        why = f"a run ended as {self.result.status}{reason}"
        await self._slot.drop(why, {name for answer in begun for name in answer.stores})

    async def _halt(self, session: Session) -> None:
        """Stop the block and wait for its end. A second cancellation kills it."""
        stopping = asyncio.ensure_future(session.stop("cancel"))
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError:
                session.kill("cancel")
        async for item in session.watch():
            if isinstance(item, BlockEnd):
                self._ended = item
        self._running = False

    # --- small parts --------------------------------------------------------------------------------------------------

    @property
    def _session(self) -> Session:
        session = self._slot.session
        if session is None:
            raise UsageError("the session of this run was closed while it ran. Begin another run.")
        return session

    def _announce(self, message: Callable[..., Message], *about: object) -> None:
        if self._messages is not None:
            self._messages.append(message(*about))

    def _change(self, to: CodeState, text: str) -> None:
        was, self.state = self.state, CODE.advance(self.state, to)
        if self._messages is not None:
            self._messages.append(messages.state_change(was, to, text))

    def _on_item(self, item: BlockItem) -> None:
        if isinstance(item, BlockEnd):
            self._ended = item
            self._running = False
            self._items = None
        elif isinstance(item, OutputItem):
            self._announce(messages.output, item.stream, item.text, self._at)
        else:
            display = Display(mime=item.mime, data=item.data, group=item.group, block_index=self._at)
            self._builder.add_display(display)
            self._announce(messages.displayed, display)

    def _record_end(self, ended: BlockEnd) -> None:
        """Add the block to the result, and announce its end."""
        index, self._at = self._at, self._at + 1
        block, error = self._builder.add_block(index, self._blocks[index], self._parsed.bare, ended)
        for variable in ended.variables:
            self._announce(messages.variable, variable, index)
        if error is None:
            self._announce(messages.block_ended, block)
            return
        if error.fatal:
            self._fatal = error
        self._announce(messages.execution_error, error)
        self._announce(messages.block_failed, block, error)


_WORK: dict[CodeState, Callable[[Machine], Awaitable[None]]] = {
    CodeState.PARSING: Machine._parse,
    CodeState.VALIDATING: Machine._validate,
    CodeState.PREPARING: Machine._prepare,
    CodeState.EXECUTING: Machine._execute,
    CodeState.MONITORING: Machine._monitored,
    CodeState.COLLECTING: Machine._collect,
}
