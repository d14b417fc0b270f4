"""Schemas that allow the handle in place of the original, and links to kept outputs."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.values.outputs import Facts
from holdall.wire.notes import kept_note, link_parts, running_note, uri_of, widened

TREE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["leaf"],
    "additionalProperties": False,
    "properties": {
        "leaf": {"$ref": "#/$defs/Leaf"},
        "again": {"$ref": "#"},
        "same": {"$ref": "#/properties/leaf"},
        "old": {"$ref": "#/definitions/Old"},
        "$ref": {"type": "string"},
    },
    "$defs": {"Leaf": {"type": "integer"}, "Other": {"$ref": "#/properties/same"}},
    "definitions": {"Old": {"$ref": "#/$defs/Leaf"}},
}
FITTING = [{"leaf": 1}, {"leaf": 1, "again": {"leaf": 2}}, {"leaf": 1, "same": 2, "old": 3}, {"leaf": 1, "$ref": "x"}]
WRONG: list[Any] = [
    {"leaf": "x"},
    {"leaf": 1, "same": "x"},
    {"leaf": 1, "old": "x"},
    {"leaf": 1, "again": {"leaf": "x"}},
    7,
]
FACTS = Facts(handle="k3f9", id="0" * 36, session="5" * 36, created=0.0)


def fits(schema: Any, value: Any) -> bool:
    validator: Any = jsonschema.Draft202012Validator(schema)
    return not list(validator.iter_errors(value))


@pytest.mark.parametrize("name", ["", "https://example.org/tree"])
def test_a_widened_schema_allows_the_original_and_the_handle_and_nothing_else(name: str) -> None:
    schema = {**TREE, "$id": name} if name else TREE
    before = json.dumps(schema)
    wide = widened(schema)
    assert json.dumps(schema) == before
    assert all(fits(schema, value) and fits(wide, value) for value in FITTING)
    assert not any(fits(schema, value) or fits(wide, value) for value in WRONG)
    for handle in (kept_note(FACTS), running_note("k3f9")):
        assert fits(wide, handle)
        assert not fits(schema, handle)


def test_what_is_no_schema_stays() -> None:
    assert widened(None) is None
    assert widened([1]) == [1]
    assert "type" not in widened({"type": "array"})  # type: ignore[operator] - it is a dictionary


@given(st.text(min_size=1, max_size=20))
def test_a_link_leads_back_to_its_handle(handle: str) -> None:
    facts = Facts(handle=handle, id="0" * 36, session="5" * 36, created=0.0)
    assert link_parts(uri_of(facts)) == ("5" * 36, handle, {})
    assert link_parts(uri_of(facts) + "?bytes=1:2") == ("5" * 36, handle, {"bytes": "1:2"})


@pytest.mark.parametrize("bad", ["holdall://s/h?rows=1", "holdall://s/h?bytes=1:2&lines=1:2", "holdall://s/h#x"])
def test_a_link_that_asks_for_something_else_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="a link takes"):
        link_parts(bad)


@pytest.mark.parametrize("other", ["file:///etc/passwd", "ui://x", "handle://other/x", "http://holdall/x"])
def test_a_link_of_somebody_else_is_none_of_ours(other: str) -> None:
    assert link_parts(other) is None
