"""Records and lines of logs by their bytes, without a store."""

import json

import pytest

from holdall.store.records import erased, foreign_event, note_name, sealed, tree_without, unsealed
from holdall.values.errors import UsageError


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
    data = sealed(told + other, version)
    ((start, line),) = erased(data, ["k3f9"], version)
    assert (start, len(line)) == (0, data.index(b"\n") + 1)
    assert b"secret" not in line
    body = unsealed(line) if version > 1 else line[:-1]
    assert body.rstrip(b" }") + b"}" == b'{"at":1.0,"event":"asked","handle":"k3f9"}'
    assert line.endswith(b"}\n")


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
