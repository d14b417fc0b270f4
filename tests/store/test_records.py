"""Records and lines of logs by their bytes, without a store."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.store.protocol import SessionInfo
from holdall.store.records import (
    check_name,
    decode,
    decode_session,
    encode,
    encode_session,
    erased,
    file_for,
    foreign_event,
    is_without_end,
    loads,
    note_name,
    resealed,
    sealed,
    tree_without,
    unreadable,
    unsealed,
    whole_lines,
)
from holdall.values.errors import OutputDamaged, StoreFault, UsageError
from holdall.values.outputs import Facts, Origin
from holdall.values.retention import Retention
from holdall.values.spans import BlockTable

UUID = "00000000-0000-4000-8000-000000000001"
FACTS = Facts("k3f9", UUID, UUID, 1.5, Origin(tool="é"))


def test_a_record_is_written_in_the_format_that_its_first_line_names() -> None:
    data = encode(FACTS, BlockTable())
    assert data[:17] == b"holdall record 2 "
    assert data.isascii()
    assert decode(data, handle="k3f9") == (FACTS, BlockTable())


@pytest.mark.parametrize(("old", "new"), [(b"^holdall record ", b""), (b"^(.*)\n", b"\\1 more\n")])
def test_what_has_another_first_line_is_no_record(old: bytes, new: bytes) -> None:
    with pytest.raises(OutputDamaged, match="its record is not a record"):
        decode(re.sub(old, new, encode(FACTS, BlockTable())), handle="k3f9")


def test_a_record_of_another_version_another_output_or_another_bit_is_told_and_not_read() -> None:
    data = encode(FACTS, BlockTable())
    with pytest.raises(StoreFault, match=r"record format 3; this one reads 1 and 2"):
        decode(data.replace(b"record 2", b"record 3"), handle="k3f9")
    with pytest.raises(OutputDamaged, match="does not match its own checksum"):
        decode(data.replace(b"1.5", b"1.6"), handle="k3f9")
    with pytest.raises(OutputDamaged, match="is that of another output"):
        decode(data, handle="h2bb")
    there = unreadable("k3f9", UUID, StoreFault("why."), 2.5)
    assert there == Facts("k3f9", "", UUID, 2.5, state="unreadable", error="why.")


def test_a_session_is_written_in_the_same_bytes_by_every_program() -> None:
    info = SessionInfo(UUID, "é", 1.5, Retention(days=3), mark="k3f9h", was=(UUID,))
    data = encode_session(info)
    assert data == snapshot(
        b'{\n "format": 2,\n "id": "00000000-0000-4000-8000-000000000001",\n "name": "\\u00e9",\n "created": 1.5,\n "retention": "3 days",\n "parent": "",\n "mark": "k3f9h",\n "was": [\n  "00000000-0000-4000-8000-000000000001"\n ],\n "proof": "9b68367cec6a0eb2"\n}'
    )
    assert decode_session(data, UUID) == info


def test_of_a_session_that_does_not_prove_itself_only_that_is_believed_which_removes_nothing() -> None:
    info = SessionInfo(UUID, "s1", 1.5, Retention(days=3), mark="k3f9h", was=(UUID,))
    damaged = decode_session(encode_session(info).replace(b"s1", b"s2"), UUID)
    assert damaged == SessionInfo(UUID, "s2", 1.5, Retention(days=None))


def test_a_file_is_named_by_what_is_in_it() -> None:
    kinds = [replace(FACTS, measure=replace(FACTS.measure, kind=kind)) for kind in ("json", "text")]
    assert [file_for(one) for one in (*kinds, replace(FACTS, origin=Origin(terminal=True)))] == [
        f"{UUID}.json", f"{UUID}.txt", f"terminal/{UUID}.log",
    ]  # fmt: skip


def test_a_name_that_is_no_text_is_refused_with_what_it_was() -> None:
    with pytest.raises(UsageError) as refused:
        check_name(b"x" * 99)  # type: ignore[arg-type]
    assert str(refused.value) == snapshot(
        "b'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… cannot be the name of a session: write text, as str(…) makes it."
    )


@given(st.lists(st.text("a\n", max_size=5)))
def test_lines_are_the_same_however_their_bytes_are_cut_into_pieces(pieces: list[str]) -> None:
    lines = re.findall(r"[^\n]*\n|[^\n]+", "".join(pieces))
    assert list(whole_lines(map(str.encode, pieces))) == list(map(str.encode, lines))


def test_what_would_need_much_memory_is_not_read() -> None:
    half = b"{" * 500_000 + b"[" * 499_999
    assert len(loads(b'["%b"]' % half)) == 1
    with pytest.raises(ValueError, match=r"more than 1,000,000 objects and lists"):
        loads(b'["[%b"]' % half)
    with pytest.raises(ValueError, match=r"more than 4,000,000 values"):
        loads(b"[%b1]" % (b"1," * 4_000_001))


@pytest.mark.parametrize("line", [b'{"at":1.0\n', b'"at":1.0}\n', b"[]\n", b"\n"])
def test_only_an_object_is_a_line_of_a_log(line: bytes) -> None:
    with pytest.raises(UsageError, match="must be a JSON object"):
        sealed(line)


def test_a_line_proves_itself_only_in_a_session_whose_lines_do() -> None:
    line = sealed(b'{"a":"x"}\n')

    def changed(line: bytes) -> bytes:
        return line.replace(b"x", b"yy")

    assert unsealed(resealed(line, changed, 2)) == b'{"a":"yy"}'
    assert resealed(line, changed, 1) == changed(line)
    damaged = line.replace(b"a", b"b")
    assert resealed(damaged, changed, 2) == changed(damaged)
    assert [is_without_end(line[:-1] + b"?", version) for version in (1, 2)] == [False, True]


def test_an_event_of_elsewhere_is_written_in_ascii() -> None:
    assert foreign_event('{"tool":"é"}\n'.encode()) == b'{"tool":"\\u00e9"}\n'


def test_an_event_loses_the_verdict_that_only_we_can_give_and_nothing_else() -> None:
    line = b'{"at":1.0,"event":"extracted","verified":2,"handle":"k3f9"}\n'
    assert foreign_event(line) == b'{"at":1.0,"event":"extracted","handle":"k3f9"}\n'
    assert foreign_event(line.replace(b"verified", b"verifie\\u0064")) == foreign_event(line)
    assert foreign_event(line.replace(b"extracted", b"turn")) == foreign_event(line).replace(b"extracted", b"turn")
    assert foreign_event(line.replace(b":", b" : ")) == foreign_event(line), "as we would have written it"
    for same in (
        line.replace(b'"verified":2', b'"note":"verified"'),
        b"verified, but no JSON\n",
        b'["verified"]\n',
    ):
        assert foreign_event(same) == same
    for none_of_ours in (line.replace(b"k3f9", b"{" * 1_000_001), b'{"x":' * 100_000 + b"1" + b"}" * 100_000):
        with pytest.raises(ValueError, match=r"more than 1,000,000|nested too deep"):
            foreign_event(none_of_ours)


def test_a_note_is_named_by_two_hashes_and_by_nothing_else() -> None:
    assert note_name("ab" * 8, "cd" * 32) == "ab" * 8 + "-" + "cd" * 32
    for content, key in (
        ("../" + "a" * 16, "b" * 16),
        ("a" * 16, "b/" * 8),
        ("a" * 15, "b" * 16),
        ("a" * 16, "b" * 65),
    ):
        with pytest.raises(UsageError, match="two hashes"):
            note_name(content, key)


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_line_tells_of_an_output_is_taken_out_at_its_own_length(version: int) -> None:
    told = b'{"at":1.0,"event":"asked","handle":"k3f9","preview":"the secret"}\n'
    other = told.replace(b"k3f9", b"h2bb")
    data = sealed(other + told, version)
    ((start, line),) = erased(data, ["k3f9"], version)
    assert (start, start + len(line)) == (data.index(b"\n") + 1, len(data))
    assert b"secret" not in line
    body = unsealed(line) if version > 1 else line[:-1]
    assert body.rstrip(b" }") + b"}" == b'{"at":1.0,"event":"asked","handle":"k3f9"}'
    assert line.endswith(b"}\n")


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (b'{"handle":"k3f9","preview":"the secret", and no end of it, for the rest is gone', b'{"erased":true'),
        (b'{"handle":"k3f9","preview":"secret","proof":"0000000000000000"}', b'{"erased":true'),
        (b'"handle":"k3f9"', b""),
        (b'{"preview":"of none", and no end', None),
    ],
)
def test_of_a_damaged_line_that_names_an_output_nothing_stays(line: bytes, left: bytes | None) -> None:
    found = list(erased(line + b"\n", ["k3f9"], 2))
    assert [(start, len(new), new.partition(b" ")[0]) for start, new in found] == (
        [] if left is None else [(0, len(line) + 1, left)]
    )


def test_what_was_asked_of_several_outputs_goes_with_each_and_what_only_mentions_one_stays() -> None:
    both = b'{"event":"asked","handle":"h2bb","question":"the secret","asked":["k3f9"]}\n'
    mentions = b'{"event":"turn","handle":"h2bb","calls":[{"handle":"k3f9"}],"note":"stays"}\n'
    ((start, line),) = erased(sealed(mentions + both), ["k3f9"], 2)
    assert start == len(sealed(mentions))
    assert b"secret" not in unsealed(line)


def test_an_operation_tree_loses_what_it_tells_of_an_output_at_any_depth() -> None:
    inner = {
        "op": "extraction",
        "handle": "k3f9",
        "question": "the secret",
        "children": [{"op": "model", "preview": "x"}],
    }
    other = {"op": "read", "handle": "h2bb", "question": "stays"}
    tree = {"op": "session", "name": "s1", "children": [{"op": "agent", "children": [inner, other]}]}
    after = json.loads(tree_without(json.dumps(tree).encode(), ["k3f9"]))
    gone, stays = after["children"][0]["children"]
    assert (gone["handle"], stays) == ("k3f9", other)
    assert "secret" not in json.dumps(after)
    assert json.loads(tree_without(json.dumps(tree).encode(), ["zzzz"])) == tree
