"""Python functions as tools: a model needs only the name, the docstring and the signature.

    def search(query: Annotated[str, "what to look for"], limit: int = 10) -> list[str]:
        \"\"\"Finds pages.\"\"\"

    tool = function_tool(search)
    tool.spec                                                      # for the model
    await bag.run(tool.call, tool=tool.name, arguments={"query": "x"})   # as the model wrote them

A parameter `writer` is not the model's: the bag hands it in, for what the function writes on its way. pydantic makes
the schema; it checks and converts arguments when `call` is called, after references to kept outputs were replaced.
Every type that pydantic reads from JSON may be used. Needs the extra `agent`.

Agent files name functions as `module:name`. Importing a module runs it, so only what the user named is imported.
"""

import copy
import dataclasses
import difflib
import functools
import importlib
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import ModuleType
from typing import Any, ClassVar, cast

from holdall.agent.files import is_function_name
from holdall.text.escape import one_line
from holdall.trust import Module, agreed_modules, named_modules
from holdall.values.errors import MissingExtra, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.wire.arguments import TOO_DEEP, InvalidArgument, clearest_problem, complaint, rule_for, unreadable
from holdall.wire.tool import ToolSpec

try:
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
    from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
except ModuleNotFoundError as problem:
    raise MissingExtra("pydantic", "agent", "using Python functions as tools") from problem

WRITER = "writer"
_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_REFERENCE = lazy_pattern(r'"#/\$defs/([^"]+)"')
_CONFIG = ConfigDict(extra="forbid", coerce_numbers_to_str=True, allow_inf_nan=False, protected_namespaces=())
_CANNOT = (PydanticUserError, PydanticUndefinedAnnotation, TypeError, ValueError)
_MAX_UNION_TRIES = 10_000  # of one value, where a union holds itself: pydantic tries every member at every level


class UnsupportedType(ValueError):
    """A parameter whose type JSON cannot express; the message says which and why."""


class BadArguments(UsageError):
    """The message is for the model that wrote them: which argument, and what it must be."""


@record
class FunctionTool:
    name: str
    description: str
    schema: Mapping[str, Any] = field(hash=False)
    function: Callable[..., Any]
    call: Callable[..., Any] = field(repr=False)  # for the bag: takes the arguments as the model wrote them
    parameters: "Parameters" = field(repr=False)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.schema)

    def read(self, arguments: object) -> dict[str, Any]:
        """The arguments as the function takes them. Raises BadArguments."""
        return self.parameters.read(arguments)


def function_tool(
    function: Callable[..., Any] | FunctionTool, *, name: str = "", description: str | None = None
) -> FunctionTool:
    """Raises UsageError if it cannot be one, and names the parameter. A tool is returned unchanged."""
    if isinstance(function, FunctionTool):
        return function
    if not callable(function) or inspect.isclass(function):
        raise UsageError(f"{one_line(repr(function), 80)} cannot be a tool: it is not a function.")
    called = name or str(getattr(_inner(function), "__name__", "") or type(function).__name__)
    if not _NAME.fullmatch(called):
        raise UsageError(
            f"{one_line(called)!r} cannot be the name of a tool: it must be 1 to 64 letters, digits, - and _."
        )
    try:
        parameters = Parameters(_parameters(function))
    except UnsupportedType as problem:
        raise UsageError(f"the function {called} cannot be a tool: {one_line(str(problem), 600)}.") from problem
    about = inspect.getdoc(_inner(function)) or "" if description is None else description
    return FunctionTool(called, about, parameters.schema, function, _call(function, parameters, called), parameters)


# The signature


def _parameters(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """The annotation and the default (`...` for none) of each parameter that is the model's to set."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as problem:
        raise UnsupportedType("it does not say its parameters") from problem
    bound = _bound(function)
    given = {name: one for name, one in signature.parameters.items() if name != WRITER and name not in bound}
    hints = _hints(_annotated(function), given)
    found: dict[str, tuple[Any, Any]] = {}
    for name, one in given.items():
        _refuse_kind(one)
        annotation = hints.get(name, one.annotation)
        if annotation is inspect.Parameter.empty:
            raise UnsupportedType(f"the parameter {name!r} has no type")
        found[name] = annotation, ... if one.default is inspect.Parameter.empty else one.default
    return found


def _refuse_kind(one: inspect.Parameter) -> None:
    if one.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        star = "*" if one.kind is inspect.Parameter.VAR_POSITIONAL else "**"
        raise UnsupportedType(f"the parameter '{star}{one.name}' takes any number of values; name each of them")
    if one.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise UnsupportedType(f"the parameter {one.name!r} has no name for its callers; take away the / after it")


def _hints(function: Any, names: Mapping[str, object]) -> dict[str, Any]:
    """The annotations of these parameters, as types where they are texts. The others may name what is not there."""
    written = inspect.get_annotations(function)
    found: dict[str, Any] = {}
    for name in names:
        if name in written:
            one = types.SimpleNamespace(__annotations__={name: written[name]})
            try:
                scope = getattr(function, "__globals__", {})
                found |= typing.get_type_hints(one, globalns=scope, include_extras=True)
            except Exception as problem:  # an annotation is code, and may fail in any way
                raise UnsupportedType(f"the parameter {name!r} has a type that cannot be found: {problem}") from problem
    return found


def _inner(function: Any) -> Any:
    """What was wrapped, for its name and docstring."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return function


def _bound(function: Any) -> set[str]:
    """Arguments that a partial has set are hidden from the model: they may be secrets."""
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


# The schema, and arguments as the function takes them


class _Schema(GenerateJsonSchema):
    """pydantic's schema without titles, which only repeat names, and with a text in Annotated as the description."""

    ignored_warning_kinds: ClassVar[Any] = {"skipped-choice", "non-serializable-default"}

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        shown = super().generate(schema, mode)
        for one in (shown, *shown.get("$defs", {}).values()):
            one.pop("title", None)
        return shown

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - as pydantic calls it
        return False

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        shown, of = super().dataclass_schema(schema), schema["cls"]
        for one in dataclasses.fields(of):
            if not one.init:
                shown["properties"].pop(one.name, None)  # pydantic lists it, and refuses it as an argument
        about = of.__doc__ or ""
        if about and not about.startswith(f"{of.__name__}("):  # not one that was generated
            shown["description"] = inspect.cleandoc(about)  # before 2.13 pydantic leaves it out
        return _described(shown, of)

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        return _described(super().typed_dict_schema(schema), schema.get("cls", object))

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        shown = super().default_schema(schema)
        try:
            json.dumps(shown.get("default"), allow_nan=False)
        except ValueError:  # JSON has no such number
            del shown["default"]
        return shown


def _described(shown: JsonSchemaValue, of: type) -> JsonSchemaValue:
    if not hasattr(of, "__pydantic_config__"):
        shown["additionalProperties"] = False  # what is forbidden by our configuration; before 2.13 it was not said
    for name, hint in typing.get_type_hints(of, include_extras=True).items():
        if name in shown.get("properties", {}) and (about := _note(hint)):
            shown["properties"][name].setdefault("description", about)
    return shown


def _note(annotation: Any) -> str:
    """The first text of an Annotated."""
    return next((one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, str)), "")


class Parameters:
    """What the model may set. `schema` is for the model, `read` makes its arguments into what the function takes."""

    def __init__(self, parameters: Mapping[str, tuple[Any, Any]]) -> None:
        self._names = tuple(parameters)
        self._model = _model(parameters)
        self.schema = _json_schema(self._model, parameters)
        self._branches = _branches(self.schema)

    def read(self, arguments: object) -> dict[str, Any]:
        """Raises BadArguments."""
        try:
            return self._read(arguments)
        except InvalidArgument as problem:
            raise BadArguments(complaint(problem)) from None
        except RecursionError:
            raise BadArguments(complaint(InvalidArgument(TOO_DEEP))) from None

    def _read(self, arguments: object) -> dict[str, Any]:
        given: Any = dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else arguments
        while True:
            if self._branches > 1 and self._branches ** (_depth(given) - 1) > _MAX_UNION_TRIES:
                raise InvalidArgument(TOO_DEEP)
            try:
                found = self._model.model_validate(given)
            except ValidationError as problem:
                errors = problem.errors(include_url=False)
                if (meant := self._meant(given, errors)) is None:
                    raise clearest_problem([self._invalid(given, one) for one in errors]) from None
                given = meant
            except (ValueError, TypeError) as problem:  # a number with too many digits, the check of a dataclass
                raise InvalidArgument(unreadable(one_line(str(problem)))) from problem
            else:
                return {name: getattr(found, f"p{at}") for at, name in enumerate(self._names) if name in given}

    def _meant(self, given: Any, errors: Sequence[Any]) -> Any | None:
        """The arguments as they were probably meant: nulls for optional arguments are dropped, JSON inside a string is
        parsed, a whole number is one however it is written. None if there is nothing to correct."""
        changed: Any = None
        for one in errors:
            place, text = _place(given, one["loc"]), one["input"]
            null = text is None and bool(place) and self._members(place[:-1]).get(str(place[-1])) is False
            value = _from_text(text) if isinstance(text, str) and one["type"] in _CONTAINERS else None
            if one["type"] == "int_parsing_size" and isinstance(text, float) and text.is_integer():
                value = int(text)  # JSON makes no difference, and pydantic reads one so only up to 64 bits
            if not place or (not null and value is None):
                continue
            changed = copy.deepcopy(given) if changed is None else changed
            holder = functools.reduce(lambda inner, step: inner[step], place[:-1], changed)
            if null:
                holder.pop(place[-1], None)
            else:
                holder[place[-1]] = value
        return changed

    def _invalid(self, given: Any, error: Any) -> InvalidArgument:
        kind, steps = error["type"], error["loc"]
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            place = _place(given, steps)
            return InvalidArgument(place=place, fault="unknown", known=tuple(self._members(place[:-1])))
        if kind.startswith("missing"):
            return InvalidArgument(place=(*_place(given, steps[:-1]), steps[-1]), fault="missing")
        if kind.startswith("recursion"):
            return InvalidArgument(TOO_DEEP)
        return InvalidArgument(rule_for(kind, one_line(error["msg"], 500)), place=_place(given, steps))

    def _members(self, place: Sequence[str | int]) -> dict[str, bool]:
        """The members of the object at `place`, by name, and whether each is required."""
        here = self._choices(self.schema)
        for step in place:
            here = [inner for one in here for inner in self._choices(_inside(one, step))]
        return {name: name in one.get("required", ()) for one in here for name in one.get("properties", ())}

    def _choices(self, schema: Any) -> list[Any]:
        """What may be there: members of a union, and definitions for references to them."""
        if "$ref" in schema:
            return self._choices(self.schema["$defs"][schema["$ref"].removeprefix("#/$defs/")])
        return [one for member in schema["anyOf"] for one in self._choices(member)] if "anyOf" in schema else [schema]


_CONTAINERS = {
    "list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type", "dict_type", "mapping_type",
    "model_type", "model_attributes_type", "dataclass_type",
}  # fmt: skip


def _model(parameters: Mapping[str, tuple[Any, Any]]) -> type[BaseModel]:
    """The parameters as a model. Its fields are numbered: names of parameters may be those of the model's methods."""
    fields: dict[str, Any] = {}
    for at, (name, (annotation, default)) in enumerate(parameters.items()):
        about: dict[str, Any] = {"description": note} if (note := _note(annotation)) else {}
        fields[f"p{at}"] = annotation, Field(default, alias=name, **about)
    try:
        model = create_model("Arguments", __config__=_CONFIG, **fields)
        model.model_rebuild()  # raises where a type names one that is not there
    except _CANNOT as problem:
        raise _refusal(parameters, problem) from problem
    return model


def _json_schema(model: type[BaseModel], parameters: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    try:
        return model.model_json_schema(schema_generator=_Schema)
    except _CANNOT as problem:
        raise _refusal(parameters, problem) from problem


def _refusal(parameters: Mapping[str, tuple[Any, Any]], problem: Exception) -> UnsupportedType:
    """By the name of the parameter: with several of them, each is tried alone."""
    if len(parameters) > 1:
        for name, one in parameters.items():
            Parameters({name: one})
    (name,) = parameters
    why = str(problem).splitlines()[0].partition(". Set `")[0].rstrip(".")
    if isinstance(problem, PydanticUndefinedAnnotation):
        return UnsupportedType(f"the parameter {name!r} has a type that cannot be found: {why}")
    return UnsupportedType(f"the parameter {name!r} cannot come from JSON: {why}")


def _place(given: Any, steps: Sequence[str | int]) -> tuple[str | int, ...]:
    """Where in the arguments an error is. pydantic's steps name members of unions too, which are no place."""
    place: list[str | int] = []
    for step in steps:
        entry = isinstance(step, int) and isinstance(given, list) and step < len(cast("list[Any]", given))
        if entry or (isinstance(given, dict) and step in given):
            given = cast("Any", given)[step]
            place.append(step)
    return tuple(place)


def _inside(schema: Any, step: str | int) -> Any:
    """The schema of a member or an entry; {} where none is said."""
    if isinstance(step, str):
        inner = schema.get("properties", {}).get(step, schema.get("additionalProperties"))
    else:
        inner = dict(enumerate(cast("list[Any]", schema.get("prefixItems", [])))).get(step, schema.get("items"))
    return cast("Any", inner) if isinstance(inner, dict) else {}


def _from_text(text: str) -> Any | None:
    """Models sometimes write an object as a string."""
    try:
        return json.loads(text) if text.lstrip().startswith(("{", "[")) else None
    except ValueError:
        return None


def _branches(schema: Mapping[str, Any]) -> int:
    """The number of objects that a recursive type may have at one place."""
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    reached = {name: set[str](_REFERENCE.findall(json.dumps(one))) for name, one in definitions.items()}
    for _ in definitions:
        reached = {name: names.union(*(reached[one] for one in names)) for name, names in reached.items()}
    found, rest = 0, [one for name, one in definitions.items() if name in reached[name]]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            found = max(found, sum("$ref" in choice for choice in cast("dict[str, Any]", one).get("anyOf", ())))
        rest += _held(one)
    return found


def _depth(given: Any) -> int:
    """How deep objects are inside of objects."""
    deepest, rest = 0, [(given, 0)]
    while rest:
        one, depth = rest.pop()
        depth += isinstance(one, dict)
        deepest = max(deepest, depth)
        rest += [(inner, depth) for inner in _held(one)]
    return deepest


def _held(value: Any) -> list[Any]:
    """What an object or a list holds."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def _call(function: Callable[..., Any], parameters: Parameters, name: str) -> Callable[..., Any]:
    """Of the same kind as the function (async or not, with or without a writer), which tells the bag how to call it."""
    waits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    writes = WRITER in inspect.signature(function).parameters and WRITER not in _bound(function)

    async def awaited(**given: Any) -> Any:
        return await function(**parameters.read(given))

    async def awaited_with_writer(*, writer: Any, **given: Any) -> Any:
        return await function(**parameters.read(given), writer=writer)

    def plain(**given: Any) -> Any:
        return function(**parameters.read(given))

    def plain_with_writer(*, writer: Any, **given: Any) -> Any:
        return function(**parameters.read(given), writer=writer)

    call: Any = (awaited_with_writer if writes else awaited) if waits else (plain_with_writer if writes else plain)
    call.__name__ = name
    return call


# By name. A module beside the agent's file is found after everything that is installed, so that it can hide nothing.


def load_function_tool(spec: str, *, folder: str = "", modules: Mapping[str, Module] | None = None) -> FunctionTool:
    """The tool that an agent's file names as `module:name`; `folder` is that of the file."""
    found = load_function(spec, folder=folder, modules=modules)
    try:
        return function_tool(found)
    except UsageError as problem:
        raise UsageError(f"{spec}: {problem}") from problem


def load_function(spec: str, *, folder: str = "", modules: Mapping[str, Module] | None = None) -> Any:
    """What is under that name, where Python looks or in `folder`.

    Of the folder, the modules that `spec` names and that those import are found; `modules` are they, with the content
    that the user has agreed to.
    """
    if not is_function_name(spec):
        raise UsageError(f"{one_line(spec)!r} is not the name of a function; write module:name, as in my_tools:search.")
    module_name, _, name = spec.partition(":")
    if modules is None and folder:
        modules = named_modules(spec, [folder])
    if modules:
        try:
            agreed_modules.add(modules)
        except UsageError as problem:
            raise UsageError(f"{spec}: {problem}") from problem
    found: Any = _module(module_name, spec, folder)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(f"{spec}: there is no {part!r} in {one_line(_name_of(found))}.{hint}") from None
    return found


def _module(name: str, spec: str, folder: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (name == problem.name or name.startswith(f"{problem.name}.")):
            looked = f", nor in {one_line(folder)}" if folder else ""
            raise UsageError(f"{spec}: there is no module {problem.name!r} where Python looks{looked}.") from None
        raise _failed(spec, name, problem) from problem
    except (Exception, SystemExit) as problem:  # the module's own code ran, and may do anything
        raise _failed(spec, name, problem) from problem


def _failed(spec: str, module: str, problem: BaseException) -> UsageError:
    return UsageError(f"{spec}: importing {module} failed: {type(problem).__name__}: {one_line(str(problem))}")


def _name_of(holder: object) -> str:
    name = getattr(holder, "__name__", None) or type(holder).__name__
    return str(name)
