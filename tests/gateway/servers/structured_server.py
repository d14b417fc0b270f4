"""A server on Python's SDK whose tools return the same rows in every form that has structured content.

Each tool takes `count` rows, and `fail`, which makes an error of the result. The rows are long lines: a needle is in the
last one.
"""

from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel

NEEDLE = "needle-4711"
SERVER = MCPServer("structured")


class Row(BaseModel):
    number: int
    words: str


class Rows(BaseModel):
    rows: list[Row]


class Named(BaseModel):
    """With the names that a note in place of structured content has, and other types under them."""

    kept: str
    handle: list[int]
    notice: dict[str, str]
    rows: list[Row]


class Wrapped(BaseModel):
    result: str


def rows(count: int) -> list[Row]:
    words = 'a "quoted" \\ line \u2014 \U0001f600'
    return [Row(number=at, words=words if at + 1 < count else f"{words} {NEEDLE}") for at in range(count)]


def table(count: int) -> dict[str, Any]:
    return {"rows": [row.model_dump() for row in rows(count)]}


def text(count: int) -> str:
    return "\n".join(f"{row.number} {row.words}" for row in rows(count))


def result(said: str | None, structured: Any, fail: bool) -> CallToolResult:
    content = [] if said is None else [TextContent(type="text", text=said)]
    return CallToolResult(content=list(content), structured_content=structured, is_error=fail)


@SERVER.tool()
def a_text(count: int, fail: bool = False) -> str:
    if fail:
        raise ToolError(text(count))
    return text(count)


@SERVER.tool()
def a_dictionary(count: int, fail: bool = False) -> dict[str, Any]:
    if fail:
        raise ToolError(text(count))
    return table(count)


@SERVER.tool()
def a_model(count: int, fail: bool = False) -> Rows:
    if fail:
        raise ToolError(text(count))
    return Rows(rows=rows(count))


@SERVER.tool()
def a_list(count: int, fail: bool = False) -> list[Row]:
    if fail:
        raise ToolError(text(count))
    return rows(count)


@SERVER.tool()
def our_names(count: int, fail: bool = False) -> Named:
    if fail:
        raise ToolError(text(count))
    return Named(kept="yes", handle=[1], notice={"a": "b"}, rows=rows(count))


@SERVER.tool()
def both(count: int, fail: bool = False) -> Annotated[CallToolResult, Rows]:
    return result(text(count), table(count), fail)


@SERVER.tool()
def both_without_schema(count: int, fail: bool = False) -> CallToolResult:
    return result(text(count), table(count), fail)


@SERVER.tool()
def little_beside(count: int, fail: bool = False) -> Annotated[CallToolResult, dict[str, int]]:
    return result(text(count), {"rows": count}, fail)


@SERVER.tool()
def little_beside_without_schema(count: int, fail: bool = False) -> CallToolResult:
    return result(text(count), {"rows": count}, fail)


@SERVER.tool()
def summary(count: int, fail: bool = False) -> Annotated[CallToolResult, Rows]:
    return result(f"{count} rows were found", table(count), fail)


@SERVER.tool()
def summary_without_schema(count: int, fail: bool = False) -> CallToolResult:
    return result(f"{count} rows were found", table(count), fail)


@SERVER.tool()
def structure_alone(count: int, fail: bool = False) -> Annotated[CallToolResult, Rows]:
    return result(None, table(count), fail)


@SERVER.tool()
def structure_alone_without_schema(count: int, fail: bool = False) -> CallToolResult:
    return result(None, table(count), fail)


@SERVER.tool()
def wrapped_alone(count: int, fail: bool = False) -> Annotated[CallToolResult, Wrapped]:
    return result(None, {"result": text(count)}, fail)


@SERVER.tool()
def wrapped_without_schema(count: int, fail: bool = False) -> CallToolResult:
    return result(text(count), {"result": text(count)}, fail)


@SERVER.tool()
def another_wrapped(count: int, fail: bool = False) -> CallToolResult:
    return result("see the page", {"result": text(count)}, fail)


if __name__ == "__main__":
    SERVER.run()
