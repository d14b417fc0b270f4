"""A store that version 0.1.0 wrote is read as it was, byte for byte, and can be worked in."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdall import OutputExpired, ScriptedModel
from holdall.blocking import Holdall
from tests.golden import samples
from tests.golden.commands import Commands
from tests.golden.golden import DATA, lacking
from tests.golden.make_store import MODEL, QUESTION, QUOTE
from tests.golden.reading import DAY, READ_AT, read_all, read_session, unpacked
from tests.requirements import requirement

EXPECTED: dict[str, Any] = json.loads((DATA / "store-1.json").read_text())
OUTPUTS: list[dict[str, Any]] = EXPECTED["read"]["outputs"]["outputs"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return unpacked(tmp_path)


def handle_of(call_id: str) -> str:
    return next(str(one["handle"]) for one in OUTPUTS if one["call_id"] == call_id)


@requirement("store:record-beside-bytes")
def test_all_that_it_holds_is_read_as_it_was(home: Path, holdall: Commands) -> None:
    found = json.loads(json.dumps(read_all(home, holdall)))
    before = {name: value for name, value in EXPECTED.items() if name != "exported"}
    assert lacking(before, found) == []


@requirement("store:index-deleted")
def test_it_is_read_as_it_was_without_its_index(home: Path) -> None:
    for path in home.glob("*index*"):
        path.unlink()
    found = json.loads(json.dumps(read_session(home, "outputs")))
    assert lacking(EXPECTED["read"]["outputs"], found) == []


def test_its_bytes_are_those_that_were_kept(home: Path) -> None:
    """The expected hashes come from the samples, not from what was read."""
    with Holdall.open(home=str(home), session="outputs", clock=lambda: READ_AT) as bag:
        for name in ("json-one-line", "ndjson", "csv", "crlf-log", "surrogates"):
            # Only one of them has halves of pairs in it, which UTF-8 cannot hold.
            whole = "".join("\ufffd" if 0xD800 <= ord(sign) < 0xE000 else sign for sign in samples.TEXTS[name]())
            assert b"".join(bag.stream(f"call-{name}")) == whole.encode(), name
        for name in ("png", "no-utf8", "nothing"):
            assert b"".join(bag.stream(f"call-{name}")) == samples.BYTES[name](), name
        assert b"".join(bag.stream("call-binary")) == samples.binary(9_000)
        assert b"".join(bag.stream("log-1")) == samples.log().encode()


@requirement("store:long-handles", "store:call-id-as-handle")
def test_every_form_of_a_handle_still_names_its_output(home: Path) -> None:
    with Holdall.open(home=str(home), session="outputs", clock=lambda: READ_AT) as bag:
        for one in OUTPUTS:
            forms = [one["handle"], one["long_handle"], one["call_id"]]
            assert {bag.show(form).id for form in forms if form} == {one["id"]}


def test_an_expired_output_still_says_so(home: Path) -> None:
    with Holdall.open(home=str(home), session="brief", clock=lambda: READ_AT) as bag:
        with pytest.raises(OutputExpired, match="kept for 7 days"):
            bag.read("old-1")
        assert bag.read("young-1", lines=(1, 1)).text.startswith("diff --git")


def test_nothing_more_expires_before_its_time_and_what_is_over_goes(home: Path, holdall: Commands) -> None:
    would = holdall("gc", "--dry-run", "--json", home=home).json
    young = next(one["handle"] for one in EXPECTED["read"]["brief"]["outputs"] if one["call_id"] == "young-1")
    assert (would["dry_run"], would["expired"]) == (True, [{"session": "brief", "handle": young}])
    assert would["freed_bytes"] == len(samples.diff())
    with Holdall.open(home=str(home), session="brief", clock=lambda: READ_AT) as bag:
        assert bag.show("young-1").state == "ready"
    with Holdall.open(home=str(home), session="brief", clock=lambda: READ_AT + 30 * DAY) as bag:
        assert bag.show("young-1").state == "expired"
    after = holdall("verify", "--json", home=home).json
    assert (after["checked"], after["damaged"]) == (EXPECTED["verify"]["checked"] - 1, [])


def test_a_new_output_is_kept_beside_the_old_ones(home: Path, holdall: Commands) -> None:
    with Holdall.open(home=str(home), session="outputs", clock=lambda: READ_AT) as bag:
        same = bag.keep(samples.ndjson(), tool="new", call_id="new-1")
        other = bag.keep("something new\n", tool="new")
        old = next(one for one in OUTPUTS if one["call_id"] == "call-ndjson")
        assert (same.file, same.measure.sha256) == (old["file"], old["sha256"])
        assert b"".join(bag.stream(other.handle)) == b"something new\n"
        answer = bag.call("context_grep", {"handle": "log-1", "pattern": "sd7", "count": True})
        assert not answer.is_error
        handles = [facts.handle for facts in bag.outputs()]
    assert {one["handle"] for one in OUTPUTS} < set(handles)
    assert len(handles) == len(OUTPUTS) + 2
    checked = holdall("verify", "--json", home=home).json
    assert (checked["checked"], checked["damaged"]) == (EXPECTED["verify"]["checked"] + 2, [])


def test_an_answer_that_was_remembered_is_found_without_a_model(home: Path) -> None:
    silent = ScriptedModel([], name=MODEL, keeps_schema=True, window=200_000)
    with Holdall.open(home=str(home), session="outputs", clock=lambda: READ_AT, model=silent) as bag:
        found = bag.extract(handle_of("log-1"), QUESTION)
    assert silent.requests == []
    assert found.snippets[0].verified
    assert QUOTE in found.snippets[0].text


def test_the_tree_of_its_agents_is_drawn_as_it_was(home: Path, holdall: Commands) -> None:
    tree = holdall("show", "--tree", "agent", "--json", home=home).json
    assert lacking(EXPECTED["read"]["agent"]["tree"], without_children_of_agents(tree)) == []
    inner = agents_in(tree)[0]["children"]
    assert lacking(EXPECTED["read"]["agent/counter-1"]["tree"]["children"], inner) == []


def without_children_of_agents(tree: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(tree))
    for agent in agents_in(copy):
        agent.pop("children", None)
    return copy


def agents_in(node: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for child in node.get("children", ()):
        found += [child] if child["op"] == "agent" else agents_in(child)
    return found


def test_a_damaged_byte_of_it_is_found(home: Path, holdall: Commands) -> None:
    """Else the other tests here could not fail."""
    one = next(one for one in OUTPUTS if one["call_id"] == "call-csv")
    path = home / f"session-{one['session']}" / one["file"]
    data = bytearray(path.read_bytes())
    data[4_711] ^= 1
    path.write_bytes(data)
    ran = holdall("verify", "--json", home=home)
    assert ran.code == 3
    assert [row["handle"] for row in ran.json["damaged"]] == [one["handle"]]
    found = json.loads(json.dumps(read_session(home, "outputs")))
    assert len(lacking(EXPECTED["read"]["outputs"], found)) == 1
