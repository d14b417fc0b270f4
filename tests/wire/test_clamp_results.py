"""The clamp of results: shapes are kept, budgets are shared, nothing is changed in place."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.policy.decide import Limits
from holdall.wire.clamp import SUFFIX, clamp_result, structured_content_of, suffix_for, with_structured_content
from holdall.wire.dialects import DIALECTS
from tests.requirements import requirement
from tests.wire.texts import lines, size, texts

LIMITS = DIALECTS["clamp"].limits
SMALL = Limits(bytes=400, lines=10)
IMAGE = {"type": "image", "data": "A" * 100_000, "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///a", "text": "x" * 100_000}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def resource(text: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "text/plain", "text": text}}


def clamped(result: Any, limits: Limits = LIMITS, **options: Any) -> Any:
    """The clamp, with a look at whether it changed what it was given."""
    before = copy.deepcopy(result)
    new = clamp_result(result, limits, **options)
    assert result == before
    return new


# ── Shapes ──────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("clamp:under-limits-same-object")
@pytest.mark.parametrize(
    "result",
    [
        pytest.param("short", id="text"),
        pytest.param({"content": [text_block("ok"), IMAGE]}, id="mcp"),
        pytest.param([text_block("x" * 51_199), text_block("x")], id="blocks, exactly at the limit"),
        pytest.param(
            {"content": [text_block("x\n" * 1000), text_block("x\n" * 1000)]}, id="lines, exactly at the limit"
        ),
        pytest.param({"content": [IMAGE, LINK, {"type": "audio", "data": "A" * 99_999}]}, id="no text"),
        pytest.param({"content": []}, id="no blocks"),
        pytest.param({"content": None}, id="no list"),
        pytest.param(b"x" * 100_000, id="bytes"),
        pytest.param({"rows": ["x" * 100_000]}, id="a JSON value"),
        pytest.param(["x" * 100_000], id="a JSON list"),
        pytest.param(None, id="nothing"),
        pytest.param(7, id="a number"),
    ],
)
def test_what_fits_or_has_no_text_blocks_is_the_same_object(result: object) -> None:
    assert clamp_result(result, LIMITS) is result


@requirement("clamp:pure", "clamp:other-blocks-stay")
def test_a_result_keeps_its_shape_and_every_other_field() -> None:
    meta = {"trace": object()}
    unknown = {"type": "hologram", "text": "x" * 100_000}
    result: dict[str, Any] = {
        "content": [IMAGE, text_block("x" * 60_000), unknown, LINK],
        "isError": True,
        "_meta": meta,
    }
    new: Any = clamp_result(result, LIMITS)
    assert list(new.keys()) == ["content", "isError", "_meta"]
    assert new["isError"] is True
    assert new["_meta"] is meta
    image, text, strange, link = new["content"]
    assert (image is IMAGE, strange is unknown, link is LINK) == (True, True, True)
    assert text == text_block("x" * (51_200 - len(SUFFIX)) + SUFFIX)
    assert result["content"][1] == text_block("x" * 60_000)


@requirement("clamp:pure")
def test_a_partial_update_is_clamped_like_a_result() -> None:
    update = {"content": [text_block("x" * 60_000)], "details": {"percent": 40}}
    assert clamped(update) == {
        "content": [text_block("x" * (51_200 - len(SUFFIX)) + SUFFIX)],
        "details": {"percent": 40},
    }


@dataclass
class Block:
    type: str
    text: str
    annotations: object = None


@dataclass(frozen=True, slots=True)
class FrozenBlock:
    type: str
    text: str


class Model:
    """As much of a pydantic model as matters here."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("frozen")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def model_copy(self, *, update: dict[str, Any]) -> "Model":
        return Model(**{**vars(self), **update})


class PlainBlock:
    type = "text"

    def __init__(self, text: str) -> None:
        self.text = text


class TupleBlock(NamedTuple):
    type: str
    text: str


def frozen(text: str) -> FrozenBlock:
    return FrozenBlock("text", text)


def dataclass_block(text: str) -> Block:
    return Block("text", text)


def model(text: str) -> Model:
    return Model(type="text", text=text)


def namespace(text: str) -> SimpleNamespace:
    return SimpleNamespace(type="text", text=text)


def named_tuple(text: str) -> TupleBlock:
    return TupleBlock("text", text)


@pytest.mark.parametrize("make", [dataclass_block, frozen, model, PlainBlock, namespace, named_tuple])
def test_a_block_with_attributes_is_copied_not_changed(make: Callable[[str], Any]) -> None:
    block = make("x" * 60_000)
    result = SimpleNamespace(content=[block, IMAGE], isError=True)
    new: Any = clamp_result(result, LIMITS)
    assert type(new.content[0]) is type(block)
    assert new.content[0].text == "x" * (51_200 - len(SUFFIX)) + SUFFIX
    assert new.content[0].type == "text"
    assert (new.content[1], new.isError) == (IMAGE, True)
    assert result.content[0] is block
    assert block.text == "x" * 60_000


def test_a_frozen_pydantic_result_is_copied() -> None:
    result = Model(content=[Model(type="text", text="x" * 60_000)], is_error=True, structured_content={"a": 1})
    new: Any = clamped(result)
    assert type(new) is Model
    assert new.content[0].text.endswith(SUFFIX)
    assert (new.is_error, new.structured_content) == (True, {"a": 1})


def test_a_block_that_cannot_be_copied_becomes_a_dictionary() -> None:
    class Stubborn:
        type = "text"

        def __init__(self) -> None:
            self.note = 1

        @property
        def text(self) -> str:
            return "x" * 60_000

        @property
        def resource(self) -> str:
            raise RuntimeError("no")

    new: Any = clamp_result([Stubborn()], LIMITS)
    assert new == [{"note": 1, "text": "x" * (51_200 - len(SUFFIX)) + SUFFIX}]


def test_a_field_that_fails_when_it_is_read_is_not_there() -> None:
    class Failing:
        @property
        def content(self) -> str:
            raise RuntimeError("no")

    result = Failing()
    assert clamp_result(result, LIMITS) is result


def test_mappings_lists_and_tuples_of_every_kind_are_taken() -> None:
    long, cut = "x" * 60_000, "x" * (51_200 - len(SUFFIX)) + SUFFIX
    assert clamped((text_block(long),)) == (text_block(cut),)
    assert clamp_result(MappingProxyType({"content": [text_block(long)], "a": 1}), LIMITS) == {
        "content": [text_block(cut)],
        "a": 1,
    }
    assert clamped(text_block(long)) == text_block(cut)
    assert clamped({"content": long}) == {"content": cut}
    assert clamped({"content": [long]}) == {"content": [cut]}
    assert clamped({"content": [{"text": long}]}) == {"content": [{"text": cut}]}
    assert clamped(resource(long)) == resource(cut)


# ── Budgets ─────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("clamp:budget-shared", "clamp:later-text-blocks", "clamp:other-blocks-stay")
def test_clamp_006_the_budget_ends_in_the_third_of_five_blocks() -> None:
    blocks = [{**text_block("x" * 20_000), "number": number} for number in range(5)]
    blocks.insert(4, IMAGE)
    new = clamped({"content": blocks})["content"]
    assert new[0] is blocks[0]
    assert new[1] is blocks[1]
    assert new[4] is IMAGE
    assert [block.get("number") for block in new] == [0, 1, 2, 3, None, 4]
    assert new[2]["text"] == "x" * (51_200 - 40_000 - 2 * 74 - len(SUFFIX)) + SUFFIX
    assert new[3]["text"] == new[5]["text"]
    assert new[3]["text"] == snapshot("[tool output truncated: a text block of 20,000 bytes (1 line) is left out]")
    assert sum(size(block.get("text", "")) for block in new) == 51_200


@requirement("clamp:budget-shared")
def test_the_line_budget_is_shared_too() -> None:
    new = clamped([text_block("a\n" * 1500), resource("b\n" * 1500), text_block("c\n" * 9)])
    assert [size_of(block) for block in new] == [
        "a\n" * 1500,
        "b\n" * 500 + SUFFIX,
        "[tool output truncated: a text block of 18 bytes (9 lines) is left out]",
    ]


def size_of(block: dict[str, Any]) -> str:
    return block["resource"]["text"] if block["type"] == "resource" else block["text"]


def test_a_budget_that_ends_between_two_blocks_leaves_the_first_whole() -> None:
    first = text_block("a\n" * 2000)
    new = clamped([first, text_block("b"), text_block("c")])
    marker = "[tool output truncated: a text block of 1 byte (1 line) is left out]"
    assert new == [first, text_block(marker + SUFFIX), text_block(marker)]
    assert clamp_result(new, LIMITS) is new


def test_a_suffix_with_a_handle_stands_in_the_result_wherever_the_budget_ends() -> None:
    suffix = suffix_for(51_200, 2000, handle="k3f9")
    for length in range(50_700, 51_250, 7):
        new = clamped([text_block("a" * length), text_block("b" * 700), text_block("c")], suffix=suffix)
        shown = [block["text"] for block in new]
        assert sum(text.count(suffix) for text in shown) == 1
        assert sum(map(size, shown)) <= 51_200


def test_an_empty_block_stays_after_the_budget() -> None:
    empty = text_block("")
    new = clamped([text_block("x" * 60_000), empty])
    assert new[1] is empty


def test_of_a_hundred_thousand_blocks_the_last_marker_counts_the_rest() -> None:
    blocks: list[Any] = [text_block("x" * 10)] * 100_000
    blocks.insert(50_000, IMAGE)
    new = clamped({"content": blocks})["content"]
    shown = [block["text"] for block in new if block is not IMAGE]
    assert sum(map(size, shown)) <= 51_200
    assert IMAGE in new
    kept = shown.index("x" * 10 + SUFFIX) if "x" * 10 + SUFFIX in shown else shown.count("x" * 10)
    assert shown[kept].endswith(SUFFIX)
    assert set(shown[kept + 1 : -1]) == {"[tool output truncated: a text block of 10 bytes (1 line) is left out]"}
    assert shown[-1] == snapshot("[tool output truncated: 97,818 text blocks of 978,180 bytes are left out]")
    assert int(shown[-1].split()[3].replace(",", "")) + len(shown) - 1 == 100_000


def test_without_a_byte_limit_only_lines_are_counted() -> None:
    limits = Limits(lines=3)
    new = clamped([text_block("x" * 100_000), text_block("a\nb\nc\n"), text_block("d")], limits)
    assert [block["text"] for block in new] == [
        "x" * 100_000,
        "a\nb\n" + suffix_for(None, 3),
        "[tool output truncated: a text block of 1 byte (1 line) is left out]",
    ]
    assert clamped([text_block("x\n" * 50), text_block("y" * 500)], Limits(bytes=400))[1]["text"].startswith("y")


def test_suffix_and_tag_are_used_in_blocks() -> None:
    suffix = suffix_for(51_200, 2000, handle="k3f9")
    new = clamped([text_block((SUFFIX + "x") * 1000)], suffix=suffix, tag="9f2c")
    assert new[0]["text"].endswith("\n\n[holdall:9f2c] " + suffix[2:])


@given(
    st.lists(st.one_of(texts.map(text_block), texts.map(resource), st.just(IMAGE)), max_size=12),
    st.integers(min_value=0, max_value=600),
    st.integers(min_value=0, max_value=30),
)
def test_any_list_of_blocks_fits_its_budgets_and_is_then_left_alone(
    blocks: list[dict[str, Any]], max_bytes: int, max_lines: int
) -> None:
    limits = Limits(bytes=max_bytes, lines=max_lines)
    new = clamped(blocks, limits)
    shown = [size_of(block) for block in new if block is not IMAGE]
    assert sum(map(size, shown)) <= max_bytes
    assert sum(lines(text) for text in shown if "truncated" not in text and text not in ("…", "[cut]")) <= max_lines
    assert sum(block is IMAGE for block in new) == sum(block is IMAGE for block in blocks)
    fits = sum(size(size_of(block)) for block in blocks if block is not IMAGE) <= max_bytes
    if fits and sum(lines(size_of(block)) for block in blocks if block is not IMAGE) <= max_lines:
        assert new is blocks
    assert clamp_result(new, limits) == new


# ── The structured twin ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Result:
    content: list[Any] = field(default_factory=list[Any])
    structured_content: object = None


def test_structured_content_is_left_to_the_caller_who_can_replace_it() -> None:
    rows = {"rows": ["x" * 1000] * 5000}
    result = {"content": [text_block("ok")], "structuredContent": rows}
    assert clamp_result(result, LIMITS) is result
    assert structured_content_of(result) is rows
    assert with_structured_content(result, {"handle": "k3f9"}) == {
        "content": [text_block("ok")],
        "structuredContent": {"handle": "k3f9"},
    }
    model = Result([text_block("ok")], rows)
    assert structured_content_of(model) is rows
    assert with_structured_content(model, None) == Result([text_block("ok")], None)
    assert model.structured_content is rows
    assert structured_content_of("text") is None
