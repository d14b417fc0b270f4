"""Annotations of parameters as shapes. What has no place in JSON is refused, by the name of the parameter.

`Annotated[T, "text"]` gives a parameter, or a member of a record, its description. Only the standard library's types
are known: no model class of any framework is looked into.
"""

import dataclasses
import enum
import inspect
import json
import types
import typing
from collections import abc
from typing import Any

from holdall.agent.functions_scalars import Anything, OneOf, Reading, Scalar
from holdall.agent.functions_shapes import Choice, Items, Member, Named, Record, Shape, Table

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
