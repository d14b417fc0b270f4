"""Whether the arguments of a call fit a schema, and what a model reads where they do not."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

# What a model reads where its arguments do not fit a function: which one, and what it must be.
#
# The words are those that our own tools use (`wire.arguments`). A complaint never repeats a value: it may be a
# megabyte.


Fault = Literal["must", "missing", "unknown"]
_MOST_LISTED = 40
_LONGEST_NAME = 60
_LONGEST_RULE = 500
_LONGEST_PATH = 210


class Misfit(Exception):
    """`place` leads from the argument to the value: names of members, and numbers of entries, from 0.

    Of a fault "must", `rule` says what it must be; of "unknown", the last name of the place is one that there is not,
    and `known` are those that there are.
    """

    def __init__(
        self, rule: str = "", *, place: tuple[str | int, ...] = (), fault: Fault = "must", known: tuple[str, ...] = ()
    ) -> None:
        super().__init__(rule)
        self.rule = rule
        self.place = place
        self.fault: Fault = fault
        self.known = known

    def inside(self, *steps: str | int) -> "Misfit":
        """The same, seen from so many levels further out."""
        return Misfit(self.rule, place=(*steps, *self.place), fault=self.fault, known=self.known)


def complaint(misfit: Misfit) -> str:
    """One sentence."""
    match misfit.fault, misfit.place:
        case "missing", place:
            return f"The argument {_path(place)!r} is missing."
        case "unknown", (name,):
            return f"There is no argument {_path((name,))!r}. Arguments are: {_listed(misfit.known)}."
        case "unknown", place:
            return f"The argument {_path(place[:-1])!r} has no {_path(place[-1:])!r}. It has: {_listed(misfit.known)}."
        case _, ():
            return f"The arguments {misfit.rule[:_LONGEST_RULE]}."
        case _, place:
            return f"The argument {_path(place)!r} {misfit.rule[:_LONGEST_RULE]}."


def one_of(choices: Sequence[object]) -> str:
    return f"must be one of {_listed(str(choice) for choice in choices)}"


def one_of_these(rules: Iterable[str]) -> str:
    """Of a value that may be several things: "must be a number or null"."""
    return " or ".join(dict.fromkeys(rules)).replace(" or must be ", " or ")


def not_right(why: str) -> str:
    """Where the function's own check refused a value, in that check's words."""
    return f"is not right: {why[:_LONGEST_RULE]}"


def entries(number: int) -> str:
    return f"must be an array of {number} entries"


A_TEXT = "must be a string"
AN_INTEGER = "must be an integer"
A_NUMBER = "must be a number"
A_SWITCH = "must be true or false"
NULL = "must be null"
AN_ARRAY = "must be an array"
AN_OBJECT = "must be an object"
TOO_DEEP = "are nested too deeply"


def _path(place: Sequence[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:_LONGEST_NAME]}" for step in place)
    text = text.removeprefix(".")
    return text if len(text) <= _LONGEST_PATH else f"{text[:100]} … {text[-100:]}"


def _listed(names: Iterable[str]) -> str:
    shown = [name[:_LONGEST_NAME] for name in names]
    more = f" and {len(shown) - _MOST_LISTED} more" if len(shown) > _MOST_LISTED else ""
    return (", ".join(shown[:_MOST_LISTED]) or "none") + more


# Whether the arguments of a call fit the schema of one of our own tools: the few keywords that those use.
#
# A complaint names the argument and says what it must be, for a model to read. Schemas of other people's tools are not
# checked here.


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (Mapping,),
    "array": (list, tuple),
    "null": (type(None),),
}


def schema_problem(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """What is wrong, in one sentence; empty where nothing is. A null counts as left out."""
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
    given = {name: value for name, value in arguments.items() if value is not None}
    for name in cast("Sequence[str]", schema.get("required", ())):
        if name not in given:
            return f"The argument {name!r} is missing."
    for name, value in given.items():
        if name not in properties:
            known = ", ".join(properties) or "none"
            return f"There is no argument {name[:60]!r}. Arguments are: {known}."
        if problem := _problem(properties[name], value):
            return f"The argument {name!r} {problem}."
    return ""


def _problem(schema: Mapping[str, Any], value: object) -> str:
    kind = schema.get("type")
    kinds = cast("Sequence[str]", kind if isinstance(kind, list) else [kind] if kind else [])
    if kinds and not any(_is(value, one) for one in kinds):
        return f"must be {' or '.join(_article(one) for one in kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(map(str, cast('Sequence[object]', schema['enum'])))}"
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        return "must not be empty"
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        return f"must be at least {schema['minimum']}"
    if isinstance(value, Mapping) and "properties" in schema:
        inner = schema_problem(schema, cast("Mapping[str, Any]", value))
        return f"is not right: {inner[:1].lower()}{inner[1:].rstrip('.')}" if inner else ""
    return ""


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(kind, (object,)))


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"


def coerced(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they were surely meant: "5" for 5, "true" for true, 12 for "12", [1, 50] for "1:50"."""
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
    return {name: _coerced(properties.get(name, {}), value) for name, value in arguments.items()}


def _coerced(schema: Mapping[str, Any], value: Any) -> Any:
    kind = schema.get("type")
    if isinstance(value, str) and kind in ("integer", "boolean"):
        text = value.strip().lower()
        if kind == "boolean":
            return {"true": True, "false": False}.get(text, value)
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20 else value
    if kind == "string" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if kind == "string" and isinstance(value, list | tuple):
        pair = cast("Sequence[object]", value)
        whole = len(pair) == 2 and all(isinstance(one, int) and not isinstance(one, bool) for one in pair)
        return f"{pair[0]}:{pair[1]}" if whole else pair
    if isinstance(value, float) and kind == "integer" and value.is_integer():
        return int(value)
    return coerced(schema, cast("Mapping[str, Any]", value)) if _has_members(schema, value) else value


def _has_members(schema: Mapping[str, Any], value: object) -> bool:
    return "properties" in schema and isinstance(value, Mapping)
