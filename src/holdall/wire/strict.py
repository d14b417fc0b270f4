"""The strict form of a schema: every property required, nothing beside them, what was optional may be null.

Keywords that such providers refuse (lengths, defaults) are left out: `schema_problem` still checks them on the way in.
"""

from collections.abc import Mapping
from typing import Any, cast

_REFUSED = ("minLength", "maxLength", "default", "minProperties", "maxProperties")
_CHOICES, _NAMED = ("anyOf", "oneOf", "allOf"), ("$defs", "definitions")


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A new schema; the one given is not changed."""
    shown = {key: value for key, value in schema.items() if key not in _REFUSED}
    properties = cast("Mapping[str, Mapping[str, Any]] | None", schema.get("properties"))
    if properties is not None:
        required = cast("list[str]", schema.get("required", []))
        shown["properties"] = {
            name: strict_schema(one) if name in required else _nullable(strict_schema(one))
            for name, one in properties.items()
        }
        shown["required"] = list(properties)
        shown["additionalProperties"] = False
    elif schema.get("type") == "object":
        shown |= {"properties": {}, "required": [], "additionalProperties": False}
    if isinstance(schema.get("items"), Mapping):
        shown["items"] = strict_schema(cast("Mapping[str, Any]", schema["items"]))
    for name in _CHOICES:
        if isinstance(schema.get(name), list):
            shown[name] = [strict_schema(one) for one in cast("list[Mapping[str, Any]]", schema[name])]
    for name in _NAMED:
        if isinstance(schema.get(name), Mapping):
            named = cast("Mapping[str, Mapping[str, Any]]", schema[name])
            shown[name] = {key: strict_schema(one) for key, one in named.items()}
    return shown


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if kind is None:
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = cast("list[str]", kind) if isinstance(kind, list) else [kind]
    nullable = schema | {"type": [*kinds, "null"]}
    if "enum" in schema:
        nullable["enum"] = [*cast("list[object]", schema["enum"]), None]
    return nullable
