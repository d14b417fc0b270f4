"""Python functions as tools: the name, the docstring and the signature are all that a model needs to know of one.

    def search(query: Annotated[str, "what to look for"], limit: int = 10) -> list[str]:
        \"\"\"Finds pages.\"\"\"

    tool = function_tool(search)
    tool.spec                                                      # for the model
    await bag.run(tool.call, tool=tool.name, arguments={"query": "x"})   # as the model wrote them

A parameter `writer` is not the model's: the bag hands it in, for what the function writes on its way. Arguments are
checked and made into the annotated types when `call` is called, so what stands for a kept output is already replaced.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from holdall.agent.functions_load import load_function
from holdall.agent.functions_scalars import Reading
from holdall.agent.functions_shapes import Member, Record
from holdall.agent.functions_types import Shapes, Unfit, hints_of
from holdall.text.escape import one_line
from holdall.values.errors import WrongUse
from holdall.wire import arguments as misfits
from holdall.wire.arguments import Misfit, complaint
from holdall.wire.tool import ToolSpec

WRITER = "writer"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)


class BadArguments(WrongUse):
    """The message is for the model that wrote them: which argument, and what it must be."""


@dataclass(frozen=True, slots=True)
class FunctionTool:
    name: str
    description: str
    schema: Mapping[str, Any] = field(hash=False)
    function: Callable[..., Any]
    call: Callable[..., Any] = field(repr=False)  # for the bag: takes the arguments as the model wrote them
    parameters: Record = field(repr=False)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.schema)

    def read(self, arguments: object) -> dict[str, Any]:
        """The arguments as the function takes them. Raises BadArguments."""
        return _read(self.parameters, arguments)


def function_tool(
    function: Callable[..., Any] | FunctionTool, *, name: str = "", description: str | None = None
) -> FunctionTool:
    """Raises WrongUse where it cannot be one, and names the parameter. A tool is given back as it is."""
    if isinstance(function, FunctionTool):
        return function
    if not callable(function) or inspect.isclass(function):
        raise WrongUse(f"{one_line(repr(function), 80)} cannot be a tool: it is not a function.")
    called = name or str(getattr(_inner(function), "__name__", "") or type(function).__name__)
    if not _NAME.fullmatch(called):
        raise WrongUse(
            f"{one_line(called)!r} cannot be the name of a tool: it must be 1 to 64 letters, digits, - and _."
        )
    try:
        shapes, parameters = _parameters(function)
    except Unfit as problem:
        raise WrongUse(f"the function {called} cannot be a tool: {one_line(str(problem), 600)}.") from problem
    schema = parameters.schema()
    if shapes.definitions:
        schema["$defs"] = {one.name: one.record[0].schema() for one in shapes.definitions.values()}
    about = inspect.getdoc(_inner(function)) or "" if description is None else description
    return FunctionTool(called, about, schema, function, _call(function, parameters, called), parameters)


def load_function_tool(spec: str, *, folder: str = "") -> FunctionTool:
    """The tool that an agent's file names as `module:name`; `folder` is that of the file."""
    found = load_function(spec, folder=folder)
    try:
        return function_tool(found)
    except WrongUse as problem:
        raise WrongUse(f"{spec}: {problem}") from problem


def _parameters(function: Callable[..., Any]) -> tuple[Shapes, Record]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as problem:
        raise Unfit("it does not say its parameters") from problem
    bound = _bound(function)
    given = {name: one for name, one in signature.parameters.items() if name != WRITER and name not in bound}
    shapes, members = Shapes(), list[Member]()
    try:
        hints = hints_of(_annotated(function), given)
        for name, one in given.items():
            _refuse_kind(one)
            required = one.default is inspect.Parameter.empty
            default = {} if required else {"default": one.default}
            members.append(shapes.member(name, hints.get(name, one.annotation), required=required, **default))
    except Unfit as problem:
        raise Unfit(f"the parameter {problem}") from problem
    return shapes, Record(tuple(members))


def _refuse_kind(one: inspect.Parameter) -> None:
    if one.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        star = "*" if one.kind is inspect.Parameter.VAR_POSITIONAL else "**"
        raise Unfit(f"'{star}{one.name}' takes any number of values; name each of them")
    if one.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise Unfit(f"{one.name!r} has no name for its callers; take away the / after it")


def _inner(function: Any) -> Any:
    """What was wrapped, for its name and docstring."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return function


def _bound(function: Any) -> set[str]:
    """What a partial has set already is not the model's to see, nor to change: it may be a key."""
    bound = set[str]()
    while isinstance(function, functools.partial):
        part = cast("functools.partial[Any]", function)
        bound |= part.keywords.keys()
        function = part.func
    return bound


def _annotated(function: Any) -> Any:
    """What has the annotations: of an object, its `__call__`; of a decorated function, the function."""
    inner = inspect.unwrap(_inner(function))
    inner = inner if inspect.isroutine(inner) else type(inner).__call__
    return getattr(inner, "__func__", inner)


def _call(function: Callable[..., Any], parameters: Record, name: str) -> Callable[..., Any]:
    """Of the same kind as the function: the bag tells by it how to call, and whether to hand in a writer."""
    waits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    writes = WRITER in inspect.signature(function).parameters and WRITER not in _bound(function)

    async def awaited(**given: Any) -> Any:
        return await function(**_read(parameters, given))

    async def awaited_writing(*, writer: Any, **given: Any) -> Any:
        return await function(**_read(parameters, given), writer=writer)

    def plain(**given: Any) -> Any:
        return function(**_read(parameters, given))

    def plain_writing(*, writer: Any, **given: Any) -> Any:
        return function(**_read(parameters, given), writer=writer)

    call: Any = (awaited_writing if writes else awaited) if waits else (plain_writing if writes else plain)
    call.__name__ = name
    return call


def _read(parameters: Record, arguments: object) -> dict[str, Any]:
    try:
        return parameters.read(arguments, Reading(exact=False))
    except Misfit as fault:
        raise BadArguments(complaint(fault)) from None
    except RecursionError:
        raise BadArguments(complaint(Misfit(misfits.TOO_DEEP))) from None
