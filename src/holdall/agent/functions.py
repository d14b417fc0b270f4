"""Python functions as tools: the name, the docstring and the signature are all that a model needs to know of one.

    def search(query: Annotated[str, "what to look for"], limit: int = 10) -> list[str]:
        \"\"\"Finds pages.\"\"\"

    tool = function_tool(search)
    tool.spec                                                      # for the model
    await bag.run(tool.call, tool=tool.name, arguments={"query": "x"})   # as the model wrote them

A parameter `writer` is not the model's: the bag hands it in, for what the function writes on its way. Arguments are
checked and made into the annotated types when `call` is called, so what stands for a kept output is already replaced.
"""

import dataclasses
import difflib
import enum
import functools
import importlib
import inspect
import json
import os
import re
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal, Protocol, cast

from holdall.text.escape import one_line
from holdall.values.errors import WrongUse
from holdall.wire import arguments
from holdall.wire import arguments as misfits
from holdall.wire.arguments import Misfit, complaint
from holdall.wire.tool import ToolSpec

# Functions by name, `module:name`, as agents' files write them. Importing a module runs it: only what the user named.
#
# A module beside the agent's file is found too, after everything that is installed, so that it can hide nothing.


def is_spec(value: object) -> bool:
    """Whether it is `module:name`, both of which may have dots."""
    if not isinstance(value, str) or len(value) > 500:
        return False
    module, colon, name = value.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def load_function(spec: str, *, folder: str = "") -> Any:
    """What stands under that name. `folder` is looked in last, and stays on the path of modules for what it imports."""
    if not is_spec(spec):
        raise WrongUse(f"{one_line(spec)!r} is not the name of a function; write module:name, as in my_tools:search.")
    module_name, _, name = spec.partition(":")
    found: Any = _module(module_name, spec, folder)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise WrongUse(f"{spec}: there is no {part!r} in {one_line(_name_of(found))}.{hint}") from None
    return found


def _module(name: str, spec: str, folder: str) -> ModuleType:
    if folder and folder not in sys.path:
        sys.path.append(folder)
        importlib.invalidate_caches()
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (name == problem.name or name.startswith(f"{problem.name}.")):
            looked = f", nor in {one_line(folder)}" if folder else ""
            raise WrongUse(f"{spec}: there is no module {problem.name!r} where Python looks{looked}.") from None
        raise _failed(spec, name, problem) from problem
    except (Exception, SystemExit) as problem:  # the module's own code ran, and may do anything
        raise _failed(spec, name, problem) from problem
    if folder:
        _refuse_a_namesake(name.partition(".")[0], spec, folder)
    return found


def _refuse_a_namesake(top: str, spec: str, folder: str) -> None:
    """Two modules cannot have one name in one process; the other one would be taken for that of this folder."""
    loaded = getattr(sys.modules.get(top), "__file__", None)
    for path in (os.path.join(folder, f"{top}.py"), os.path.join(folder, top, "__init__.py")):
        if os.path.isfile(path) and not (loaded and os.path.exists(loaded) and os.path.samefile(path, loaded)):
            taken = f"{one_line(loaded)} has" if loaded else "a module of Python's own has"
            raise WrongUse(f"{spec}: {taken} the name of {one_line(path)}, and only one of them can. Rename the file.")


def _failed(spec: str, module: str, problem: BaseException) -> WrongUse:
    return WrongUse(f"{spec}: importing {module} failed: {type(problem).__name__}: {one_line(str(problem))}")


def _name_of(holder: object) -> str:
    name = getattr(holder, "__name__", None) or type(holder).__name__
    return str(name)


# The simplest shapes of parameters: one value, anything, one of a few. `functions_shapes` has the others.


_DIGITS = re.compile(r"[-+]?[0-9]{1,100}", re.ASCII)
_FRACTION = re.compile(r"[-+]?(?:[0-9]{1,100}(?:\.[0-9]{0,100})?|\.[0-9]{1,100})(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)

_LARGEST_SHOWN = 1e100


@dataclass(frozen=True, slots=True)
class Reading:
    """How the arguments of one call are read: exactly as their schema says, or also as they were surely meant.

    `known` has what unions made of lists and tables, by union, value and way. Without it a union inside of a union that
    holds itself would be read in every combination of their members.
    """

    exact: bool
    known: dict[tuple[int, int, bool], Any] = field(default_factory=dict[tuple[int, int, bool], Any])

    def exactly(self) -> "Reading":
        return Reading(True, self.known)


@dataclass(frozen=True, slots=True)
class Scalar:
    kind: Literal["string", "integer", "number", "boolean", "null"]

    def schema(self) -> dict[str, Any]:
        return {"type": self.kind}

    def read(self, value: Any, how: Reading) -> Any:
        given = value if how.exact else _surely(self.kind, value)
        match self.kind:
            case "string" if isinstance(given, str):
                return given
            case "boolean" if isinstance(given, bool):
                return given
            case "null" if given is None:
                return None
            case "integer" if _is_number(given) and (isinstance(given, int) or given.is_integer()):
                return int(given)
            case "number" if _is_number(given) and abs(given) <= sys.float_info.max:
                return float(given)
            case kind:
                raise Misfit(_RULES[kind])


_RULES = {
    "string": arguments.A_TEXT,
    "integer": arguments.AN_INTEGER,
    "number": arguments.A_NUMBER,
    "boolean": arguments.A_SWITCH,
    "null": arguments.NULL,
}


def _surely(kind: str, value: Any) -> Any:
    if kind == "string" and _is_number(value) and abs(value) < _LARGEST_SHOWN:  # NaN is in no order
        return str(value)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), value)
    if kind == "integer" and _DIGITS.fullmatch(text):
        return int(text)
    return float(text) if kind in ("integer", "number") and _FRACTION.fullmatch(text) else value


@dataclass(frozen=True, slots=True)
class Anything:
    def schema(self) -> dict[str, Any]:
        return {}

    def read(self, value: Any, how: Reading) -> Any:  # noqa: ARG002 - there is nothing that it would not take
        return value


@dataclass(frozen=True, slots=True)
class OneOf:
    """Literals and enumerations: what stands in JSON, and what it stands for."""

    choices: tuple[tuple[Any, Any], ...]

    def schema(self) -> dict[str, Any]:
        written = [one for one, _ in self.choices]
        kinds = list(dict.fromkeys(_KINDS[type(one)] for one in written))
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": written}

    def read(self, value: Any, how: Reading) -> Any:
        for written, meant in self.choices:
            if type(written) is type(value) and written == value:
                return meant
        for written, meant in () if how.exact else self.choices:
            if (_is_number(written) and _is_number(value) and written == value) or _shown(written) == value:
                return meant
        raise Misfit(arguments.one_of([_shown(written) for written, _ in self.choices]))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(written: object) -> str:
    return written if isinstance(written, str) else json.dumps(written)


_KINDS: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
}  # fmt: skip


# What the value of a parameter must be where it is made of others: lists, tables, records, unions.
#
# A shape has `schema`, its JSON schema, and `read`, which makes what a model wrote into the Python value: exactly as
# the schema says, or also what was surely meant, "5" for 5, an object written as a text. It never guesses between two
# meanings: of a union the first member that takes the value exactly wins.


Schema = dict[str, Any]


class Shape(Protocol):
    def schema(self) -> Schema: ...

    def read(self, value: Any, how: Reading) -> Any:
        """The Python value. Raises Misfit."""
        ...


@dataclass(frozen=True, slots=True)
class Items:
    """A list of any length, or of `number` entries, made into what the annotation wants by `build`."""

    entries: tuple[Shape, ...]  # one for all, or one for each
    build: Callable[[list[Any]], Any] = list
    number: int | None = None

    def schema(self) -> Schema:
        kinds: list[Schema] = []
        for one in self.entries:
            if (kind := one.schema()) not in kinds:
                kinds.append(kind)
        shown: Schema = {"type": "array"}
        if kinds and {} not in kinds:
            shown["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        return shown if self.number is None else shown | {"minItems": self.number, "maxItems": self.number}

    def read(self, value: Any, how: Reading) -> Any:
        given = value if how.exact else _from_text(value)
        if not isinstance(given, list | tuple):
            raise Misfit(arguments.AN_ARRAY)
        values = cast("Sequence[Any]", given)
        if self.number is not None and len(values) != self.number:
            raise Misfit(arguments.entries(self.number))
        shapes = self.entries if self.number is not None else self.entries * len(values)
        return self.build(
            [_read(shape, one, at, how) for at, (shape, one) in enumerate(zip(shapes, values, strict=True))]
        )


@dataclass(frozen=True, slots=True)
class Table:
    """An object with any names, all of whose values have one shape."""

    values: Shape

    def schema(self) -> Schema:
        kind = self.values.schema()
        return {"type": "object", "additionalProperties": kind} if kind else {"type": "object"}

    def read(self, value: Any, how: Reading) -> Any:
        table = _table(value, how)
        return {name: _read(self.values, one, name, how) for name, one in table.items()}


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    shape: Shape
    required: bool = True
    about: str = ""
    default: Any = ...  # for the schema; the function's own is used where it is left out


@dataclass(frozen=True, slots=True)
class Record:
    """An object with these members and no others: a dataclass, a TypedDict, or the arguments of a call."""

    members: tuple[Member, ...]
    build: Callable[..., Any] = dict
    about: str = ""

    def schema(self) -> Schema:
        shown: Schema = {"type": "object", "properties": {one.name: _described(one) for one in self.members}}
        if required := [one.name for one in self.members if one.required]:
            shown["required"] = required
        return shown | {"additionalProperties": False} | ({"description": self.about} if self.about else {})

    def read(self, value: Any, how: Reading) -> Any:
        table = _table(value, how)
        known = {one.name for one in self.members}
        if unknown := next((name for name in table if name not in known), None):
            raise Misfit(place=(unknown,), fault="unknown", known=tuple(one.name for one in self.members))
        found: dict[str, Any] = {}
        for one in self.members:
            if one.name in table and not (table[one.name] is None and not one.required and not _takes_null(one.shape)):
                found[one.name] = _read(one.shape, table[one.name], one.name, how)
            elif one.required:
                raise Misfit(place=(one.name,), fault="missing")
        try:
            return self.build(**found)
        except (ValueError, TypeError) as problem:  # the checks of a dataclass in its __post_init__
            raise Misfit(arguments.not_right(one_line(str(problem)))) from problem


@dataclass(frozen=True, slots=True)
class Choice:
    """A union."""

    members: tuple[Shape, ...]

    def schema(self) -> Schema:
        kinds: list[Schema] = []
        for one in self.members:
            if (kind := one.schema()) not in kinds:
                kinds.append(kind)
        if all(list(kind) == ["type"] and isinstance(kind["type"], str) for kind in kinds):
            return {"type": [kind["type"] for kind in kinds]} if len(kinds) > 1 else kinds[0]
        return {} if {} in kinds else {"anyOf": kinds}

    def read(self, value: Any, how: Reading) -> Any:
        if not isinstance(value, list | tuple | Mapping):
            return self._read(value, how)
        key = (id(self), id(cast("object", value)), how.exact)
        if key not in how.known:  # the value is kept with it: an id is only good for as long as there is the object
            try:
                how.known[key] = (value, self._read(value, how), None)
            except Misfit as fault:
                how.known[key] = (value, None, fault)
        _, found, fault = how.known[key]
        if fault is not None:
            raise fault.inside()
        return found

    def _read(self, value: Any, how: Reading) -> Any:
        faults: list[Misfit] = []
        for way in (how,) if how.exact else (how.exactly(), how):
            for one in self.members:
                try:
                    return one.read(value, way)
                except Misfit as fault:
                    faults.append(fault)
        deepest = max(faults, key=lambda fault: len(fault.place) + (fault.fault != "must"))
        if deepest.place:  # it was nearly that member
            raise deepest
        raise Misfit(arguments.one_of_these(fault.rule for fault in faults))


@dataclass(eq=False, slots=True)
class Named:
    """A record that holds itself: it stands under its name in the definitions of the schema."""

    name: str
    record: list[Record] = field(default_factory=list[Record])
    used: bool = False

    def schema(self) -> Schema:
        return {"$ref": f"#/$defs/{self.name}"}

    def read(self, value: Any, how: Reading) -> Any:
        return self.record[0].read(value, how)


def _read(shape: Shape, value: Any, step: str | int, how: Reading) -> Any:
    try:
        return shape.read(value, how)
    except Misfit as fault:
        raise fault.inside(step) from None


def _table(value: Any, how: Reading) -> Mapping[str, Any]:
    given = value if how.exact else _from_text(value)
    if not isinstance(given, Mapping):
        raise Misfit(arguments.AN_OBJECT)
    return {str(name): one for name, one in cast("Mapping[Any, Any]", given).items()}


def _from_text(value: Any) -> Any:
    """Models write an object inside a text now and then."""
    if not isinstance(value, str) or not value.strip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _takes_null(shape: Shape) -> bool:
    try:
        shape.read(None, Reading(exact=True))
    except Misfit:
        return False
    return True


def _described(member: Member) -> Schema:
    shown = member.shape.schema()
    if member.about:
        shown = shown | {"description": member.about}
    return shown if member.default is ... else shown | {"default": member.default}


# Annotations of parameters as shapes. What has no place in JSON is refused, by the name of the parameter.
#
# `Annotated[T, "text"]` gives a parameter, or a member of a record, its description. Only the standard library's types
# are known: no model class of any framework is looked into.


_SCALARS: dict[Any, Scalar] = {
    str: Scalar("string"), int: Scalar("integer"), float: Scalar("number"), bool: Scalar("boolean"),
    type(None): Scalar("null"), None: Scalar("null"),
}  # fmt: skip
_LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_SETS = {set: set, abc.Set: set, abc.MutableSet: set, frozenset: frozenset}
_TABLES = (dict, abc.Mapping, abc.MutableMapping)
_KNOWN = (
    "str, int, float, bool, None, Any, Literal, Enum, list, tuple, set, dict with text as keys, unions of these, "
    "TypedDict and dataclasses"
)
_WRAPPERS = {typing.Required, typing.NotRequired, getattr(typing, "ReadOnly", typing.Required)}


class Unfit(ValueError):
    """An annotation that cannot come from JSON; the text says which and why."""


class Shapes:
    """The shapes of one signature. `definitions` has the records that hold themselves."""

    def __init__(self) -> None:
        self.definitions: dict[str, Named] = {}
        self._begun: dict[type, Named] = {}
        self._done: dict[type, Shape] = {}

    def of(self, annotation: Any) -> Shape:
        """Raises Unfit."""
        plain = _unwrapped(annotation)[0]
        if plain is inspect.Parameter.empty:
            raise Unfit("has no type")
        if isinstance(plain, abc.Hashable) and plain in _SCALARS:
            return _SCALARS[plain]
        if plain in (Any, object):
            return Anything()
        origin, given = typing.get_origin(plain), typing.get_args(plain)
        if origin is typing.Literal:
            return _one_of(plain, [(_written(one), one) for one in given])
        if origin in (typing.Union, types.UnionType):
            return Choice(tuple(self.of(one) for one in given))
        if (shape := self._gathered(origin or plain, given)) is not None:
            return shape
        if isinstance(plain, type):
            return self._class(plain)
        raise Unfit(f"has the type {_named(plain)}, which cannot come from JSON. Known are {_KNOWN}")

    def _gathered(self, origin: Any, given: tuple[Any, ...]) -> Shape | None:
        """Lists, tuples, sets and dictionaries."""
        if origin in _LISTS:
            return Items((self.of(given[0]) if given else Anything(),))
        if origin is tuple:
            if not given or given[-1] is ...:
                return Items((self.of(given[0]) if given else Anything(),), tuple)
            return Items(tuple(self.of(one) for one in given), tuple, len(given))
        if origin in _SETS:
            entries = self.of(given[0]) if given else Anything()
            if not _can_be_hashed(entries):
                raise Unfit("is a set of what a set cannot hold; use a list")
            return Items((entries,), _SETS[origin])
        if origin in _TABLES:
            if given and _unwrapped(given[0])[0] is not str:
                raise Unfit(f"is a table with {_named(given[0])} as keys; JSON has only text there")
            return Table(self.of(given[1]) if given else Anything())
        return None

    def _class(self, plain: Any) -> Shape:
        if issubclass(plain, enum.Enum):
            members = list(plain)
            values = [one.value for one in members]
            by_value = all(type(value) in (str, int, float, bool) for value in values)
            return _one_of(plain, [(one.value if by_value else one.name, one) for one in members])
        is_dataclass = hasattr(plain, "__dataclass_fields__")
        if not is_dataclass and not typing.is_typeddict(plain):
            raise Unfit(f"has the type {_named(plain)}, which cannot come from JSON. Known are {_KNOWN}")
        if plain in self._done:
            return self._done[plain]
        if plain in self._begun:  # it holds itself
            self._begun[plain].used = True
            return self._begun[plain]
        named = self._begun[plain] = Named(self._free_name(plain.__name__))
        self.definitions[named.name] = named
        record = self._dataclass(plain) if is_dataclass else self._typed_dict(plain)
        named.record.append(record)
        if not named.used:
            del self.definitions[named.name]
        self._done[plain] = named if named.used else record
        return self._done[plain]

    def _dataclass(self, plain: Any) -> Record:
        hints = _hints_of_class(plain)
        fields = {one.name: one for one in dataclasses.fields(plain) if one.init}
        members: list[Member] = []
        for name, parameter in inspect.signature(plain).parameters.items():
            if name not in fields:
                raise Unfit(f"is a {plain.__name__}, whose {name!r} is no field")
            made = fields[name].default_factory
            required = parameter.default is inspect.Parameter.empty and made is dataclasses.MISSING
            members.append(self._inside(plain, name, hints[name], required=required, default=fields[name].default))
        return Record(tuple(members), plain, _own_docstring(plain))

    def _typed_dict(self, plain: Any) -> Record:
        members: list[Member] = []
        for name, hint in _hints_of_class(plain).items():
            origin = typing.get_origin(hint)
            named = origin is not typing.NotRequired and name in plain.__required_keys__
            members.append(self._inside(plain, name, hint, required=origin is typing.Required or named))
        return Record(tuple(members), about=_own_docstring(plain))

    def _inside(self, of: Any, name: str, hint: Any, **rest: Any) -> Member:
        try:
            return self.member(name, hint, **rest)
        except Unfit as problem:
            raise Unfit(f"is a {of.__name__}, whose {problem}") from None

    def member(self, name: str, annotation: Any, *, required: bool, default: Any = dataclasses.MISSING) -> Member:
        """A parameter, or a member of a record. Raises Unfit, with the way to it."""
        try:
            shape = self.of(annotation)
        except Unfit as problem:
            raise Unfit(f"{name!r} {problem}") from None
        about = _unwrapped(annotation)[1]
        return Member(name, shape, required, about, _json_default(shape, default))

    def _free_name(self, name: str) -> str:
        number, free = 1, name
        while free in self.definitions:
            number += 1
            free = f"{name}{number}"
        return free


def _unwrapped(annotation: Any) -> tuple[Any, str]:
    """Without Annotated, NewType, aliases and the marks of TypedDict; and the first text of an Annotated."""
    about = ""
    while True:
        if typing.get_origin(annotation) is typing.Annotated:
            annotation, *notes = typing.get_args(annotation)
            about = about or next((note for note in notes if isinstance(note, str)), "")
        elif typing.get_origin(annotation) in _WRAPPERS:
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":  # `type X = ...`, from Python 3.12 on
            annotation = annotation.__value__
        else:
            return annotation, about


def _one_of(annotation: Any, choices: list[tuple[Any, Any]]) -> OneOf:
    if not choices or not all(type(one) in (str, int, float, bool, type(None)) for one, _ in choices):
        raise Unfit(f"has the type {_named(annotation)}, whose values cannot come from JSON")
    return OneOf(tuple(choices))


def _written(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def _can_be_hashed(shape: Shape) -> bool:
    if isinstance(shape, Items):
        return shape.build in (tuple, frozenset) and all(map(_can_be_hashed, shape.entries))
    if isinstance(shape, Record):
        return shape.build is not dict and getattr(shape.build, "__hash__", None) is not None
    if isinstance(shape, Choice):
        return all(map(_can_be_hashed, shape.members))
    return not isinstance(shape, Table | Named | Anything)


def hints_of(function: Any, names: abc.Iterable[str]) -> dict[str, Any]:
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
                raise Unfit(f"{name!r} has a type that cannot be found: {problem}") from problem
    return found


def _hints_of_class(plain: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(plain, include_extras=True)
    except Exception as problem:
        raise Unfit(f"is a {plain.__name__}, a type of which cannot be found: {problem}") from problem


def _own_docstring(plain: Any) -> str:
    """Not what a class has from `dict`, nor what a dataclass writes of itself."""
    written: str = plain.__dict__.get("__doc__") or ""
    return "" if written.startswith(f"{plain.__name__}(") else inspect.cleandoc(written)


def _json_default(shape: Shape, default: Any) -> Any:
    """The default for the schema; `...` where there is none, or none that JSON can say."""
    if default is dataclasses.MISSING:
        return ...
    try:
        written = json.loads(json.dumps(_written(default), allow_nan=False))
        return written if shape.read(written, Reading(exact=True)) == default else ...
    except Exception:  # a value of the program's own: whatever it does when it is compared
        return ...


def _named(annotation: Any) -> str:
    return getattr(annotation, "__qualname__", None) or str(annotation).replace("typing.", "")


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
        return _read_arguments(self.parameters, arguments)


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
        return await function(**_read_arguments(parameters, given))

    async def awaited_writing(*, writer: Any, **given: Any) -> Any:
        return await function(**_read_arguments(parameters, given), writer=writer)

    def plain(**given: Any) -> Any:
        return function(**_read_arguments(parameters, given))

    def plain_writing(*, writer: Any, **given: Any) -> Any:
        return function(**_read_arguments(parameters, given), writer=writer)

    call: Any = (awaited_writing if writes else awaited) if waits else (plain_writing if writes else plain)
    call.__name__ = name
    return call


def _read_arguments(parameters: Record, arguments: object) -> dict[str, Any]:
    try:
        return parameters.read(arguments, Reading(exact=False))
    except Misfit as fault:
        raise BadArguments(complaint(fault)) from None
    except RecursionError:
        raise BadArguments(complaint(Misfit(misfits.TOO_DEEP))) from None
