"""The truncation of old: JSON stays JSON, other text keeps both ends, and what is gone is counted."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.text.utf8 import encode
from holdall.wire.dialects import DIALECTS
from holdall.wire.legacy import Members, parse, parse_deep, truncate
from tests.requirements import requirement
from tests.wire.texts import broken_texts, lines, size, texts

LIMIT = DIALECTS["legacy"].limits.bytes or 0


def shortened(value: Any, limit: int = LIMIT) -> str:
    """The JSON of `value`, cut."""
    done = truncate(json.dumps(value, ensure_ascii=False), limit)
    assert done.form == "json"
    assert size(done.text) <= limit
    return done.text


# ── Text ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["", "x", "x" * LIMIT, json.dumps(["x" * (LIMIT - 4)])])
def test_what_fits_is_the_same_object(text: str) -> None:
    done = truncate(text, LIMIT)
    assert done.text is text
    assert (done.form, done.changed, done.total_bytes, done.total_lines) == ("whole", False, size(text), lines(text))


@requirement("dialect:legacy-halves", "dialect:legacy-marker")
def test_a_text_keeps_both_ends_and_the_marker_counts_bytes_and_lines() -> None:
    text = "".join(f"line {number}\n" for number in range(100_000))
    done = truncate(text, 200)
    assert done.text == snapshot("""\
line 0
line 1
line 2
line 3
line 4
line 5
line 6
line 7
line 8
line 9
line
[… 1,088,743 bytes (99,984 lines) truncated …]
 99993
line 99994
line 99995
line 99996
line 99997
line 99998
line 99999
""")
    assert (done.form, done.changed, done.total_bytes, done.total_lines) == ("halves", True, 1_088_890, 100_000)


@requirement("dialect:legacy-halves", "dialect:legacy-marker")
@given(broken_texts.filter(bool), st.integers(min_value=60, max_value=200))
def test_any_text_is_cut_in_the_middle_and_counted_exactly(text: str, limit: int) -> None:
    text = "x" + text * 8
    done = truncate(text, limit)
    assert size(done.text) <= limit
    if not done.changed:
        assert done.text is text
        return
    head, begins, rest = done.text.partition("\n[… ")
    count, ends, tail = rest.partition(" truncated …]\n")
    assert begins
    assert ends
    shown = encode(text)[0].decode()  # no half of a surrogate pair is shown
    assert shown.startswith(head)
    assert shown.endswith(tail)
    gone = text[len(head) : len(text) - len(tail)]
    assert int(count.split()[0].replace(",", "")) == size(gone)
    assert int(count.split("(")[1].split()[0].replace(",", "")) == lines(gone)
    # Each end has half of the room, but for a cluster that did not fit.
    longest = 60
    assert abs(size(head) - size(tail)) <= longest


@pytest.mark.parametrize(
    ("limit", "shown"), [(0, ""), (2, ""), (3, "…"), (11, "[truncated]"), (20, "xxxxxxxxx[truncated]")]
)
def test_a_limit_that_is_shorter_than_the_marker_still_holds(limit: int, shown: str) -> None:
    assert truncate("x" * 1000, limit).text == shown


def test_crlf_and_clusters_are_not_split() -> None:
    for limit in range(100, 120):
        done = truncate("\r\n" * 100 + "e\u0301" * 100, limit)
        head, _, rest = done.text.partition("\n[… ")
        assert head.count("\r") == head.count("\n")
        assert rest.partition("]\n")[2].startswith("e")


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("dialect:legacy-json", "dialect:legacy-marker")
def test_a_json_document_stays_one_and_every_cut_is_counted() -> None:
    value = {
        "status": "ok",
        "log": "line\n" * 1000,
        "rows": [{"id": number, "name": f"name {number}"} for number in range(1000)],
        "count": 1000,
    }
    text = shortened(value, 500)
    assert text == snapshot(
        '{"status":"ok","log":"line\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nli[… 4,838 bytes truncated …]line\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\nline\\n","rows":[{"id":0,"name":"name 0"},{"id":1,"name":"name 1"},{"id":2,"name":"name 2"},{"id":3,"name":"name 3"},"[… 993 elements truncated …]",{"id":997,"name":"name 997"},{"id":998,"name":"name 998"},{"id":999,"name":"name 999"}],"count":1000}'
    )
    cut = json.loads(text)
    assert (cut["status"], cut["count"]) == ("ok", 1000)


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [
        pytest.param("x" * 1000, 60, snapshot('"xxxxxxxxxxxxxx[… 973 bytes truncated …]xxxxxxxxxxxxx"'), id="string"),
        pytest.param(
            list(range(1000)),
            80,
            snapshot('[0,1,2,3,4,5,6,"[… 987 elements truncated …]",994,995,996,997,998,999]'),
            id="array",
        ),
        pytest.param(
            {f"k{number}": number for number in range(1000)},
            100,
            snapshot('{"k0":0,"k1":1,"k2":2,"…":"[… 994 members truncated …]","k997":997,"k998":998,"k999":999}'),
            id="object",
        ),
        pytest.param(
            {"…": 1, "……": 2} | {f"k{number}": number for number in range(1000)},
            100,
            snapshot('{"…":1,"……":2,"k0":0,"………":"[… 997 members truncated …]","k998":998,"k999":999}'),
            id="marks",
        ),
        pytest.param(
            {"k" * 1000: 1, "b": 2},
            300,
            snapshot(
                '{"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk[… 833 bytes truncated …]kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk":1,"b":2}'
            ),
            id="long name",
        ),
        pytest.param(
            {"a": ["x" * 1000], "b": {"c": "y" * 1000}},
            150,
            snapshot(
                '{"a":["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx[… 931 bytes truncated …]xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"],"…":"[… 1 member truncated …]"}'
            ),
            id="two large parts",
        ),
        pytest.param([["x" * 100] * 100], 60, snapshot('["[… 1 element truncated …]"]'), id="no room for details"),
    ],
)
def test_examples_of_shorter_json(value: Any, limit: int, shown: str) -> None:
    text = shortened(value, limit)
    assert text == shown
    json.loads(text)


def test_a_number_that_is_too_long_is_counted() -> None:
    assert truncate(f"[{'7' * 5000}, 1]", 120).text == snapshot('["[… number of 5,000 characters truncated …]",1]')


def test_the_largest_part_is_cut_first() -> None:
    cut = json.loads(shortened({"small": "s" * 200, "middle": "m" * 4000, "large": "l" * 100_000}))
    assert cut["small"] == "s" * 200
    assert cut["middle"] == "m" * 4000
    assert 7500 < len(cut["large"]) < 8192


def test_both_ends_of_an_array_are_kept() -> None:
    cut = json.loads(shortened(list(range(100_000))))
    at = next(index for index, element in enumerate(cut) if isinstance(element, str))
    assert cut[:at] == list(range(at))
    assert cut[at + 1 :] == list(range(100_000 - (len(cut) - at - 1), 100_000))
    assert cut[at] == f"[… {100_000 - len(cut) + 1:,} elements truncated …]"


def test_numbers_and_names_stand_as_they_were_written() -> None:
    text = '{"n": [1.50, 1E5, -0, 12345678901234567890123, NaN, -Infinity], "n": true, "f": [null, false], "s": "%s"}'
    done = truncate(text % ("x" * 1000), 300)
    assert done.text.startswith(
        '{"n":[1.50,1E5,-0,12345678901234567890123,NaN,-Infinity],"n":true,"f":[null,false],"s":"xx'
    )
    assert math.isnan(json.loads(done.text, object_pairs_hook=list)[0][1][4])


def test_a_document_that_fits_without_its_spaces_is_whole() -> None:
    value = {"rows": [list(range(10))] * 100}
    done = truncate(json.dumps(value, indent=8), 8000)
    assert (done.form, done.is_cut, json.loads(done.text)) == ("compact", False, value)


@requirement("dialect:legacy-halves", "dialect:legacy-marker")
@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (0, "\n[… 35 bytes (5 lines) truncated …]\n"),
        (1, "line 0\n\n[… 28 bytes (4 lines) truncated …]\n"),
        (3, "line 0\nline 1\n\n[… 14 bytes (2 lines) truncated …]\nline 4\n"),
        (4, "line 0\nline 1\n\n[… 7 bytes (1 line) truncated …]\nline 3\nline 4\n"),
        (5, "line 0\nline 1\nline 2\nline 3\nline 4\n"),
    ],
)
def test_a_limit_of_lines_leaves_both_ends(most: int, shown: str) -> None:
    text = "".join(f"line {n}\n" for n in range(5))
    assert truncate(text, 1000, most).text == shown
    if most >= 3:  # without a newline at the end, one byte less of the last line
        assert truncate(text[:-1], 1000, most).text == shown[:-1]


@requirement("dialect:legacy-halves")
def test_what_is_cut_is_valid_utf8() -> None:
    done = truncate("bad \ud800 text\n" * 100, 200)
    assert done.form == "halves"
    assert done.text.encode().decode().startswith("bad \ufffd text\n")


def test_a_byte_order_mark_and_half_a_surrogate_pair_do_no_harm() -> None:
    done = truncate("\ufeff" + json.dumps(["\ud83d", "é" * 1000]), 200)
    assert done.form == "json"
    assert done.text.startswith('["\\ud83d","ééé')
    assert size(done.text) == len(done.text.encode())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000 + "1" + "]" * 100_000, id="arrays"),
        pytest.param('{"a":' * 100_000 + "1" + "}" * 100_000, id="objects"),
        pytest.param("[" * 5000 + json.dumps("x" * 50_000) + "]" * 5000, id="a long string below"),
    ],
)
@requirement("dialect:legacy-json")
def test_nesting_of_any_depth_is_cut_to_valid_json(text: str) -> None:
    done = truncate(text, LIMIT)
    assert done.form == "json"
    assert size(done.text) <= LIMIT
    json.loads(done.text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a":1}\n' * 5000, id="ndjson"),
        pytest.param("[" * 20_000, id="unclosed"),
        pytest.param("[" * 20_000 + "]" * 19_999 + "}", id="closed wrongly"),
        pytest.param("1" * 20_000, id="a number"),
        pytest.param("[01, " + "2," * 10_000 + "3]", id="no number"),
        pytest.param("{'a': '" + "x" * 20_000 + "'}", id="python"),
    ],
)
def test_what_is_not_a_json_document_is_cut_in_the_middle(text: str) -> None:
    done = truncate(text, LIMIT)
    assert (done.form, size(done.text) <= LIMIT) == ("halves", True)


def test_json_that_cannot_fit_is_cut_in_the_middle() -> None:
    assert truncate(json.dumps(["x" * 100] * 100), 20).form == "halves"


leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.text(max_size=300))
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=20), inner, max_size=20),
    max_leaves=60,
)


@requirement("dialect:legacy-json")
@given(values, st.integers(min_value=80, max_value=600), st.booleans())
def test_any_document_stays_json_within_its_limit(value: Any, limit: int, ascii_only: bool) -> None:
    text = json.dumps({"value": value, "end": "x" * 600}, ensure_ascii=ascii_only)
    done = truncate(text, limit)
    assert done.form == "json"
    assert size(done.text) <= limit
    json.loads(done.text)
    done.text.encode()
    assert truncate(done.text, limit).text is done.text


@given(values)
def test_the_two_readers_read_the_same(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        expected = parse(text)
        # Words are told in two ways, which are written the same.
        assert plain(parse_deep(text)) == plain(expected)
        assert parse_deep(text[:-1] + "]") is None or not text.endswith(("}", '"'))


WORDS = {b"true": True, b"false": False, b"null": None}


def plain(value: Any) -> Any:
    if isinstance(value, Members):
        return {"members": [(name, plain(member)) for name, member in value]}
    if isinstance(value, list):
        return [plain(element) for element in value]  # pyright: ignore[reportUnknownVariableType]
    return WORDS.get(value, value) if isinstance(value, bytes) else value


@pytest.mark.parametrize("text", ["", "[", "[1", "[1,", "[1,]", "{", '{"a"', '{"a":', '{"a":1', '{"a":1,}', "{1:2}", '{"a" 1}', "[1}", "[tru]", "[1] 2", '["\n"]', "[1.]", "[-]", "nul"])  # fmt: skip
def test_the_reader_of_deep_documents_refuses_what_is_not_json(text: str) -> None:
    assert parse_deep(text) is None
    assert parse(text) is None


def test_large_documents_are_cut_in_near_linear_time() -> None:
    rows = [{"id": number, "tags": ["a", "b"], "text": "x" * 80} for number in range(30_000)]
    text = json.dumps(rows)
    for limit in (LIMIT, 1_000_000):
        assert truncate(text, limit).form == "json"
    assert truncate(json.dumps({"s": "\\é" * 1_000_000}), LIMIT).form == "json"
