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
