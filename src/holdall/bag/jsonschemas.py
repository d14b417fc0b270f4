"""JSON Schema by the package jsonschema. A server writes its schema, and a pattern in it may take for ever: what has
more than the plainest rules is checked in a process that can be killed. No schema is fetched or read from a file.
"""

import contextlib
import importlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any, cast

from holdall.text.escape import foreign
from holdall.values.errors import BadReference

_BOOT = "; ".join(
    ("import runpy, sys", "sys.path[:] = sys.argv[2:]", "runpy.run_path(sys.argv[1], run_name='__main__')")
)
_MEMORY = 2 * 1024**3
_PLACE = 60  # characters
_PLAIN = {
    "type", "required", "enum", "const", "title", "description", "default", "examples", "minimum", "maximum",
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
}  # fmt: skip
_PLAIN_ITEMS = 1_000  # schemas in one, all in all
_PLAIN_DEPTH = 16
_PLAIN_BYTES = 256 * 1024  # with the arguments
_PLAIN_CHECKS = 100_000  # each rule may be compared with each value


def complaint(schema: Mapping[str, Any], arguments: object, *, seconds: float) -> str:
    """The best of what is wrong. It names the place, never the value: that may be a megabyte. Blocks."""
    asked = json.dumps([schema, arguments], default=str).encode()
    if len(asked) <= _PLAIN_BYTES and _plain_rules(schema) * _values(arguments) in range(1, _PLAIN_CHECKS + 1):
        try:
            return _checked(*json.loads(asked))
        except BadReference:
            raise
        except Exception:  # of a schema that is none
            raise BadReference("the tool's schema could not be checked") from None
    paths = [os.path.abspath(path) for path in sys.path]
    try:
        ran = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _BOOT, __file__, *paths],
            input=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False,
        )  # fmt: skip
        told: object = json.loads(ran.stdout)
    except subprocess.TimeoutExpired:
        raise BadReference(f"the tool's schema could not be checked in {seconds:g} seconds") from None
    except (OSError, ValueError):
        raise BadReference("the tool's schema could not be checked") from None
    return str(told)


def _plain_rules(schema: object) -> int:
    """How many there are; 0 where checking one may take more than its share of the schema and the arguments."""
    waiting, rules = [(schema, 0)], 1
    for one, depth in waiting:
        if isinstance(one, bool):
            continue
        if not isinstance(one, Mapping) or depth > _PLAIN_DEPTH or len(waiting) > _PLAIN_ITEMS:
            return 0
        for name, value in cast("Mapping[str, object]", one).items():
            rules += _length(value)
            if name in ("items", "additionalProperties"):
                waiting.append((value, depth + 1))
            elif name == "properties" and isinstance(value, Mapping):
                waiting += [(each, depth + 1) for each in cast("Mapping[str, object]", value).values()]
            elif name in ("anyOf", "allOf", "oneOf") and isinstance(value, list):
                waiting += [(each, depth + 1) for each in cast("list[object]", value)]
            elif name not in _PLAIN:
                return 0
    return rules


def _length(value: object) -> int:
    return len(cast("list[object]", value)) if isinstance(value, list) else 1


def _values(arguments: object) -> int:
    """How many values there are, each with all that it holds."""
    waiting = [arguments]
    for one in waiting:
        if isinstance(one, Mapping):
            waiting.extend(cast("Mapping[object, object]", one).values())
        elif isinstance(one, list | tuple):
            waiting.extend(cast("Iterable[object]", one))
    return len(waiting)


def _checked(schema: Mapping[str, Any], arguments: object) -> str:
    library: Any = importlib.import_module("jsonschema")  # only in the process that checks; and it ships no types
    references: Any = importlib.import_module("referencing")
    checker = library.validators.validator_for(schema)(schema, registry=references.Registry())
    try:
        problem: Any = library.exceptions.best_match(checker.iter_errors(arguments))
    except references.exceptions.Unresolvable as missing:
        raise BadReference(f"its schema refers to {foreign(str(missing.ref))}, and no schema is fetched") from None
    except RecursionError:
        raise BadReference("its schema refers to itself without end") from None
    if problem is None:
        return ""
    place = foreign(".".join(map(str, problem.absolute_path)), _PLACE) or "the arguments"
    return f"{place} breaks the rule {foreign(str(problem.validator))!r} ({foreign(str(problem.validator_value))})"


if __name__ == "__main__":
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    try:
        said = _checked(*json.load(sys.stdin.buffer))
    except BadReference as problem:
        said = str(problem)
    sys.stdout.write(json.dumps(said))
