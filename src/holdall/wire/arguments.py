"""Whether the arguments of a call fit the schema of one of our own tools: the few keywords that those use.

A complaint names the argument and says what it must be, for a model to read. Schemas of other people's tools are not
checked here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

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
