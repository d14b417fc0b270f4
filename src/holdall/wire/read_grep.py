"""The two tools of a model that searches one output for an answer: Read and Grep, by the name of its handle."""

from typing import Any

from holdall.wire.dialect import call_text
from holdall.wire.tool import ToolSpec

_FILE = {"type": "string", "minLength": 1, "description": "The filename, exactly as given."}

READ = ToolSpec(
    name="Read",
    description="Read part of the file: by lines or bytes; without a range, its beginning.",
    schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["filename"],
        "properties": {
            "filename": _FILE,
            "lines": {"type": "string", "description": 'Lines "A:B", from 1, both ends included.'},
            "bytes": {"type": "string", "description": 'Bytes "A:B", from 0, without B; for very long lines.'},
        },
    },
)

GREP = ToolSpec(
    name="Grep",
    description="Search the file by a regular expression, within lines: matches with line and byte numbers; count: "
    "only how many; group: how often each captured value occurs.",
    schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["filename", "pattern"],
        "properties": {
            "filename": _FILE,
            "pattern": {"type": "string", "minLength": 1, "description": "No look-around, no back-references."},
            "ignore_case": {"type": "boolean"},
            "context": {"type": "integer", "minimum": 0, "maximum": 50, "description": "Lines around each match."},
            "limit": {"type": "integer", "minimum": 1, "description": "At most this many matches or values."},
            "count": {"type": "boolean"},
            "group": {"type": "boolean"},
            "start": {"type": "integer", "minimum": 0, "description": "Go on from this byte."},
        },
    },
)
READ_GREP = (READ, GREP)


def go_on(verb: str, handle: str, arguments: dict[str, Any]) -> str:
    """How an answer tells to go on: `Read(filename="k3f9", lines="51:100")`."""
    name = {"read": "Read", "grep": "Grep"}.get(verb)
    if name is None:
        return ""
    return call_text(name, {"filename": handle, **arguments})


def no_such_file(given: str, handle: str) -> str:
    return f'There is no file "{given[:100]}". The only file is "{handle}".'
