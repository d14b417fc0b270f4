"""Data classes that cost little to define: `@record` in place of `@dataclass(frozen=True, slots=True)`.

`dataclasses` writes and compiles six methods for each class when it is defined, 0.8 ms a class: that was most of what
importing Holdall cost. Here a class gets its slots at once, its `__init__` is compiled when the first object is made,
and the other methods are shared. It works like a dataclass: `fields`, `replace`, `asdict`, `match`, pickling,
`field(...)`, `__post_init__` and inheritance work. This module never looks at what the annotations mean.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, NamedTuple, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")
_MARK = "__record__"


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, frozen: bool = True, eq: bool = True, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, *, frozen: bool = True, eq: bool = True, kw_only: bool = False) -> Any:
    """A data class with slots; frozen unless it is told otherwise."""
    if cls is None:
        return partial(record_of, frozen=frozen, eq=eq, kw_only=kw_only)
    return record_of(cls, frozen=frozen, eq=eq, kw_only=kw_only)


def record_of(cls: Any, *, frozen: bool, eq: bool, kw_only: bool) -> Any:
    body: dict[str, Any] = {
        name: value for name, value in _vars(cls).items() if name not in ("__dict__", "__weakref__")
    }
    own = tuple(_own_annotations(cls))
    given = {name: body.pop(name) for name in own if name in body}
    above = [base for base in cls.__mro__[1:] if _MARK in _vars(base)]
    body["__slots__"] = tuple(name for name in own if not any(name in base.__slots__ for base in above))
    body[_MARK] = _Declared(given, frozen=frozen, kw_only=kw_only)
    body["__dataclass_fields__"] = _Lazy("__dataclass_fields__", _fields_of)
    body.setdefault("__match_args__", _Lazy("__match_args__", _match_args_of))
    body["__signature__"] = _Lazy("__signature__", _signature_of)
    home: list[Any] = []
    body["__init__"] = _init_on_first_use(home)
    body.setdefault("__repr__", _repr)
    if eq:
        body.setdefault("__eq__", _eq)
        body["__hash__"] = body.get("__hash__") or (_hash if frozen else None)
    if frozen:
        body |= {"__setattr__": _no_set, "__delattr__": _no_delete}
    body.setdefault("__getstate__", _state)
    body.setdefault("__setstate__", _restore)
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    home.append(made)
    return made


def _vars(cls: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", vars(cls))


class _Declared:
    """What a class was declared with, and what is made of it on first use."""

    __slots__ = ("compared", "frozen", "given", "hashed", "kw_only")

    def __init__(self, given: dict[str, Any], *, frozen: bool, kw_only: bool) -> None:
        self.given, self.frozen, self.kw_only = given, frozen, kw_only
        self.compared: Callable[[Any], Any] | None = None
        self.hashed: Callable[[Any], Any] | None = None


class _Lazy:
    """An attribute of the class that is computed when it is first asked for."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[Any], Any]) -> None:
        self.name, self.make = name, make

    def __get__(self, instance: object, owner: Any) -> Any:
        home = next((cls for cls in owner.__mro__ if _vars(cls).get(self.name) is self), None)
        if home is None:  # another thread was first
            return getattr(owner, self.name)
        value = self.make(home)
        setattr(home, self.name, value)
        return value


class _Unset:
    """Stands for "call the factory" in a signature, shown as `dataclasses` shows it."""

    def __repr__(self) -> str:
        return "<factory>"


_UNSET = _Unset()


def _own_annotations(cls: Any) -> dict[str, Any]:
    """Those of the class itself; from Python 3.14 on they are computed on demand, and names may not exist yet."""
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415 - new in 3.14

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return cast("dict[str, Any]", _vars(cls).get("__annotations__", {}))


def _fields_of(cls: Any) -> "dict[str, Field[Any]]":
    """By `dataclasses` itself, on a class that has nothing but the fields: without methods it compiles nothing."""
    found: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        if _MARK in _vars(base):
            found.update(base.__dataclass_fields__)
    own: _Declared = _vars(cls)[_MARK]
    body = {"__annotations__": dict(_own_annotations(cls)), "__doc__": "-", "__module__": cls.__module__, **own.given}
    shadow: Any = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=own.kw_only)(
        type(cls.__name__, (), body)
    )
    return found | shadow.__dataclass_fields__


def _match_args_of(cls: Any) -> tuple[str, ...]:
    return tuple(one.name for one in dataclasses.fields(cls) if one.init and not one.kw_only)


def _signature_of(cls: Any) -> Any:
    """For `inspect`, help and documentation: the class has no `__init__` of its own before its first object."""
    import inspect  # noqa: PLC0415 - nobody asks for this in the course of work

    whole = inspect.signature(_init_of(cls))
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def _init_on_first_use(home: list[Any]) -> Callable[..., None]:
    """Compiled for the third object: many classes have one or two, and those cost less field by field.

    Safe where threads make the first objects: what they compile is the same, and the last one stays.
    """
    left = 2

    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        nonlocal left
        if left:
            left -= 1
            if _set_fields(home[0], self, args, kwargs):
                return
        compiled = home[0].__init__ = _init_of(home[0])
        compiled(self, *args, **kwargs)

    return __init__


def _set_fields(cls: Any, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """What the compiled `__init__` does. False, and nothing done, where the arguments do not fit: that one says why."""
    declared = _declared_fields(cls)
    positional = [one.name for one in declared if one.init and not one.kw_only]
    if len(args) > len(positional):
        return False
    given = dict(zip(positional, args, strict=False))
    if not kwargs.keys().isdisjoint(given) or not kwargs.keys() <= {one.name for one in declared if one.init}:
        return False
    given.update(kwargs)
    if any(one.name not in given and one.default is one.default_factory for one in declared if one.init):
        return False  # both are MISSING
    for one in declared:
        if one.name in given:
            object.__setattr__(self, one.name, given[one.name])
        elif one.default is not MISSING:
            object.__setattr__(self, one.name, one.default)
        elif one.default_factory is not MISSING:
            object.__setattr__(self, one.name, one.default_factory())
    if hasattr(cls, "__post_init__"):
        self.__post_init__()
    return True


class _Field(NamedTuple):
    name: str
    type: Any
    default: Any
    default_factory: Any
    init: bool
    kw_only: bool


def _declared_fields(cls: Any) -> list[_Field]:
    """What `dataclasses.fields` would tell, for a fifth of the time. Records have no `ClassVar` and no `InitVar`."""
    found: dict[str, _Field] = {}
    for base in cls.__mro__[::-1]:
        own: _Declared | None = _vars(base).get(_MARK)
        for name, kind in _own_annotations(base).items() if own is not None else ():
            given: Any = own.given.get(name, MISSING) if own is not None else MISSING
            kw_only = own is not None and own.kw_only
            if isinstance(given, Field):
                known = cast("Field[Any]", given)
                only = kw_only if known.kw_only is MISSING else known.kw_only
                found[name] = _Field(name, kind, known.default, known.default_factory, known.init, only)
            else:
                found[name] = _Field(name, kind, given, MISSING, True, kw_only)
    return list(found.values())


def _init_of(cls: Any) -> Callable[..., None]:
    """As `dataclasses` would write it."""
    scope: dict[str, Any] = {"UNSET": _UNSET}
    frozen: bool = _vars(cls)[_MARK].frozen
    positional: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    declared = _declared_fields(cls)
    for one in declared:
        value = one.name
        if one.default is not MISSING:
            scope[f"default_{one.name}"] = one.default
            parameter, made = f"{one.name}=default_{one.name}", f"default_{one.name}"
        elif one.default_factory is not MISSING:
            scope[f"make_{one.name}"] = one.default_factory
            parameter, made = f"{one.name}=UNSET", f"make_{one.name}()"
            value = f"{made} if {one.name} is UNSET else {one.name}"
        else:
            parameter, made = one.name, ""
        if one.init:
            (named if one.kw_only else positional).append(parameter)
        elif made:
            value = made
        else:
            continue
        # Past the `__setattr__` that refuses: by the slot itself, in half the time of `object.__setattr__`.
        scope[f"set_{one.name}"] = getattr(cls, one.name).__set__
        lines.append(f" set_{one.name}(self,{value})" if frozen else f" self.{one.name}={value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    parameters = ",".join(["self", *positional, *(["*", *named] if named else [])])
    # Made of names of fields alone, which Python itself has read as names; values are in `scope`.
    exec(f"def __init__({parameters}):\n" + ("\n".join(lines) or " pass"), scope)  # noqa: S102
    made_init = scope["__init__"]
    made_init.__qualname__ = f"{cls.__qualname__}.__init__"
    made_init.__annotations__ = {one.name: one.type for one in declared if one.init} | {"return": None}
    return cast("Callable[..., None]", made_init)


def _getter(names: Sequence[str]) -> Callable[[Any], Any]:
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda value: (one(value),)
    return attrgetter(*names) if names else lambda _: ()


def _eq(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    own: _Declared = self.__record__
    if own.compared is None:
        own.compared = _getter([one.name for one in dataclasses.fields(self) if one.compare])
    return own.compared(self) == own.compared(other)


def _hash(self: Any) -> int:
    own: _Declared = self.__record__
    if own.hashed is None:
        names = [one.name for one in dataclasses.fields(self) if (one.compare if one.hash is None else one.hash)]
        own.hashed = _getter(names)
    return hash(own.hashed(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _no_set(_self: Any, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _no_delete(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
