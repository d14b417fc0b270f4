"""The simplest shapes of parameters: one value, anything, one of a few. `functions_shapes` has the others."""

import json
import re
import sys
from dataclasses import dataclass, field
from typing import Any, Literal

from holdall.wire import arguments
from holdall.wire.arguments import Misfit

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
