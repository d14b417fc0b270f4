"""Large texts in messages: whatever they hold and wherever a piece ends, they are what `json` reads."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.mcp.client import codec
from holdall.mcp.client.codec import LARGE, Kept, WholeResult, decode, only_text, parse, plain, without_structure
from holdall.mcp.gateway import messages
from holdall.values.outputs import LargeJson, LargeText

BODIES = st.text(
    st.one_of(
        st.sampled_from('\\"\n\t\x00/ué\u2028\U0001f600\U0010ffff'),
        st.characters(exclude_categories=("Cs",)),
    ),
    max_size=60,
)


def in_result(value: object, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": {**more, "structuredContent": value, "isError": False}}


def test_large_structured_content_is_taken_out_by_its_bytes() -> None:
    rows = {"rows": [{"n": n, "name": 'é\U0001f600 \\ "'} for n in range(50)]}
    message = in_result(rows, content=[{"type": "text", "text": '{"structuredContent": 1}'}])
    for line in (json.dumps(message), json.dumps(message, ensure_ascii=False, indent=1)):
        rest = bytearray(line.encode())
        found = without_structure(rest, large=100)
        assert found is not None
        assert found.value() == rows
        assert "é\U0001f600".encode() in found.data
        assert json.loads(rest) == in_result(None, content=message["result"]["content"])


@pytest.mark.parametrize(
    "message",
    [
        in_result({"a": "small"}),
        in_result("x" * 200),
        in_result({"result": "x" * 200}),  # as a text is repeated: it is one
        {"structuredContent": ["x" * 200]},
        {"result": {"content": [{"structuredContent": ["x" * 200]}]}},
        {"result": {"text": '"structuredContent": ' + "x" * 200}},
        [in_result(["x" * 200])],
    ],
)
def test_what_is_not_large_structured_content_stays(message: object) -> None:
    line = bytearray(json.dumps(message).encode())
    before = bytes(line)
    assert without_structure(line, large=100) is None
    assert line == before


def test_of_two_structures_none_is_taken_and_what_is_broken_is_left_to_json() -> None:
    large = json.dumps(["x" * 200])
    for text in (
        f'{{"result":{{"structuredContent":{large},"structuredContent":{large}}}}}',
        f'{{"result":{{"structuredContent":{large}',
        f'{{"result":{{"structuredContent":{large}}}}} {{}}',
    ):
        line = bytearray(text.encode())
        assert without_structure(line, large=100) is None
        assert line == text.encode()


def test_a_message_with_large_structured_content_is_what_json_reads() -> None:
    rows = [{"n": n, "name": "worker é"} for n in range(60_000)]
    text = "a line\n" * 200_000
    for content in ([], [{"type": "text", "text": "60,000 rows"}], [{"type": "text", "text": text}]):
        message = in_result({"rows": rows}, content=content)
        kept = Kept()
        [found] = decode(bytearray(json.dumps(message).encode()), kept)
        assert kept.large == {"1"}
        assert isinstance(found["result"]["structuredContent"], LargeJson)
        assert plain(found["result"]) == message["result"]
    two = f'{{"jsonrpc":"2.0","id":1,"result":{{"structuredContent":{json.dumps(rows)}}},"result":5}}'
    [refused] = decode(bytearray(two.encode()), Kept())
    assert refused.keys() == {"id", "error"}


def test_what_turns_out_to_be_no_json_is_its_text() -> None:
    assert LargeJson(b'{"a": nothing}').value() == '{"a": nothing}'
    assert LargeJson(b'{"a": "\xff"}').value() == {"a": "\udcff"}


def read(line: bytes, *, large: int = 8, piece: int = 16, most: int = 10_000) -> Any:
    return parse(bytearray(line), large=large, piece=piece, most=most)


@given(BODIES, BODIES, st.booleans(), st.integers(20, 60))
def test_a_message_with_large_texts_is_what_json_reads(one: str, other: str, ascii_only: bool, piece: int) -> None:
    value = {"id": 1, "result": {"content": [{"type": "text", "text": one}, {"text": other}], "a": [one, {one: 2}]}}
    line = json.dumps(value, ensure_ascii=ascii_only).encode()
    found = read(line, piece=piece)
    if found is not None:
        assert plain(found) == value
    else:
        longest = max(len(json.dumps(text, ensure_ascii=ascii_only).encode()) - 2 for text in (one, other))
        assert longest < 8 + 2 or "\\" * 32 in one + other


def test_the_line_is_emptied_where_a_text_was_found_and_else_not() -> None:
    line = bytearray(b'{"a":"' + b"x" * 100 + b'"}')
    assert parse(line, large=1000) is None
    assert len(line) == 108
    found = parse(line, large=100)
    assert isinstance(found, dict)
    assert line == b""
    assert plain(found) == {"a": "x" * 100}


def test_a_text_that_comes_twice_is_held_once() -> None:
    text = "a line\n" * 100
    found = read(
        json.dumps({"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}}).encode()
    )
    assert found["content"][0]["text"] is found["structuredContent"]["result"]
    longer = read(json.dumps([text, text + "more", text[:-8], text]).encode())
    assert plain(longer) == [text, text + "more", text[:-8], text]
    assert longer[0] is longer[3]


@pytest.mark.parametrize(
    "line",
    [
        rb'["\ud83d and then a half of a character"]',
        rb'["no such escape: \x and more of this text"]',
        b'["a byte that is no text: \xff and some more"]',
        b'["a control character: \x01 and more of this text"]',
        b'["it never ends, not even here and there',
        b'["a text that is large enough to be one", "holdall: large text 7"]',
        b"[1, 2, 3]",
    ],
)
def test_what_is_odd_is_left_to_json(line: bytes) -> None:
    whole = bytearray(line)
    assert parse(whole, large=30, piece=16) is None
    assert whole == line


def test_a_text_far_behind_in_much_data_is_left_to_json() -> None:
    rows = [f"row {number}" for number in range(2000)]
    assert read(json.dumps([rows, "x" * 1000]).encode(), large=100) is None
    line = json.dumps(["x" * 1000, rows]).encode()
    assert plain(read(line, large=100, most=len(line))) == ["x" * 1000, rows]
    assert read(line, large=100, most=20_000) is None


def block(text: object, **more: object) -> dict[str, object]:
    return {"type": "text", "text": text, **more}


def test_a_result_that_is_one_large_text_is_known() -> None:
    text, other = LargeText(b"text"), LargeText(b"other")
    for result in (
        {"content": [block(text)]},
        {"content": [block(text, annotations={})], "isError": False, "later": 1},
        {"content": [block(text)], "structuredContent": {"result": text}},
    ):
        assert only_text(result) is text
    for result in (
        {"content": [block(text)], "isError": True},
        {"content": [block(text), block("more")]},
        {"content": [block(text)], "structuredContent": {"result": other}},
        {"content": [block(text)], "structuredContent": {"result": text, "more": 1}},
        {"content": [{"type": "resource", "text": text}]},
        {"content": [block("small")]},
        {"content": text},
        {"content": [text]},
        {},
    ):
        assert only_text(result) is None


CROWDS: dict[str, Callable[[], dict[str, Any]]] = {  # made where they are used: that takes a second
    "blocks": lambda: {"content": [block(str(n)) for n in range(90_000)]},
    "meta": lambda: {"content": [block("x")], "_meta": {"rows": [[] for _ in range(400_000)]}, "isError": True},
    "members": lambda: {
        "content": [block("x", **{f"k{n}": 1 for n in range(260_000)})],
        "structuredContent": {"a": [1]},
    },
    "nested": lambda: {"content": [block("x")], "later": [[[[[n]]]] for n in range(90_000)]},
}


@pytest.mark.in_full(one_in=2)
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_result_of_very_many_values_is_one_text_of_its_json(crowd: str) -> None:
    result = CROWDS[crowd]()
    for message in (
        {"jsonrpc": "2.0", "id": 7, "result": result},
        {"result": result, "id": 7, "jsonrpc": "2.0"},
    ):
        kept = Kept()
        [found] = decode(bytearray(json.dumps(message).encode()), kept)
        assert found["id"] == 7
        assert kept.large == {"7"}
        assert isinstance(found["result"], WholeResult)
        assert found["result"].get("isError", False) == result.get("isError", False)
        [shown] = found["result"]["content"]
        assert shown["text"].data == json.dumps(result).encode()


def test_very_many_values_that_are_no_result_are_an_error_of_the_reply_or_nothing() -> None:
    many = [1] * 600_000
    for message in (
        {"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "no", "data": many}},
        {"jsonrpc": "2.0", "id": 7, "result": many},
    ):
        [found] = decode(bytearray(json.dumps(message).encode()), Kept())
        assert found["error"]["message"] == "a reply of more than 250,000 values, and no result"
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": many}},
        [{"jsonrpc": "2.0", "id": 7, "result": {"content": many}}],
    ):
        assert decode(bytearray(json.dumps(message).encode()), Kept()) == []
        assert decode(bytearray(json.dumps(message).encode())) == []


def test_of_a_long_message_no_more_is_read_at_once_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """`json` lets no other thread run until it has read all of it: whoever else is served would wait."""
    monkeypatch.setattr(codec, "AT_ONCE", 2 * LARGE)
    medium, short = {"content": [block("ab" * 300_000)] * 4}, {"content": [block("ab" * 500)] * 3000}

    [found] = decode(line_of({"jsonrpc": "2.0", "id": 7, "result": medium}), Kept(outputs={7}))
    assert [type(one["text"]) for one in found["result"]["content"]] == [LargeText] * 4
    assert plain(found["result"]) == medium

    for result in (short, {**short, "structuredContent": {"rows": ["x" * 10_000] * 500}}):
        [found] = decode(line_of({"jsonrpc": "2.0", "id": 7, "result": result}), Kept(outputs={7}))
        assert isinstance(found["result"], WholeResult)
        assert json.loads(found["result"]["content"][0]["text"].data) == result

    failed = {"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "no", "data": short}}
    assert decode(line_of(failed), Kept())[0]["error"]["data"] is codec.GARBLED
    assert decode(line_of({"jsonrpc": "2.0", "method": "notifications/x", "params": {"two": [short, short]}})) == []


@pytest.mark.parametrize("slashes", [63, 64, 65, 5000])
def test_a_large_text_is_taken_out_whatever_number_of_backslashes_ends_it(slashes: int) -> None:
    text = "x" * LARGE + "\\" * slashes
    [found] = decode(
        line_of({"jsonrpc": "2.0", "id": 7, "result": {"content": [block(text + '"'), block(text)]}}), Kept()
    )
    assert [one["text"].data.decode() for one in found["result"]["content"]] == [text + '"', text]


def line_of(message: object) -> bytearray:
    return bytearray(json.dumps(message).encode())


def test_signs_inside_texts_and_structured_content_are_no_values_beside_them() -> None:
    rows = [{"n": n} for n in range(200_000)]
    texts = [block(f'[{number}, {{"\\' * 60_000) for number in range(5)]
    message = in_result({"rows": rows}, content=texts)
    [found] = decode(bytearray(json.dumps(message).encode()), Kept(outputs={1}))
    assert not isinstance(found["result"], WholeResult)
    assert plain(found["result"]) == message["result"]


def test_a_text_that_never_ends_is_looked_through_once() -> None:
    line = bytearray(b'{"jsonrpc":"2.0","id":7,"result":{"a":[' + b"1," * 400_000 + b'"' + b'\\",' * 500_000)
    [found] = decode(line, Kept())
    assert "error" in found


def test_what_has_no_large_text_stays_the_same_object() -> None:
    value = {"a": [1, {"b": "c"}], "d": None}
    assert plain(value) is value
    assert plain({"a": [LargeText("é".encode())], "b": value}) == {"a": ["é"], "b": value}


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_json_is_not_passed_on_by_its_bytes(word: str) -> None:
    line = f'{{"jsonrpc":"2.0","id":1,"result":{{"content":[],"structuredContent":{{"n":{word}}}}}}}'
    [found] = decode(bytearray(line.encode()), Kept())
    written = messages.encode({"jsonrpc": "2.0", **found})
    read = json.loads(written, parse_constant=pytest.fail)
    assert read["result"]["structuredContent"] == {"n": word}


def test_half_of_a_surrogate_pair_is_not_passed_on_by_its_bytes() -> None:
    """The official client would wait for this answer for ever. A whole pair is a character like any other."""
    for escape, shown in ((r"\ud800 x", "\ufffd x"), (r"\uD83D\uDE00", "\N{GRINNING FACE}"), (r"\\ud800", r"\ud800")):
        line = f'{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{escape}"}}]}}}}'
        [found] = decode(bytearray(line.encode()), Kept())
        written = messages.encode({"jsonrpc": "2.0", **found})
        assert json.loads(written)["result"]["content"][0]["text"] == shown
        assert (escape.encode() in written) is (shown != "\ufffd x")


# What is no output


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("order", [("jsonrpc", "id", "result"), ("result", "jsonrpc", "id"), ("result", "id", "jsonrpc"),
                                   ("id", "result", "jsonrpc"), ("jsonrpc", "result", "id", "more")])  # fmt: skip
def test_only_the_results_of_tools_and_resources_may_be_large(order: tuple[str, ...], spaced: bool) -> None:
    fields = {"jsonrpc": "2.0", "id": 7, "result": {"id": 8, "text": "x" * codec.MOST_BESIDE}, "more": 1}
    message = {name: fields[name] for name in order}
    line = bytearray(json.dumps(message, separators=None if spaced else (",", ":")).encode())
    [found] = decode(bytearray(line), Kept(outputs={8}))
    assert found["error"]["message"] == (
        f"{len(line):,} bytes; only results of tools and resources may have more than 4,194,304"
    )
    assert (found["id"], found["error"]["data"]) == (7, codec.GARBLED)
    [found] = decode(line, Kept(outputs={7}))
    assert plain(found["result"]) == fields["result"]


def test_a_notification_that_is_too_large_is_dropped_with_a_word_and_a_request_is_left_to_be_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/x", "params": {"text": "x" * codec.MOST_BESIDE}}
    reply = {"jsonrpc": "2.0", "id": 7, "result": {"text": "y"}}
    for one in (note, dict(reversed(note.items())), [note], {**note, "id": "a"}):
        assert decode(line_of(one), Kept(outputs={7})) == [{"id": -1, "result": {}}], "and is no noise"
        assert "is dropped: it is no result of a tool or resource" in caplog.text
        caplog.clear()
    assert decode(line_of(note)) == []
    assert decode(line_of([note, reply]), Kept(outputs={7})) == [{"id": 7, "result": {"text": "y"}}]
    twice = b'{"jsonrpc":"2.0","id":7,"result":' + json.dumps(note).encode() + b',"id":9}'
    assert decode(bytearray(twice), Kept(outputs={7})) == [{"id": -1, "result": {}}]
    for asked in ({"jsonrpc": "2.0", "id": 3, **note}, {**note, "id": 3}):
        [found] = decode(line_of(asked), Kept())
        assert (found["id"], found["method"], found["params"]) == (3, note["method"], note["params"])


@pytest.mark.in_full(one_in=4)
@pytest.mark.parametrize("place", ["meta", "name", "type", "payload"])
def test_what_is_large_where_no_text_is_stays_the_json_of_all_of_the_result(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "MOST_BESIDE", LARGE)
    large = "\u00e9\U0001f600\n" * LARGE
    results: dict[str, dict[str, Any]] = {
        "meta": {"content": [], "_meta": {"a": large}},
        "name": {"content": [{"type": "text", "text": "small", large: 1}]},
        "type": {"content": [{"type": large, "text": "small"}], "isError": True},
        "payload": {"content": [{"type": "image", "mimeType": "image/png", "data": large}]},
    }
    message = {"jsonrpc": "2.0", "id": 7, "result": results[place]}
    for line in (json.dumps(message), json.dumps(message, ensure_ascii=False)):
        [found] = decode(bytearray(line.encode()), Kept(outputs={7}))
        result = found["result"]
        assert isinstance(result, WholeResult)
        assert bool(result.get("isError")) == (place == "type")
        data = result["content"][0]["text"].data
        assert json.loads(data) == results[place]
        assert "\u00e9\U0001f600".encode() in data


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_large_data_of_an_error_is_what_the_call_failed_with_and_of_others_is_as_it_came(
    wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "MOST_BESIDE", LARGE)
    data: Any = {"why": "\u00e9" * LARGE} if wrapped else "\u00e9" * LARGE
    message = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32000, "message": "no", "data": data}}
    line = json.dumps(message).encode()
    [other] = decode(bytearray(line), Kept(outputs={7}))
    assert other["error"] == message["error"]
    [found] = decode(bytearray(line), Kept(outputs={7}, calls={7}))
    assert found["result"]["isError"] is True
    said = str(found["result"]["content"][0]["text"])
    told = json.dumps(data, ensure_ascii=False) if wrapped else data
    assert said == f"(code -32000) no\n{told}"
