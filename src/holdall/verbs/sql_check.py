"""Whether a piece of SQL is one that only reads the table. Decided on DuckDB's own parse of it, never on its words.

DuckDB counts `with x as (copy … to …) select …` as a SELECT, and the one file that a query may read is one that it
could write: so every node of the query must be of a kind that reads. Functions that run SQL given as text would get
around this, and those that show settings would show paths of this machine.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

_READING_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_REFUSED_FUNCTIONS = frozenset(
    {
        "query", "query_table", "json_execute_serialized_sql",
        "current_setting", "duckdb_settings", "duckdb_extensions", "duckdb_secrets", "which_secret",
    }
)  # fmt: skip
_END = re.compile(r"(?:;|\s|--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)+\Z")
_EXAMPLE = "select count(*) from t"
_ONLY = "only one SELECT is run (also WITH, FROM, VALUES, DESCRIBE t or SUMMARIZE t)"


class NotOneSelect(Exception):
    """The message says what it is instead."""


def one_select(duck: Any, sql: str) -> str:
    """The statement without what stands after it. Raises NotOneSelect, or DuckDB's error where it does not parse."""
    statements = duck.extract_statements(sql)
    if not statements:
        raise NotOneSelect(f"the SQL is empty; {_ONLY}, for example: {_EXAMPLE}")
    if len(statements) > 1:
        raise NotOneSelect(f"{_ONLY}; these are {len(statements)} statements")
    kind: str = statements[0].type.name
    if kind == "MULTI":
        raise NotOneSelect("PIVOT needs its values here: pivot t on x in ('a', 'b') using count(*)")
    if kind != "SELECT":
        raise NotOneSelect(f"{_ONLY}; this is {kind}")
    statement: str = statements[0].query
    tree = _parsed(duck, statement)
    parsed: dict[str, Any] = json.loads(tree)
    if parsed.get("error", True):
        raise NotOneSelect(f"{_ONLY}; {parsed.get('error_message', 'this is something else')}")
    for node in _objects(parsed):
        _refuse_what_does_more(node)
    # What looks like the end may be the inside of a text in quotes: cut only where the meaning stays.
    shorter = _END.sub("", statement)
    return shorter if _parsed(duck, shorter) == tree else statement


def _parsed(duck: Any, statement: str) -> str:
    return duck.execute("select json_serialize_sql(?)", [statement]).fetchone()[0]


def _refuse_what_does_more(node: dict[str, Any]) -> None:
    kind = node.get("type")
    if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _READING_NODES:
        raise NotOneSelect(f"{_ONLY}; a part of this is {kind.removesuffix('_NODE').removesuffix('_QUERY')}")
    function = node.get("function_name")
    if isinstance(function, str) and function.casefold() in _REFUSED_FUNCTIONS:
        raise NotOneSelect(f"the function {function} is not available here; the table is t")


def _objects(parsed: Any) -> Iterator[dict[str, Any]]:
    """Every object in it, without recursion: SQL nests as deep as it likes."""
    waiting: list[Any] = [parsed]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            yield members
            waiting.extend(members.values())
        elif isinstance(value, list):
            waiting.extend(cast("list[Any]", value))
