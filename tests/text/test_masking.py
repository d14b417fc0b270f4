"""Masks are as long as what they hide, wherever the windows of a stream begin; JSON stays JSON."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdall.text import secrets
from holdall.text.secrets import NUMBER, Finding, Masker, json_findings, mask_of, masked, merged
from tests.requirements import requirement

_SECRET = re.compile(rb"key=([a-z0-9]+)")


def find(data: bytes) -> list[Finding]:
    return [(*match.span(1), "Key") for match in _SECRET.finditer(data)]


def never(_: str) -> bool:
    return False


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def test_a_mask_has_the_length_and_the_lines_of_what_it_hides() -> None:
    assert mask_of(b"abc\r\ndef\n") == b"***\r\n***\n"
    assert mask_of("geheim-ü".encode()) == b"*********"


def test_findings_that_overlap_become_one() -> None:
    assert merged([(5, 9, "b"), (0, 6, "a"), (20, 21, "c"), (9, 9, "d")]) == [(0, 9, "a"), (9, 9, "d"), (20, 21, "c")]
    assert masked(b"0123456789", [(2, 4, "x"), (6, 7, "y")]) == b"01**45*789"


@pytest.mark.parametrize("text", [b'{"key": 4711}', b"[1, 4711 ,2]", b'{"a":4711, "b":4711}'])
def test_a_bare_number_in_json_stays_one(text: bytes) -> None:
    def find_number(data: bytes) -> list[Finding]:
        return [(*match.span(), "Pin") for match in re.finditer(b"4711", data)]

    hidden = b"".join(Masker(find_number).stream([text]))
    assert hidden == text.replace(b"4711", b"9999")
    assert b"".join(Masker(find_number).stream([b'"4711" and pin=4711'])) == b'"****" and pin=****'


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.sampled_from(
            [b"key=secret1 ", b"key=a\n", b"key=12,", b" ", b"\n", b"key=,", b"plain text ", b"x" * 50 + b" "]
        )
    ),
    size=st.integers(1, 60),
)
def test_a_stream_is_masked_as_its_whole_would_be_wherever_it_is_cut(
    parts: list[bytes], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(parts)
    with monkeypatch.context() as small:
        small.setattr(secrets, "STEP", 32)
        small.setattr(secrets, "LEFT", 16)
        small.setattr(secrets, "RIGHT", 200)
        masker = Masker(find)
        given_out = b"".join(masker.stream(pieces(data, size)))
    expected = merged(find(data))
    assert given_out == masked(data, expected)
    assert masker.findings == expected


def test_a_secret_over_many_windows_is_masked_to_its_end() -> None:
    secret = b"a1" * 1_000_000
    data = b"before key=" + secret + b" after " + b"z" * 100_000
    masker = Masker(find)
    given_out = b"".join(masker.stream(pieces(data, 70_000)))
    assert given_out == data.replace(secret, b"*" * len(secret))
    assert masker.findings == [(11, 11 + len(secret), "Key")]


def test_nothing_is_held_but_a_window() -> None:
    held = 0
    masker = Masker(find)
    for _ in masker.stream(b"x" * 65_536 for _ in range(200)):
        held = max(held, len(masker._held))  # pyright: ignore[reportPrivateUsage]
    assert held < 3 * secrets.STEP


@given(st.text(), st.text(alphabet="abc019", min_size=1), st.text(alphabet=' "\\/\n\té😀', max_size=5))
def test_in_json_a_secret_is_found_as_it_reads_and_masked_as_it_is_written(
    before: str, secret: str, between: str
) -> None:
    text = f"{before} key={secret}{between}"
    for ascii_only in (True, False):
        line = json.dumps({"text": text, "other": [text, 1]}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        if b"\xed" in line:
            continue
        found = json_findings(line, find, never)
        changed = masked(line, found)
        assert len(changed) == len(line)
        read = json.loads(changed)
        assert len(found) >= 2
        assert find(read["text"].encode()) == []
        hidden = read["text"]
        assert hidden == read["other"][0]
        assert hidden.startswith(before[: before.find("key=")] if "key=" in before else before)


def test_all_of_a_string_under_the_name_of_a_secret_is_masked_and_nothing_else() -> None:
    line = json.dumps(
        {"password": 'a"b', "note": "password", "list": ["password", "x"], "n": {"password": ""}}
    ).encode()
    changed = masked(line, json_findings(line, find, lambda name: name == "password"))
    assert json.loads(changed) == {
        "password": "****",
        "note": "password",
        "list": ["password", "x"],
        "n": {"password": ""},
    }


IN_JSON: dict[str, tuple[object, object]] = {
    "every text of a list": ({"passwords": ["one", ["two"]], "b": ["three"]}, {"passwords": ["***", ["***"]], "b": ["three"]}),
    "the value of an object": ({"db_password": {"type": "string", "value": "X1"}}, {"db_password": {"type": "string", "value": "**"}}),
    "far below": ({"password": {"versions": [{"value": "X1", "n": 1}]}}, {"password": {"versions": [{"value": "**", "n": 1}]}}),
    "long numbers": ({"password": [98765432101, 12], "n": 98765432101}, {"password": [99999999999, 12], "n": 98765432101}),
    "what another member names": ([{"value": "X1", "name": "password"}, {"name": "x", "value": "X1"}],
                                  [{"value": "**", "name": "password"}, {"name": "x", "value": "X1"}]),
    "a label": ([{"id": "x", "name": "password", "label": "The password", "value": "X1"}, {"label": "Password", "value": "password"}],
                [{"id": "x", "name": "password", "label": "The password", "value": "**"}, {"label": "Password", "value": "password"}]),
    "a parameter": ({"ParameterKey": "db_password", "ParameterValue": "X1"}, {"ParameterKey": "db_password", "ParameterValue": "**"}),
    "a patch": ({"op": "add", "path": "/password", "value": "X1"}, {"op": "add", "path": "/password", "value": "**"}),
    "a value with its type": ({"password": {"S": "X1"}, "n": {"S": "X1"}}, {"password": {"S": "**"}, "n": {"S": "X1"}}),
    "a pair": ({"headers": [["password", "abcdef12"], ["user", "abcdef12"]]}, {"headers": [["password", "********"], ["user", "abcdef12"]]}),
    "names only": ({"required": ["password", "username"]}, {"required": ["password", "username"]}),
    "names below are others": ({"password": {"scopes": ["read"], "url": "x"}}, {"password": {"scopes": ["read"], "url": "x"}}),
    "a command": (["do", "--pass", "a\tb", "-u", "me:key"], ["do", "--pass", "****", "-u", "me:key"]),
}  # fmt: skip


@pytest.mark.parametrize("what", IN_JSON)
@requirement("bundle:redaction-in-json")
def test_in_json_a_name_tells_of_all_that_it_is_about(what: str) -> None:
    def after_a_flag(data: bytes) -> list[Finding]:
        return [(*match.span(1), "Flag") for match in re.finditer(rb"--pass (\S+)", data)]

    came, hidden = IN_JSON[what]
    for line in (json.dumps(came), json.dumps(came, indent=2)):
        data = line.encode()
        learned: list[bytes] = []
        found = json_findings(
            data, after_a_flag, lambda name: "password" in name, lambda one, _, to=learned: to.append(one)
        )
        changed = masked(data, found, {start for start, _, kind in found if kind == NUMBER})
        assert len(changed) == len(data)
        assert json.loads(changed) == hidden
        assert bool(learned) == (came != hidden)


def test_no_json_is_too_deep_or_too_broken_to_be_looked_at() -> None:
    for line in (
        b"[" * 100_000 + b'"key=abc"' + b"]" * 100_000 + b',{"password":"x y"}',
        b'}]"key=abc" {"password":"x y"',
        b'"key=abc", "password":"x y" }',
    ):
        found = json_findings(line, find, lambda name: name == "password")
        assert masked(line, found) == line.replace(b"abc", b"***").replace(b"x y", b"***")


def test_an_escape_that_is_cut_is_masked_whole_and_bytes_that_are_no_text_move_nothing() -> None:
    def second_byte(data: bytes) -> list[Finding]:
        return [(match.start() + 1, match.end(), "") for match in re.finditer("éb".encode(), data)]

    line = rb'{"a": "x\u00e9b\u00e9", "b": "\ud83dx \ud83d\ude00 key=abc!\u0021"}'
    assert masked(line, json_findings(line, second_byte, never)) == line.replace(rb"\u00e9b", b"*******")
    assert masked(line, json_findings(line, find, never)) == line.replace(b"abc", b"***")
    line = b'{"b": "\\n \xff\\u0041 key=abc"}'
    assert masked(line, json_findings(line, find, never)) == line.replace(b"abc", b"***")


def test_the_escapes_of_a_string_are_read_once_for_all_secrets_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps({"k": "".join(f"é key=a{n}" for n in range(300))}).encode()
    read: list[bytes] = []
    as_read: Any = getattr(secrets, "_as_read")  # noqa: B009 - it is private

    def counted(written: bytes) -> bytes:
        read.append(written)
        return as_read(written)

    monkeypatch.setattr(secrets, "_as_read", counted)
    assert len(json_findings(line, find, never)) == 300
    assert len(read) <= 2 * 300


def test_a_string_without_an_end_is_looked_through_once() -> None:
    text = b'{"a":"' + b'x\\"' * 2000 + b"key=abcdefgh" + b"\\"
    looked: list[bytes] = []

    def noted(data: bytes) -> list[tuple[int, int, str]]:
        looked.append(data)
        return find(data)

    found = secrets.json_findings(text, noted, lambda _: False)
    assert [text[start:end] for start, end, _ in found] == [b"abcdefgh"]
    assert max(map(len, looked)) < len(text)
    assert len(looked) <= 3, "a name and the rest, not each quote in it anew"
