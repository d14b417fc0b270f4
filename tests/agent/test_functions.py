"""Python functions as tools: what a model is told of one, what cannot be one, and how it is called."""

import datetime
import enum
import functools
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, NotRequired, Required

import pytest
from inline_snapshot import snapshot
from pydantic import Field
from typing_extensions import TypedDict

from holdall import Holdall, Kept, MemoryStore, Settings
from holdall.agent.functions import BadArguments, FunctionTool, function_tool, load_function_tool
from holdall.values.errors import UsageError
from holdall.wire.tool import ToolSpec
from tests.requirements import requirement


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    FIRST = object()
    SECOND = (1, 2)


@dataclass
class Point:
    """A place on the map."""

    x: int
    y: Annotated[float, "how far up"] = 0.0
    tags: list[str] = field(default_factory=list[str])
    length: int = field(init=False, default=0)


@dataclass(frozen=True)
class Node:
    value: int
    children: "tuple[Node, ...]" = ()


class Filter(TypedDict, total=False):
    """What to look at."""

    since: Required[int]
    until: int
    exact: "NotRequired[bool]"


UserId = NewType("UserId", int)


@requirement("runtime:tools-functions")
def test_name_docstring_and_signature_are_what_a_model_is_told() -> None:
    def search(query: Annotated[str, "what to look for"], limit: int = 10, *, exact: bool = False) -> list[str]:
        """Finds pages.

        Newest first.
        """
        return [query] * limit if exact else []

    tool = function_tool(search)
    assert tool.spec == ToolSpec(
        "search",
        "Finds pages.\n\nNewest first.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "what to look for"},
                "limit": {"type": "integer", "default": 10},
                "exact": {"type": "boolean", "default": False},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    )
    assert function_tool(tool) is tool
    other = function_tool(search, name="find", description="Finds.")
    assert (other.name, other.description, other.schema) == ("find", "Finds.", tool.schema)
    assert hash(tool) != hash(other)


def of(annotation: Any, default: Any = ...) -> Any:
    """The schema of a parameter with this annotation."""

    def call(x: Any) -> None: ...

    call.__annotations__["x"] = annotation
    call.__defaults__ = None if default is ... else (default,)
    schema = function_tool(call).schema
    assert schema.get("required", []) == ([] if default is not ... else ["x"])
    return schema["properties"]["x"] | ({"$defs": schema["$defs"]} if "$defs" in schema else {})


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (UserId, {"type": "integer"}),
        ("str", {"type": "string"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1, True, None], {"enum": ["a", 1, True, None]}),
        (Literal[Colour.RED], {"type": "string", "const": "red"}),
        (Colour, {"$ref": "#/$defs/Colour", "$defs": {"Colour": {"type": "string", "enum": ["red", "blue"]}}}),
        (Level, {"$ref": "#/$defs/Level", "$defs": {"Level": {"type": "integer", "enum": [1, 2]}}}),
        (datetime.date, {"type": "string", "format": "date"}),
        (Annotated[int, Field(ge=1, le=9, description="how many")], {"type": "integer", "minimum": 1, "maximum": 9, "description": "how many"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (list, {"type": "array", "items": {}}),
        (list[Any], {"type": "array", "items": {}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (frozenset[Literal["a"]], {"type": "array", "items": {"type": "string", "const": "a"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (tuple, {"type": "array", "items": {}}),
        (tuple[int, int], {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}),
        (tuple[int, str], {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object", "additionalProperties": True}),
        (dict, {"type": "object", "additionalProperties": True}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (int | str | int, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (list[int] | None, {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}),
        (int | Any, {"anyOf": [{"type": "integer"}, {}]}),
        (Annotated[int | None, "how many", 5], {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "how many"}),
        (Annotated[Annotated[int, "inner"], "outer"], {"type": "integer", "description": "inner"}),
        (Annotated[list[Annotated[int, "lost"]], 5], {"type": "array", "items": {"type": "integer"}}),
    ],
    ids=str,
)  # fmt: skip
def test_every_type_of_json_has_its_schema(annotation: Any, schema: Any) -> None:
    assert of(annotation) == schema


def test_records_have_their_members_and_no_others() -> None:
    assert of(Point) == snapshot(
        {
            "$ref": "#/$defs/Point",
            "$defs": {
                "Point": {
                    "additionalProperties": False,
                    "description": "A place on the map.",
                    "properties": {
                        "x": {"type": "integer"},
                        "y": {"default": 0.0, "description": "how far up", "type": "number"},
                        "tags": {"items": {"type": "string"}, "type": "array"},
                    },
                    "required": ["x"],
                    "type": "object",
                }
            },
        }
    )
    assert of(Filter | None, None) == snapshot(
        {
            "anyOf": [
                {"$ref": "#/$defs/Filter"},
                {"type": "null"},
            ],
            "default": None,
            "$defs": {
                "Filter": {
                    "additionalProperties": False,
                    "description": "What to look at.",
                    "properties": {
                        "since": {"type": "integer"},
                        "until": {"type": "integer"},
                        "exact": {"type": "boolean"},
                    },
                    "required": ["since"],
                    "type": "object",
                }
            },
        }
    )


def test_records_are_defined_once_and_may_hold_themselves() -> None:
    assert of(list[Node]) == snapshot(
        {
            "type": "array",
            "items": {"$ref": "#/$defs/Node"},
            "$defs": {
                "Node": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "integer"},
                        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []},
                    },
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
        }
    )

    def two(a: Node, b: dict[str, Node], c: list[Point], d: Point) -> None: ...

    schema = function_tool(two).schema
    assert schema["properties"]["b"]["additionalProperties"] == schema["properties"]["a"] == {"$ref": "#/$defs/Node"}
    assert schema["properties"]["c"]["items"] == schema["properties"]["d"] == {"$ref": "#/$defs/Point"}
    assert list(schema["$defs"]) == ["Node", "Point"]


@pytest.mark.parametrize(
    ("annotation", "default", "shown"),
    [
        (int, 5, 5),
        (int | None, None, None),
        (Colour, Colour.BLUE, "blue"),
        (list[int], [1], [1]),
        (tuple[int, str], (1, "x"), [1, "x"]),
        (int, None, None),
        (float, float("inf"), ...),
        (set[int], frozenset({1}), [1]),
        (Any, object(), ...),
        (Node, Node(1), {"value": 1, "children": []}),
    ],
)
def test_a_default_is_told_where_json_can_say_it(annotation: Any, default: Any, shown: Any) -> None:
    assert of(annotation, default).get("default", ...) == shown


# What cannot be a tool


class Unknown: ...


@dataclass
class When:
    day: Unknown


class Ghost(TypedDict):
    ghost: "Nobody"  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


def no_type(x) -> None: ...  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
def any_number(*values: int) -> None: ...
def any_name(**values: int) -> None: ...
def no_name(x: int, /) -> None: ...
def unknown_type(good: int, x: Unknown) -> None: ...
def unknown_entry(x: list[Unknown | None]) -> None: ...
def unknown_member(x: When) -> None: ...
def unknown_ghost(x: Ghost) -> None: ...
def not_found(x: "Nobody") -> None: ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
def odd(x: Odd) -> None: ...
def a_function(x: Callable[[], int]) -> None: ...


class Unspoken:
    __signature__ = "none"

    def __call__(self) -> None: ...


NOT_TOOLS: list[tuple[Any, str]] = [
    (no_type, snapshot("the function no_type cannot be a tool: the parameter 'x' has no type.")),
    (
        any_number,
        snapshot(
            "the function any_number cannot be a tool: the parameter '*values' takes any number of values; name each of them."
        ),
    ),
    (
        any_name,
        snapshot(
            "the function any_name cannot be a tool: the parameter '**values' takes any number of values; name each of them."
        ),
    ),
    (
        no_name,
        snapshot(
            "the function no_name cannot be a tool: the parameter 'x' has no name for its callers; take away the / after it."
        ),
    ),
    (
        unknown_type,
        snapshot(
            "the function unknown_type cannot be a tool: the parameter 'x' cannot come from JSON: Unable to generate pydantic-core schema for <class 'tests.agent.test_functions.Unknown'>."
        ),
    ),
    (
        unknown_entry,
        snapshot(
            "the function unknown_entry cannot be a tool: the parameter 'x' cannot come from JSON: Unable to generate pydantic-core schema for <class 'tests.agent.test_functions.Unknown'>."
        ),
    ),
    (
        unknown_member,
        snapshot(
            "the function unknown_member cannot be a tool: the parameter 'x' cannot come from JSON: Unable to generate pydantic-core schema for <class 'tests.agent.test_functions.Unknown'>."
        ),
    ),
    (
        unknown_ghost,
        snapshot(
            "the function unknown_ghost cannot be a tool: the parameter 'x' has a type that cannot be found: name 'Nobody' is not defined."
        ),
    ),
    (
        not_found,
        snapshot(
            "the function not_found cannot be a tool: the parameter 'x' has a type that cannot be found: name 'Nobody' is not defined."
        ),
    ),
    (
        odd,
        snapshot(
            "the function odd cannot be a tool: the parameter 'x' cannot come from JSON: Unable to serialize unknown type: <class 'object'>."
        ),
    ),
    (
        a_function,
        snapshot(
            "the function a_function cannot be a tool: the parameter 'x' cannot come from JSON: Cannot generate a JsonSchema for core_schema.CallableSchema."
        ),
    ),
    (
        lambda x: x,  # pyright: ignore[reportUnknownLambdaType]
        snapshot("'<lambda>' cannot be the name of a tool: it must be 1 to 64 letters, digits, - and _."),
    ),
    (Point, snapshot("<class 'tests.agent.test_functions.Point'> cannot be a tool: it is not a function.")),
    (5, snapshot("5 cannot be a tool: it is not a function.")),
    (Unspoken(), snapshot("the function Unspoken cannot be a tool: it does not say its parameters.")),
]


@pytest.mark.parametrize(("function", "message"), NOT_TOOLS, ids=lambda one: getattr(one, "__name__", ""))
def test_what_cannot_be_a_tool_is_refused_by_the_name_of_the_parameter(function: Any, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        function_tool(function)
    assert str(refused.value) == message


def test_a_return_type_that_cannot_be_found_is_no_matter() -> None:
    def call(x: int) -> "Nobody":  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
        return x

    assert function_tool(call).read({"x": 1}) == {"x": 1}  # pyright: ignore[reportUnknownArgumentType]


def test_without_the_extra_the_install_line_is_named() -> None:
    code = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import holdall.agent.build\n"  # an agent without functions needs none of it
        "try: import holdall.agent.functions\n"
        "except Exception as problem: print(type(problem).__name__, problem)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == snapshot(
        "MissingExtra using Python functions as tools needs the package 'pydantic'. Install it with: pip install 'holdall[agent]'\n"
    )


# How it is called


class Finder:
    """Finds."""

    def __init__(self, base: int) -> None:
        self.base = base

    def method(self, x: int) -> int:
        """A method."""
        return self.base + x

    async def __call__(self, x: int) -> int:
        return self.base + x


def added(x: int, y: int, key: str = "none") -> str:
    """Adds."""
    return f"{x + y} {key}"


def test_methods_objects_and_partials_are_tools_too() -> None:
    method = function_tool(Finder(5).method)
    assert (method.name, method.description, method.call(x="2")) == ("method", "A method.", 7)
    whole = function_tool(Finder(5))
    assert (whole.name, whole.description, list(whole.schema["properties"])) == ("Finder", "Finds.", ["x"])
    part = function_tool(functools.partial(functools.partial(added, 1), key="sk-secret"))
    assert (part.name, part.description) == ("added", "Adds.")
    assert "secret" not in str(part.schema), "what is set already is not the model's to see"
    assert part.call(y=2) == "3 sk-secret"
    with pytest.raises(BadArguments, match="There is no argument 'key'"):
        part.call(y=2, key="other")


def test_a_decorated_function_is_the_function_that_was_decorated() -> None:
    @functools.wraps(added)
    def twice(*args: Any, **kwargs: Any) -> str:
        return added(*args, **kwargs) * 2

    tool = function_tool(twice)
    assert (tool.name, list(tool.schema["properties"])) == ("added", ["x", "y", "key"])
    assert tool.call(x=1, y=2) == "3 none3 none"


def plain(point: Point, writer: Any = None) -> str:
    if writer is not None:
        writer.write(f"{point.x} ")
    return f"{type(point).__name__}"


async def waiting(point: Point) -> str:
    return f"{point.x} {type(point).__name__}"


async def waiting_writing(point: Point, *, writer: Any) -> str:
    writer.write(f"{point.x} ")
    return type(point).__name__


def generating(point: Point) -> Iterator[str]:
    yield f"{point.x} "
    yield type(point).__name__


async def generating_later(point: Point) -> AsyncIterator[str]:
    yield f"{point.x} "
    yield type(point).__name__


@requirement("runtime:tools-functions")
@pytest.mark.anyio
@pytest.mark.parametrize("function", [plain, waiting, waiting_writing, generating, generating_later])
async def test_the_bag_calls_it_with_what_the_model_wrote(function: Callable[..., Any]) -> None:
    tool = function_tool(function)
    assert list(tool.schema["properties"]) == ["point"], "the writer is the bag's"
    async with Holdall.open(session="s", store=MemoryStore()) as bag:
        taken = await bag.run(tool.call, tool=tool.name, arguments={"point": {"x": "7"}})
        assert taken.content == "7 Point"
        taken = await bag.run(tool.call, tool=tool.name, arguments={"point": {"x": "seven"}})
        assert taken.content == "BadArguments: The argument 'point.x' must be an integer."


@requirement("runtime:tools-functions")
@pytest.mark.anyio
async def test_a_kept_output_that_an_argument_names_is_there_before_the_arguments_are_read() -> None:
    async def count(points: list[Point], factor: int) -> str:
        return f"{factor * sum(point.x for point in points)} of {len(points)}"

    tool = function_tool(count)
    async with Holdall.open(session="s", store=MemoryStore(), settings=Settings(by_reference=True)) as bag:
        kept = await bag.take('{"all": [' + ",".join(['{"x": 1}'] * 20_000) + "]}", tool="export")
        assert isinstance(kept, Kept)
        arguments = {"points": f"holdall:{kept.artifact.handle}#/all", "factor": 3}
        taken = await bag.run(tool.call, tool=tool.name, arguments=arguments)
        assert taken.content == "60000 of 20000"


# By name


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for modules; what was imported from it is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@requirement("runtime:tools-functions")
def test_a_function_is_found_by_its_module_and_name(modules: Path) -> None:
    (modules / "hold_tools.py").write_text(
        "class Store:\n    @staticmethod\n    def fetch(x: int) -> int:\n        'Fetches.'\n        return x + 1\n"
    )
    tool = load_function_tool("hold_tools:Store.fetch", folder=str(modules))
    assert isinstance(tool, FunctionTool)
    assert (tool.name, tool.description, tool.call(x=1)) == ("fetch", "Fetches.", 2)
    assert load_function_tool("tests.agent.test_functions:added").function is not None


def test_a_module_beside_the_file_hides_nothing_that_is_installed(modules: Path) -> None:
    (modules / "json.py").write_text("def dumps(x: int) -> int: ...")
    with pytest.raises(UsageError) as refused:
        load_function_tool("json:dumps", folder=str(modules))
    shown = str(refused.value)
    assert shown.startswith("json:dumps: ")
    assert shown.endswith(f" has the name of {modules}/json.py, and only one of them can. Rename the file.")


def test_two_files_of_one_name_are_not_taken_for_each_other(modules: Path) -> None:
    for folder in ("a", "b"):
        (modules / folder).mkdir()
        (modules / folder / "hold_tools.py").write_text(f"def who() -> str: return {folder!r}")
    assert load_function_tool("hold_tools:who", folder=str(modules / "a")).call() == "a"
    with pytest.raises(
        UsageError, match=r"a/hold_tools.py has the name of .*b/hold_tools.py, and only one of them can"
    ):
        load_function_tool("hold_tools:who", folder=str(modules / "b"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("search", snapshot("'search' is not the name of a function; write module:name, as in my_tools:search.")),
        (
            "hold_tools:",
            snapshot("'hold_tools:' is not the name of a function; write module:name, as in my_tools:search."),
        ),
        (
            "../hold_tools:search",
            snapshot("'../hold_tools:search' is not the name of a function; write module:name, as in my_tools:search."),
        ),
        (
            "hold_tools:search()",
            snapshot("'hold_tools:search()' is not the name of a function; write module:name, as in my_tools:search."),
        ),
        (
            "hold_nothing:search",
            snapshot("hold_nothing:search: there is no module 'hold_nothing' where Python looks, nor in DIR."),
        ),
        (
            "hold_tools.more:search",
            snapshot("hold_tools.more:search: there is no module 'hold_tools.more' where Python looks, nor in DIR."),
        ),
        ("hold_tools:serch", snapshot("hold_tools:serch: there is no 'serch' in hold_tools. Did you mean search?")),
        (
            "hold_tools:nothing_like_it",
            snapshot("hold_tools:nothing_like_it: there is no 'nothing_like_it' in hold_tools."),
        ),
        ("hold_tools:search.inner", snapshot("hold_tools:search.inner: there is no 'inner' in search.")),
        ("hold_tools:LIMIT", snapshot("hold_tools:LIMIT: 5 cannot be a tool: it is not a function.")),
        (
            "hold_tools:untyped",
            snapshot("hold_tools:untyped: the function untyped cannot be a tool: the parameter 'x' has no type."),
        ),
        ("hold_broken:search", snapshot("hold_broken:search: importing hold_broken failed: RuntimeError: no\\nway")),
        ("hold_leaving:search", snapshot("hold_leaving:search: importing hold_leaving failed: SystemExit: 3")),
        (
            "hold_needing:search",
            snapshot(
                "hold_needing:search: importing hold_needing failed: ModuleNotFoundError: No module named 'hold_missing'"
            ),
        ),
        (
            "hold_wrong:search",
            snapshot(
                "hold_wrong:search: importing hold_wrong failed: SyntaxError: invalid syntax (hold_wrong.py, line 1)"
            ),
        ),
    ],
)
def test_a_function_that_cannot_be_loaded_is_refused_with_the_reason(modules: Path, spec: str, message: str) -> None:
    (modules / "hold_tools.py").write_text("LIMIT = 5\ndef search(x: int): ...\ndef untyped(x): ...")
    (modules / "hold_broken.py").write_text("raise RuntimeError('no\\nway')")
    (modules / "hold_leaving.py").write_text("import sys\nsys.exit(3)")
    (modules / "hold_needing.py").write_text("import hold_missing")
    (modules / "hold_wrong.py").write_text("def search(:")
    with pytest.raises(UsageError) as refused:
        load_function_tool(spec, folder=str(modules))
    assert str(refused.value).replace(str(modules), "DIR") == message
