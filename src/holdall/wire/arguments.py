"""Whether the arguments of a call fit a schema, and what a model reads where they do not."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from holdall.text.numbers import with_article

# Functions as tools: pydantic finds what is wrong, the words are here. They repeat no value: it may be a megabyte.


Fault = Literal["must", "missing", "unknown"]
_MAX_LISTED = 40
_LONGEST_NAME = 60
_LONGEST_RULE = 500
_LONGEST_PATH = 210

TOO_DEEP = "are nested too deeply"
_RULES = {
    "string_type": "must be a string",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "must be an integer"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "none_required": "must be null",
    **dict.fromkeys(
        ("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), "must be an array"
    ),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"), "must be an object"
    ),
}  # fmt: skip


class InvalidArgument(Exception):
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


def rule_for(kind: str, message: str) -> str:
    """What a value must be, in the words of JSON, from the kind of error that pydantic names and its message."""
    if kind in _RULES:
        return _RULES[kind]
    if message.startswith("Input should "):  # "Input should be greater than 5"
        return f"must {message.removeprefix('Input should ')}"
    return f"is not right: {message.removeprefix('Value error, ').removeprefix('Assertion failed, ')}"


def unreadable(why: str) -> str:
    """Where reading the arguments failed in a way that names no place."""
    return f"cannot be read: {why}"


def clearest_problem(problems: Sequence[InvalidArgument]) -> InvalidArgument:
    """The one to report. A value that fits no member of a union has one for each member: the deepest came furthest,
    and what is asked for at the same place is joined: "must be an integer or null"."""
    best = max(problems, key=lambda one: len(one.place) + (one.fault == "unknown"))
    if best.fault != "must":
        return best
    rules = dict.fromkeys(one.rule for one in problems if one.fault == "must" and one.place == best.place)
    return InvalidArgument(" or ".join(rules).replace(" or must be ", " or "), place=best.place)


def complaint(problem: InvalidArgument) -> str:
    """One sentence."""
    match problem.fault, problem.place:
        case "missing", place:
            return f"The argument {_path(place)!r} is missing."
        case "unknown", (name,):
            return f"There is no argument {_path((name,))!r}. Arguments are: {_listed(problem.known)}."
        case "unknown", place:
            return f"The argument {_path(place[:-1])!r} has no {_path(place[-1:])!r}. It has: {_listed(problem.known)}."
        case _, ():
            return f"The arguments {problem.rule[:_LONGEST_RULE]}."
        case _, place:
            return f"The argument {_path(place)!r} {problem.rule[:_LONGEST_RULE]}."


def _path(place: Sequence[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:_LONGEST_NAME]}" for step in place)
    text = text.removeprefix(".")
    return text if len(text) <= _LONGEST_PATH else f"{text[:100]} … {text[-100:]}"


def _listed(names: Iterable[str]) -> str:
    shown = [name[:_LONGEST_NAME] for name in names]
    more = f" and {len(shown) - _MAX_LISTED} more" if len(shown) > _MAX_LISTED else ""
    return (", ".join(shown[:_MAX_LISTED]) or "none") + more


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
    """What is wrong, in one sentence; empty if nothing is. A null counts as left out."""
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
        return f"must be {' or '.join(with_article(one) for one in kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(map(str, cast('Sequence[object]', schema['enum'])))}"
    if isinstance(value, str | list) and not value and (schema.get("minLength", 0) or schema.get("minItems", 0)):
        return "must not be empty"
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        return f"must be at least {schema['minimum']}"
    if isinstance(value, list | tuple) and isinstance(schema.get("items"), Mapping):
        items = cast("Mapping[str, Any]", schema["items"])
        found = (_problem(items, one) for one in cast("Sequence[object]", value))
        return next((f"has an entry that {one}" for one in found if one), "")
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


def coerced(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they were surely meant: "5" for 5, "true" for true, 12 for "12", [1, 50] for "1:50"."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):  # a schema of a server's may be anything
        return dict(arguments)
    known = cast("Mapping[str, Any]", properties)
    return {
        name: _coerced(known.get(name), value)
        for name, value in arguments.items()
        if value is not None or not _is_left_out(schema, known.get(name), name)
    }


def _is_left_out(schema: Mapping[str, Any], given: object, name: str) -> bool:
    """Whether null can only mean that nothing is given: a strict form wants every property to be written."""
    kind = cast("Mapping[str, Any]", given).get("type") if isinstance(given, Mapping) else None
    return isinstance(kind, str) and kind != "null" and name not in (schema.get("required") or ())


def _coerced(given: object, value: Any) -> Any:
    if not isinstance(given, Mapping):
        return value
    schema = cast("Mapping[str, Any]", given)
    kind = schema.get("type")
    items = schema.get("items")
    if isinstance(value, str) and kind == "array" and isinstance(items, Mapping) and items.get("type") == "string":  # pyright: ignore[reportUnknownMemberType]
        return [one for one in value.replace(",", " ").split() if one]
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
