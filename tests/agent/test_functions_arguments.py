"""What a model wrote becomes what a function takes, or the model is told which argument is wrong and what it must be."""

import datetime
import enum
import json
import math
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, cast

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from holdall.agent.functions import BadArguments, function_tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.x > 1000:
            raise ValueError(f"x is {self.x}, and the map ends at 1000")


@dataclass
class Node:
    value: int
    children: "list[Node]" = field(default_factory=list["Node"])


class Filter(TypedDict):
    since: int
    until: NotRequired[int | None]


class Size(NamedTuple):
    wide: int
    high: int


class Bounded(BaseModel):
    share: Annotated[float, Field(ge=0, le=1)]


@dataclass
class Refusing:
    x: int

    def __post_init__(self) -> None:
        raise TypeError("it takes no points today")


def reading(annotation: Any, value: Any, default: Any = ...) -> Any:
    def call(x: Any) -> None: ...

    call.__annotations__["x"] = annotation
    call.__defaults__ = None if default is ... else (default,)
    return function_tool(call).read({"x": value}).get("x", "left out")


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (str, "x", "x"),
        (int, 5.0, 5),
        (float, 5, 5.0),
        (bool, True, True),
        (None, None, None),
        (Any, {"a": [1]}, {"a": [1]}),
        (Literal["a", 1, True, None], 1, 1),
        (Literal["a", 1, True, None], True, True),
        (Colour, "blue", Colour.BLUE),
        (Level, 2, Level.HIGH),
        (list[int], [1, 2], [1, 2]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (tuple[int, str], [1, "x"], (1, "x")),
        (set[int], [1, 1, 2], {1, 2}),
        (frozenset[Point], [{"x": 1}, {"x": 1}], frozenset({Point(1)})),
        (dict[str, Level], {"a": 1}, {"a": Level.LOW}),
        (Point, {"x": 1, "tags": ["a"]}, Point(1, tags=("a",))),
        (Filter, {"since": 1}, {"since": 1}),
        (Filter, {"since": 1, "until": None}, {"since": 1, "until": None}),
        (Node, {"value": 1, "children": [{"value": 2}]}, Node(1, [Node(2)])),
        (Point | Filter, {"since": 1}, {"since": 1}),
        (int | str, "5", "5"),
        (str | int, 5, 5),
        (Colour | str, "green", "green"),
        (list[int] | int, 5, 5),
    ],
    ids=str,
)
def test_arguments_become_the_annotated_types(annotation: Any, value: Any, expected: Any) -> None:
    found = reading(annotation, value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, "5", 5),
        (int, " -5 ", -5),
        (int, "5.0", 5),
        (float, "2.5e3", 2500.0),
        (bool, "True", True),
        (str, 12, "12"),
        (str, 1.5, "1.5"),
        (Level, "2", Level.HIGH),
        (Level, 2.0, Level.HIGH),
        (bool, "yes", True),
        (bool, 1, True),
        (int, True, 1),
        (datetime.date, "2026-11-15", datetime.date(2026, 11, 15)),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (Size, [1, "2"], Size(1, 2)),
        (Bounded, {"share": "0.5"}, Bounded(share=0.5)),
        (list[int], "[1, 2]", [1, 2]),
        (list[int], ["1", 2.0], [1, 2]),
        (Point, '{"x": "1"}', Point(1)),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (int | None, "5", 5),
        (Point | None, '{"x": 1}', Point(1)),
    ],
    ids=str,
)
def test_what_was_surely_meant_is_taken(annotation: Any, value: Any, expected: Any) -> None:
    found = reading(annotation, value)
    assert (found, type(found)) == (expected, type(expected))


def test_a_null_for_what_may_be_left_out_is_left_out() -> None:
    assert reading(int, None, 5) == "left out"
    assert reading(int | None, None, 5) is None
    assert reading(Point, {"x": 1, "y": None}) == Point(1)
    with pytest.raises(BadArguments, match="'x' must be an integer"):
        reading(int, None)


MISFITS: list[tuple[Any, Any, str]] = [
    (str, None, snapshot("The argument 'x' must be a string.")),
    (str, True, snapshot("The argument 'x' must be a string.")),
    (str, ["a"], snapshot("The argument 'x' must be a string.")),
    (int, 5.5, snapshot("The argument 'x' must be an integer.")),
    (int, "five", snapshot("The argument 'x' must be an integer.")),
    (int, math.inf, snapshot("The argument 'x' must be a number.")),
    (float, "nan", snapshot("The argument 'x' must be a number.")),
    (float, math.nan, snapshot("The argument 'x' must be a number.")),
    (float, 10**400, snapshot("The argument 'x' must be a number.")),
    (bool, "maybe", snapshot("The argument 'x' must be true or false.")),
    (datetime.date, "soon", snapshot("The argument 'x' must be a valid date or datetime, input is too short.")),
    (Bounded, {"share": 2}, snapshot("The argument 'x.share' must be less than or equal to 1.")),
    (Bounded, {"shares": 2}, snapshot("The argument 'x.share' is missing.")),
    (Refusing, {"x": 1}, snapshot("The arguments cannot be read: it takes no points today.")),
    (set[Any], [[1]], snapshot("The argument 'x[0]' is not right: Set items should be hashable.")),
    (None, 0, snapshot("The argument 'x' must be null.")),
    (Colour, "green", snapshot("The argument 'x' must be 'red' or 'blue'.")),
    (Colour, "RED", snapshot("The argument 'x' must be 'red' or 'blue'.")),
    (Level, 3, snapshot("The argument 'x' must be 1 or 2.")),
    (Literal["a", 1, None], 2, snapshot("The argument 'x' must be 'a', 1 or None.")),
    (
        Literal[tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")],
        "?",
        snapshot(
            "The argument 'x' must be 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O', 'P', 'Q', 'R', 'S', 'T', 'U', 'V', 'W', 'X', 'Y' or 'Z'."
        ),
    ),
    (list[int], 5, snapshot("The argument 'x' must be an array.")),
    (list[int], "1, 2", snapshot("The argument 'x' must be an array.")),
    (list[int], {"a": 1}, snapshot("The argument 'x' must be an array.")),
    (list[list[int]], [[1], [2, "x"]], snapshot("The argument 'x[1][1]' must be an integer.")),
    (tuple[int, str], [1], snapshot("The argument 'x[1]' is missing.")),
    (dict[str, int], [1], snapshot("The argument 'x' must be an object.")),
    (dict[str, list[int]], {"a b": [1, "x"]}, snapshot("The argument 'x.a b[1]' must be an integer.")),
    (Point, 5, snapshot("The argument 'x' must be an object.")),
    (Point, {}, snapshot("The argument 'x.x' is missing.")),
    (Point, {"x": 1, "z": 2}, snapshot("The argument 'x' has no 'z'. It has: x, y, tags.")),
    (Point, {"x": 1, "tags": [5, None]}, snapshot("The argument 'x.tags[1]' must be a string.")),
    (Point, {"x": 5000}, snapshot("The argument 'x' is not right: x is 5000, and the map ends at 1000.")),
    (Filter, {"since": "a"}, snapshot("The argument 'x.since' must be an integer.")),
    (list[Filter], [{"since": 1}, {}], snapshot("The argument 'x[1].since' is missing.")),
    (
        Node,
        {"value": 1, "children": [{"value": 2, "children": [{}]}]},
        snapshot("The argument 'x.children[0].children[0].value' is missing."),
    ),
    (int | None, "x", snapshot("The argument 'x' must be an integer.")),
    (int | str | None, [], snapshot("The argument 'x' must be an integer or a string.")),
    (Point | None, {"x": "a"}, snapshot("The argument 'x.x' must be an integer.")),
    (Point | None, {"y": 1}, snapshot("The argument 'x.x' is missing.")),
    (Point | Filter, {"q": 1}, snapshot("The argument 'x' has no 'q'. It has: x, y, tags, since, until.")),
    (Colour | None, "green", snapshot("The argument 'x' must be 'red' or 'blue'.")),
]


@pytest.mark.parametrize(("annotation", "value", "message"), MISFITS)
def test_the_model_is_told_which_argument_is_wrong_and_what_it_must_be(
    annotation: Any, value: Any, message: str
) -> None:
    with pytest.raises(BadArguments) as refused:
        reading(annotation, value)
    assert str(refused.value) == message


def search(query: str, limit: int = 10) -> str:
    return query * limit


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, snapshot("The argument 'query' is missing.")),
        ({"limit": 5}, snapshot("The argument 'query' is missing.")),
        ({"query": "x", "limits": 5}, snapshot("There is no argument 'limits'. Arguments are: query, limit.")),
        ({"query": "x", "writer": 5}, snapshot("There is no argument 'writer'. Arguments are: query, limit.")),
        (
            {"query": "x", "y" * 1000: 5},
            snapshot(
                "There is no argument 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'. Arguments are: query, limit."
            ),
        ),
        ([], snapshot("The arguments must be an object.")),
        (None, snapshot("The arguments must be an object.")),
        ("query", snapshot("The arguments must be an object.")),
    ],
)
def test_arguments_that_are_missing_unknown_or_none(arguments: Any, message: str) -> None:
    with pytest.raises(BadArguments) as refused:
        function_tool(search).read(arguments)
    assert str(refused.value) == message


def test_a_function_without_parameters_takes_nothing() -> None:
    def now() -> str:
        return "now"

    tool = function_tool(now)
    assert tool.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool.read({}) == {}
    with pytest.raises(BadArguments) as refused:
        tool.read({"x": 1})
    assert str(refused.value) == "There is no argument 'x'. Arguments are: none."


def test_a_value_of_any_depth_and_size_gets_an_answer() -> None:
    deep: dict[str, Any] = {"value": 1}
    for _ in range(50_000):
        deep = {"value": 1, "children": [deep]}
    with pytest.raises(BadArguments) as refused:
        reading(Node, deep)
    assert str(refused.value) == snapshot("The arguments are nested too deeply.")
    with pytest.raises(BadArguments) as refused:
        reading(list[int], "[" * 1_000_000)
    assert str(refused.value) == snapshot("The arguments are nested too deeply.")
    with pytest.raises(BadArguments) as refused:
        reading(Literal["x" * 1_000_000], "y" * 1_000_000)
    assert len(str(refused.value)) < 1000
    with pytest.raises(BadArguments) as refused:
        reading(dict[str, int], {"k" * 1_000_000: "v" * 1_000_000})
    assert len(str(refused.value)) < 1000
    assert reading(int, 10**5000) == 10**5000
    with pytest.raises(BadArguments) as refused:
        reading(str, 10**5000)
    assert str(refused.value) == snapshot(
        "The arguments cannot be read: Exceeds the limit (4300 digits) for integer string conversion; use sys.set_int_max_str_digits() to increase the limit."
    )


@dataclass
class Add:
    left: "Add | Mul | int"
    right: "Add | Mul | int"


@dataclass
class Mul:
    left: "Add | Mul | int"
    right: "Add | Mul | int"


def test_unions_that_hold_themselves_are_not_tried_in_every_way() -> None:
    def tree(depth: int, leaf: object) -> Any:
        return {"left": tree(depth - 1, leaf), "right": 1} if depth else leaf

    found = reading(Add | Mul | int, tree(10, 1))
    assert isinstance(found, Add)
    with pytest.raises(BadArguments) as refused:
        reading(Add | Mul | int, tree(10, "x"))
    assert str(refused.value) == f"The argument 'x{'.left' * 10}' must be an object or an integer."
    for depth in (30, 300):  # pydantic would try each of the two at every level, 2**30 times in all
        with pytest.raises(BadArguments, match=r"^The arguments are nested too deeply\.$"):
            reading(Add | Mul | int, tree(depth, 1))
    with pytest.raises(BadArguments, match=r"'x\.left' must be an object or an integer"):
        reading(Add | Mul | int, '{"left": "[1]", "right": 1}')
    assert reading(list[int | None], [1, None] * 100_000)[:2] == [1, None], "many are not too many"
    deep: Any = 1
    for _ in range(200):
        deep = {"a": deep}
    assert reading(dict[str, Any], deep) == deep, "what holds anything is read in one way"


def test_of_a_long_place_the_ends_are_told() -> None:
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"value": 1, "children": [deep]}
    with pytest.raises(BadArguments) as refused:
        reading(Node, deep)
    assert str(refused.value) == snapshot(
        "The argument 'x.children[0].children[0].children[0].children[0].children[0].children[0].children[0].children[0].ch … hildren[0].children[0].children[0].children[0].children[0].children[0].children[0].children[0].value' is missing."
    )


# Whatever the types are: annotations with values of theirs, and how those look in JSON

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, st.text()),
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (None, st.none()),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Literal["a", 1, True, None], st.sampled_from(["a", 1, True, None])),
    (Point, st.builds(Point, st.integers(-5, 5), st.floats(-1, 1), st.lists(st.text()).map(tuple))),
]
Typed = tuple[Any, st.SearchStrategy[Any]]


def _wider(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.one_of(
        inner.map(lambda one: (list[one[0]], st.lists(one[1], max_size=3))),
        inner.map(lambda one: (tuple[one[0], ...], st.lists(one[1], max_size=3).map(tuple))),
        inner.map(lambda one: (dict[str, one[0]], st.dictionaries(st.text(max_size=5), one[1], max_size=3))),
        st.tuples(inner, inner).map(lambda two: (tuple[two[0][0], two[1][0]], st.tuples(two[0][1], two[1][1]))),
        inner.map(lambda one: (one[0] | None if one[0] is not None else None, one[1] | st.none())),
    )


TYPES = st.recursive(st.sampled_from(LEAVES), _wider, max_leaves=3)


def as_json(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Point):
        return as_json(asdict(value))
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(one) for one in cast("list[Any]", value)]
    return (
        {name: as_json(one) for name, one in cast("dict[str, Any]", value).items()}
        if isinstance(value, dict)
        else value
    )


def _same(found: Any, expected: Any) -> bool:
    """Equal and of the same types all the way down: True is not 1."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, list | tuple):
        some, others = cast("list[Any]", found), cast("list[Any]", expected)
        return len(some) == len(others) and all(_same(one, other) for one, other in zip(some, others, strict=True))
    if isinstance(found, dict):
        first, second = cast("dict[str, Any]", found), cast("dict[str, Any]", expected)
        return first.keys() == second.keys() and all(_same(first[name], second[name]) for name in first)
    return found == expected


@given(st.data())
def test_any_value_of_any_type_comes_back_from_its_json(data: st.DataObject) -> None:
    annotation, values = data.draw(TYPES)
    value = data.draw(values)
    written = json.loads(json.dumps(as_json(value)))
    assert _same(reading(annotation, written), value)


@given(TYPES, JSON)
def test_any_json_for_any_type_is_read_or_refused_in_one_sentence(typed: Typed, value: Any) -> None:
    try:
        reading(typed[0], value)
    except BadArguments as problem:
        shown = str(problem)
    else:
        return
    assert shown.startswith(("The argument 'x", 'The argument "x'))
    assert shown.endswith(".")
    assert len(shown) < 1000


@given(st.data())
def test_what_the_schema_allows_is_read_and_values_of_the_type_fit_the_schema(data: st.DataObject) -> None:
    annotation, values = data.draw(TYPES)

    def call(x: Any) -> None: ...

    call.__annotations__["x"] = annotation
    tool = function_tool(call)
    validator: Any = cast("Any", jsonschema).Draft202012Validator
    validator.check_schema(tool.schema)
    written = json.loads(json.dumps(as_json(data.draw(values))))
    assert validator(tool.schema).is_valid({"x": written})
    other = data.draw(JSON)
    if validator(tool.schema).is_valid({"x": other}):
        try:
            tool.read({"x": other})
        except BadArguments as problem:
            assert "and the map ends at 1000" in str(problem)  # noqa: PT017 - the check of Point is in no schema


@pytest.mark.parametrize("number", [2.0**63, 2.0**70, -(2.0**63), 2**70, 3.0])
def test_a_whole_number_is_one_however_large_and_however_json_writes_it(number: float) -> None:
    assert reading(dict[str, int | None], {"a": number}) == {"a": int(number)}
    with pytest.raises(BadArguments, match="must be an integer"):
        reading(int, 1.5)
