"""What the value of a parameter must be where it is made of others: lists, tables, records, unions.

A shape has `schema`, its JSON schema, and `read`, which makes what a model wrote into the Python value: exactly as the
schema says, or also what was surely meant, "5" for 5, an object written as a text. It never guesses between two
meanings: of a union the first member that takes the value exactly wins.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from holdall.agent.functions_scalars import Reading
from holdall.text.escape import one_line
from holdall.wire import arguments
from holdall.wire.arguments import Misfit

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
