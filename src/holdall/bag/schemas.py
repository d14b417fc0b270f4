"""Whether arguments fit the schema of somebody else's tool. Needs the extra `references`."""

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

from holdall.values.errors import MissingExtra


def schema_complaint(schema: Mapping[str, Any], arguments: object) -> str:
    """What is wrong, in one sentence; empty where nothing is. Never skipped: where it cannot be checked, it raises."""
    if importlib.util.find_spec("jsonschema") is None:
        raise MissingExtra("jsonschema", "references", "checking arguments that are passed by reference")
    found: str = importlib.import_module("holdall.bag.jsonschemas").complaint(schema, arguments)
    return found
