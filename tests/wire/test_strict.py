"""The strict form of a schema goes into every part of it."""

from typing import Any

from holdall.wire.tool import strict_schema


def test_choices_and_definitions_become_strict_too() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "required": ["where"],
        "properties": {
            "where": {"anyOf": [{"type": "object", "properties": {"line": {"type": "integer"}}}, {"type": "string"}]},
            "how": {"$ref": "#/$defs/How"},
        },
        "$defs": {"How": {"type": "object", "properties": {"depth": {"type": "integer", "default": 3}}}},
    }
    assert strict_schema(schema) == {
        "type": "object",
        "required": ["where", "how"],
        "additionalProperties": False,
        "properties": {
            "where": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"line": {"type": ["integer", "null"]}},
                        "required": ["line"],
                        "additionalProperties": False,
                    },
                    {"type": "string"},
                ]
            },
            "how": {"anyOf": [{"$ref": "#/$defs/How"}, {"type": "null"}]},
        },
        "$defs": {
            "How": {
                "type": "object",
                "properties": {"depth": {"type": ["integer", "null"]}},
                "required": ["depth"],
                "additionalProperties": False,
            }
        },
    }


def test_an_optional_constant_may_be_null_and_entries_of_a_tuple_are_strict() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "const": "fast"},
            "pair": {"type": "array", "prefixItems": [{"type": "object", "properties": {}}], "minItems": 1},
        },
        "required": ["pair"],
    }
    shown = strict_schema(schema)["properties"]
    assert shown["mode"] == {"anyOf": [{"type": "string", "const": "fast"}, {"type": "null"}]}
    assert shown["pair"]["prefixItems"] == [
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    ]
