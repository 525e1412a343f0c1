"""`@tool`: a function becomes a tool. Sync or async, plain or generator: each is called as `run(bound, ctx)`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import WRAPPER_ASSIGNMENTS
from types import FunctionType, MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from clicket.errors import UsageError
from clicket.tools.context import STREAMED, ToolContext
from clicket.tools.defaults import ToolDefaults
from clicket.tools.options import Breaker, Isolation, Options, Recovery, make_options
from clicket.tools.output_schema import return_schema
from clicket.tools.place import placed
from clicket.tools.plain_signature import always_judged
from clicket.tools.protocol import Traits
from clicket.tools.reconcile import Reconcile
from clicket.tools.schema import Binding, bind_signature, docstring_of
from clicket.tools.undo import Undo, UndoFunction

__all__ = ["FunctionTool", "name_of", "tool"]

P = ParamSpec("P")
R = TypeVar("R")
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,128}")


class FunctionTool(Generic[P, R]):
    """A function with its name, schema and options. Calling it calls the function, so tests need no runtime."""

    data_version = ToolDefaults.data_version
    is_cacheable = ToolDefaults.is_cacheable
    sweep = ToolDefaults.sweep
    close = ToolDefaults.close
    owned_by = ToolDefaults.owned_by

    def __init__(
        self,
        function: Callable[P, R],
        options: Options,
        *,
        name: str,
        description: str,
        binding: Binding,
        run_sync: Callable[..., Any] | None = None,
        listed: bool = True,
        of_object: bool = False,
        part_of: str = "",
    ) -> None:
        _take_names(self, function)
        self.fn: Callable[P, R] = function
        self.name: str = name
        self.description: str = description
        self.options: Options = options
        self.binding: Binding = binding
        self.input_schema: Mapping[str, Any] = binding.schema
        self.bind: Callable[[dict[str, Any]], dict[str, Any]] = binding.bind
        self.bind_plain: Callable[[dict[Any, Any]], dict[str, Any] | None] = (
            always_judged if options.sensitive else binding.bind_plain
        )
        self.of_object: bool = of_object
        """A method: the tool is the one of an object, `shop.price`."""
        self.is_async: bool
        self.run: Callable[[Any, Any], Any]
        self.is_async, self.run = adapt(function, binding)
        self.traits: Traits = Traits(
            wants_context=binding.context is not None or bool(binding.deps) or not _is_plain(function),
            listed=listed,
            part_of=part_of,
            deps=tuple(sorted({*binding.deps.values()})),
            any_dep=binding.context is not None or not binding.deps,
        )
        self.run_sync: Callable[[Any, Any], Any] | None = adapt(run_sync, binding)[1] if run_sync is not None else None

    @property
    def output_schema(self) -> Mapping[str, Any] | None:
        """The schema of the function's return type, if that type names its fields."""
        return return_schema(self.fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.fn(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> FunctionTool[..., R]:
        """A method's tool, of an object."""
        if instance is None or not self.of_object:
            return self
        return FunctionTool(
            MethodType(self.fn, instance),
            self.options,
            name=self.name,
            description=self.description,
            binding=self.binding,
            listed=self.traits.listed,
        )

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


def _take_names(tool: object, function: Any) -> None:
    """As `functools.update_wrapper`, which would make the tool's `__dict__`: attributes are read from that at half the speed.
    Attributes of the function do not replace methods of the tool."""
    for name in WRAPPER_ASSIGNMENTS:
        if hasattr(function, name):
            setattr(tool, name, getattr(function, name))
    for name, value in getattr(function, "__dict__", {}).items():
        if not hasattr(type(tool), name):
            setattr(tool, name, value)
    tool.__wrapped__ = function  # type: ignore[attr-defined]


def _is_plain(function: Any) -> bool:
    """Generators emit what they yield, so they need the context even if their author does not."""
    return not (inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function))


def adapt(function: Callable[..., Any], binding: Binding) -> tuple[bool, Callable[[Any, ToolContext], Any]]:
    """Returns `(is_async, run)`. A generator emits each value that it yields, and is resumed once that is in the journal."""
    context, deps = binding.context, binding.deps
    if deps:

        def start(bound: dict[str, Any], ctx: ToolContext) -> Any:
            given = {parameter: ctx.deps[name] for parameter, name in deps.items()}
            if context is not None:
                given[context] = ctx
            return function(**bound, **given)

    elif context is None:

        def start(bound: dict[str, Any], ctx: ToolContext) -> Any:
            return function(**bound)

    else:

        def start(bound: dict[str, Any], ctx: ToolContext) -> Any:
            return function(**bound, **{context: ctx})

    if inspect.isasyncgenfunction(function):

        async def stream(bound: dict[str, Any], ctx: ToolContext) -> Any:
            chunks = start(bound, ctx)
            try:
                async for chunk in chunks:
                    ctx.emit(chunk)
                    await ctx.drain()
            finally:
                await chunks.aclose()
            return STREAMED

        return True, stream
    if inspect.isgeneratorfunction(function):

        def generate(bound: dict[str, Any], ctx: ToolContext) -> Any:
            for chunk in start(bound, ctx):
                ctx.emit(chunk)
            return STREAMED

        return False, generate
    return inspect.iscoroutinefunction(function), start


def is_method(function: Any) -> bool:
    """Was it defined in a class body, to be called on an object?"""
    if not isinstance(function, FunctionType):
        return False
    owner = function.__qualname__.rpartition(".")[0]
    code = function.__code__
    return bool(owner) and not owner.endswith("<locals>") and code.co_argcount > 0 and code.co_varnames[0] == "self"


def name_of(given: str | None, fallback: str, where: str) -> str:
    name = fallback if given is None else given
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: {name!r} is not a name for a tool. Use up to 128 letters, digits, '_', '-' or '.'.")
    return name


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    version: str = "1",
    timeout: float | None = 30.0,
    idle_timeout: float | None = None,
    max_retries: int = 3,
    retry_delay: float = 1.0,
    retry_on: type[BaseException] | tuple[type[BaseException], ...] = (),
    idempotent: bool = False,
    read_only: bool = False,
    recovery: Recovery | None = None,
    reconcile: Reconcile | None = None,
    undo: UndoFunction | Undo | None = None,
    external: bool = False,
    background: bool = False,
    isolation: Isolation = "auto",
    resources: Mapping[str, Any] | None = None,
    cache: float | bool | None = None,
    real_time: bool = False,
    time_window: float | None = None,
    depends_on: Any = None,
    failure_threshold: int = 3,
    cooldown: float = 300.0,
    breaker: Breaker = "thread",
    permissions: Any = (),
    max_concurrency: int | None = None,
    rate: str | None = None,
    labels: Any = (),
    max_result_size: int = 1024 * 1024,
    sensitive: Any = (),
    tags: Any = (),
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Any = None, /, *, name: str | None = None, description: str | None = None, **options: Any) -> Any:
    """Make a tool of a function, or of a class that gives `run`, `run_sync` or both. Works bare and with options."""
    names = sys._getframe(1).f_locals

    def decorate(target: Any) -> Any:
        if isinstance(target, type):
            return class_tool(target(), name=name, description=description, options=options, names=names)
        return function_tool(target, name=name, description=description, options=options, names=names)

    return decorate if function is None else decorate(function)


def function_tool(
    function: Callable[P, R],
    *,
    name: str | None = None,
    description: str | None = None,
    options: Mapping[str, Any] | None = None,
    names: Mapping[str, Any] | None = None,
    listed: bool = True,
    part_of: str = "",
) -> FunctionTool[P, R]:
    """`tool` as a plain call. `names`: the local names where the function is defined; `listed`, `part_of`: see `Traits`."""
    if isinstance(function, classmethod):
        where = placed(f"tool {function.__name__!r}", function)
        raise UsageError(
            f"{where}: a classmethod cannot be a tool. Use a function, a method, or @staticmethod above @tool."
        )
    if not callable(function):
        raise UsageError(f"@tool takes a function, not {function!r}.")
    where = placed(f"tool {name or getattr(function, '__name__', function)!r}", function)
    made = make_options(where, options or {})
    of_object = is_method(function)
    if of_object and made.isolation in ("process", "ray"):
        raise UsageError(
            f"{where}: a method needs its object, which another process does not have, so isolation={made.isolation!r} is for functions. "
            "Make it a function, or leave isolation at 'auto'."
        )
    binding = bind_signature(MethodType(function, object()) if of_object else function, where, names=names)
    _refuse_without_context(where, made, binding)
    return FunctionTool(
        function,
        made,
        name=name_of(name, getattr(function, "__name__", ""), where),
        description=docstring_of(function)[0] if description is None else description,
        binding=binding,
        listed=listed,
        of_object=of_object,
        part_of=part_of,
    )


def _refuse_without_context(where: str, options: Options, binding: Binding) -> None:
    if options.external and binding.context is None:
        raise UsageError(
            f"{where}: an external tool gets the token that ends its call from ctx.pending(). Give it a parameter `ctx: ToolContext`."
        )


def class_tool(
    instance: Any,
    *,
    name: str | None = None,
    description: str | None = None,
    options: Mapping[str, Any] | None = None,
    names: Mapping[str, Any] | None = None,
) -> FunctionTool[..., Any]:
    """A tool of an object with methods `run` (async) and/or `run_sync`; each kind of caller gets the direct one."""
    kind = type(instance)
    where = placed(f"tool {name or kind.__name__!r}", kind)
    run, run_sync = getattr(instance, "run", None), getattr(instance, "run_sync", None)
    body = run or run_sync
    if body is None:
        raise UsageError(f"{where}: give the class a method `run`, `run_sync`, or both.")
    if run_sync is not None and inspect.iscoroutinefunction(run_sync):
        raise UsageError(f"{where}: `run_sync` must not be async; call it `run`.")
    given = {key: getattr(instance, key) for key in Options.__struct_fields__ if hasattr(instance, key)}
    made = make_options(where, {**given, **(options or {})})
    binding = bind_signature(body, where, names=names)
    _refuse_without_context(where, made, binding)
    return FunctionTool(
        body,
        made,
        name=name_of(name or getattr(instance, "name", None), snake_case(kind.__name__), where),
        description=description or getattr(instance, "description", None) or docstring_of(kind)[0],
        binding=binding,
        run_sync=run_sync if run is not None else None,
    )


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
