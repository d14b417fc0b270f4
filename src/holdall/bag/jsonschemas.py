"""JSON Schema by the package jsonschema. No schema is fetched from anywhere."""

from collections.abc import Mapping
from typing import Any, cast

import jsonschema


def complaint(schema: Mapping[str, Any], arguments: object) -> str:
    """The best of what is wrong. It names the place, never the value: that may be a megabyte."""
    library = cast("Any", jsonschema)  # it ships no types
    checker = library.validators.validator_for(schema)(schema)
    problem: Any = library.exceptions.best_match(checker.iter_errors(arguments))
    if problem is None:
        return ""
    place = ".".join(map(str, problem.absolute_path)) or "the arguments"
    return f"{place} breaks the rule {problem.validator!r} ({str(problem.validator_value)[:120]})"
