"""Removing outputs and sessions on request: what goes, what stays, and what is refused."""

import io
import json

import pytest

from holdall.store.bundle.restore import import_bundle
from holdall.store.protocol import OutputStore, SessionInfo
from holdall.values.errors import OutputExpired, OutputInUse, SessionLocked
from holdall.values.outputs import Facts, Origin
from tests.requirements import requirement
from tests.store.bundles import exported
from tests.store.support import Clock, keep, read_back

KEY = "ab" * 32


def own_note(facts: Facts) -> tuple[str, str]:
    return facts.measure.sha256, facts.id.replace("-", "")


@requirement("store:removed")
def test_of_a_removed_output_only_a_tombstone_is_left(store: OutputStore, session: SessionInfo, clock: Clock) -> None:
    facts = keep(store, session, "secret\n", tool="t", call_id="c1", arguments={"a": "secret"}, traceback="secret")
    other = keep(store, session, "other\n")
    store.remember(session, facts.measure.sha256, KEY, b"secret")
    store.remember(session, *own_note(facts), b"secret")
    store.remember(session, other.measure.sha256, KEY, b"other")
    clock.pass_days(1)
    removed = store.remove(session, [facts])
    assert (removed.freed_bytes, dict(removed.still_held)) == (7, {})
    (stone,) = removed.removed
    assert stone.is_removed
    assert (stone.handle, stone.id, stone.origin, stone.ended) == (
        facts.handle, facts.id, Origin(tool="t", call_id="c1"), clock.now,
    )  # fmt: skip
    assert (stone.file, stone.measure.sha256, stone.measure.bytes) == ("", "", 7)
    for reference in (facts.handle, facts.long_handle, "c1"):
        assert store.resolve(session, reference) == stone
    assert list(store.outputs(session)) == sorted([stone, other], key=lambda one: (one.created, one.handle))
    with pytest.raises(OutputExpired, match=rf"output {facts.handle} was removed on request on 20\d\d-\d\d-\d\d"):
        store.open(facts)
    assert [tuple(note) for note in store.notes(session)] == [(other.measure.sha256, KEY, 5)]
    assert read_back(store, other) == b"other\n"
    assert store.used_bytes(session) == 6
    assert [one.problem for one in store.verify([session]) if one.problem] == []


@requirement("store:removed")
def test_what_was_gone_before_is_counted_apart(store: OutputStore, session: SessionInfo) -> None:
    first, second, third = (keep(store, session, f"{number}\n") for number in range(3))
    assert store.remove(session, [first]).gone_before == 0
    store.expire(session, [second], "a rule")
    assert store.remove(session, [first, third]).gone_before == 1
    removed = store.remove_session(session)
    assert (len(removed.removed), removed.gone_before) == (3, 3)


@requirement("store:removed-with-last-handle")
def test_shared_bytes_go_with_the_last_output_that_has_them(store: OutputStore, session: SessionInfo) -> None:
    first, second, third = (keep(store, session, "same\n") for _ in range(3))
    store.remember(session, first.measure.sha256, KEY, b"answer")
    for one in (first, second, third):
        store.remember(session, *own_note(one), one.handle.encode())
    removed = store.remove(session, [first])
    assert (removed.freed_bytes, set(removed.still_held[first.handle])) == (0, {second.handle, third.handle})
    assert store.recall(session, *own_note(first)) is None
    assert store.recall(session, *own_note(second)) == second.handle.encode()
    assert store.recall(session, second.measure.sha256, KEY) == b"answer"
    assert read_back(store, second) == b"same\n"
    removed = store.remove(session, [second, third])
    assert (removed.freed_bytes, dict(removed.still_held)) == (5, {})
    assert store.notes(session) == []
    assert read_back(store, keep(store, session, "same\n")) == b"same\n"


@requirement("store:removed")
@pytest.mark.parametrize("expires", [False, True])
def test_a_note_that_names_two_outputs_goes_with_either(
    store: OutputStore, session: SessionInfo, expires: bool
) -> None:
    one, other, third = (keep(store, session, text) for text in ("one\n", "other\n", "third\n"))
    ids = [facts.id.replace("-", "") for facts in (one, other, third)]
    for content, key in ((0, 0), (0, 1), (1, 1), (2, 0), (2, 2)):
        store.remember(session, ids[content], ids[key], b"note")
    if expires:
        store.expire(session, [one], "test")
    else:
        store.remove(session, [one])
    left = {(ids.index(note.content), ids.index(note.key)) for note in store.notes(session)}
    assert left == {(1, 1), (2, 2)}


@requirement("store:removed")
@pytest.mark.parametrize("expires", [False, True])
def test_events_and_the_tree_keep_their_numbers_and_lose_what_they_quote(
    store: OutputStore, session: SessionInfo, expires: bool
) -> None:
    facts, other = keep(store, session, "x"), keep(store, session, "y")
    events = [
        {"at": 0.0, "event": "asked", "handle": other.handle, "preview": "of another"},
        {"at": 1.0, "event": "asked", "handle": facts.handle, "preview": "secret é", "cost": 0.5, "model": "m"},
        {"at": 2.0, "event": "extracted", "handle": facts.handle, "quotes": [{"text": "secret"}], "searched": [[0, 1]]},
        {"at": 3.0, "event": "asked", "handle": other.handle, "preview": "of another"},
    ]
    lines = [json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in events]
    store.append_events(session, b"".join(lines))
    end = store.events_from(session, 0).end
    model = {"op": "model", "name": "m", "preview": "secret", "cost": 0.5}
    nodes = [{"op": "extraction", "name": "t", "handle": facts.handle, "question": "secret", "children": [model]}]
    store.save_tree(session, json.dumps({"op": "session", "name": "s1", "children": nodes}).encode())
    if expires:
        store.expire(session, [facts], "test")
    else:
        store.remove(session, [facts])
    assert store.log_length(session, "events") == end, "whoever follows the log goes on where they were"
    found = store.events_from(session, 0)
    assert (found.end, found.bad) == (end, ())
    assert [json.loads(line) for line in found.lines.splitlines()] == [
        events[0],
        {"at": 1.0, "event": "asked", "handle": facts.handle, "cost": 0.5, "model": "m"},
        {"at": 2.0, "event": "extracted", "handle": facts.handle, "searched": [[0, 1]]},
        events[3],
    ]
    assert json.loads(store.tree(session) or b"")["children"] == [
        {"op": "extraction", "name": "t", "handle": facts.handle,
         "children": [{"op": "model", "name": "m", "cost": 0.5}]}
    ]  # fmt: skip
    assert b"secret" not in store.read_log(session, "events", 0, end)


@requirement("store:removed")
@pytest.mark.parametrize("handle", [[], {"a": "b"}, 5, None, ["HANDLE"]])
def test_lines_of_a_log_that_nobody_would_write_stop_no_removal(
    store: OutputStore, session: SessionInfo, handle: object
) -> None:
    facts = keep(store, session, "x")
    given = [facts.handle] if handle == ["HANDLE"] else handle
    odd = {"at": 1.0, "event": "asked", "tool": f'"handle":"{facts.handle}"', "handle": given}
    own = {"at": 2.0, "event": "asked", "handle": facts.handle, "tool": ["secret"], "preview": "secret"}
    store.append_events(
        session, b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in (odd, own))
    )
    inner = [{"op": "x", "handle": given, "children": 5}, {**own, "children": ["secret", own]}]
    store.save_tree(session, json.dumps({"op": "session", "handle": given, "children": inner}).encode())
    store.remove(session, [facts])
    assert store.resolve(session, facts.handle).state == "expired"
    assert b"secret" not in store.read_log(session, "events", 0, store.log_length(session, "events"))
    assert b"secret" not in (store.tree(session) or b"")
    store.save_tree(session, b'{"op": "secret')
    store.remove(session, [keep(store, session, "y")])
    assert store.tree(session) == b"{}"


@requirement("store:removal-refused")
def test_an_output_that_is_being_written_is_refused_and_nothing_is_removed(
    store: OutputStore, session: SessionInfo
) -> None:
    facts = keep(store, session, "x")
    writer = store.begin(session, Origin())
    writer.write(b"so far")
    running = store.resolve(session, writer.handle)
    with pytest.raises(OutputInUse, match=rf"output {writer.handle} is still being written; nothing was removed"):
        store.remove(session, [facts, running])
    with pytest.raises(OutputInUse):
        store.remove_session(session)
    assert read_back(store, facts) == b"x"
    writer.close()  # it is interrupted now, and can go
    assert {one.handle for one in store.remove(session, [facts, running]).removed} == {facts.handle, writer.handle}
    assert store.used_bytes(session) == 0


@requirement("store:removed")
def test_what_has_expired_can_be_removed_and_removing_twice_is_no_error(
    store: OutputStore, session: SessionInfo
) -> None:
    facts = keep(store, session, "x", traceback="secret")
    store.expire(session, [facts], "kept for 1 day")
    assert store.resolve(session, facts.handle).origin.traceback == ""  # it may quote what was in it
    (stone,) = store.remove(session, [facts]).removed
    assert (stone.error, stone.origin.traceback, stone.is_removed) == ("kept for 1 day", "", False)
    assert store.remove(session, [facts]).removed == (stone,)
    assert store.resolve(session, facts.handle) == stone


@requirement("store:session-removed")
def test_of_a_removed_session_only_its_tombstones_are_left(store: OutputStore, session: SessionInfo) -> None:
    facts = [keep(store, session, "x", terminal=True), keep(store, session, "y")]
    store.remember(session, facts[0].measure.sha256, KEY, b"answer")
    store.append_events(session, b"{}\n")
    store.append_transcript(session, b"{}\n")
    store.save_tree(session, b"{}")
    other = store.open_session("other")
    kept = keep(store, other, "x")
    removed = store.remove_session(session)
    assert ({one.handle for one in removed.removed}, removed.freed_bytes) == ({one.handle for one in facts}, 2)
    assert all(one.is_removed for one in store.outputs(session))
    assert store.events_from(session, 0) == store.transcript(session) == (b"", 0, ())
    assert (store.tree(session), store.notes(session), store.used_bytes(session)) == (None, [], 0)
    assert read_back(store, kept) == b"x"
    assert store.open_session(session.name) == session
    assert read_back(store, keep(store, session, "new")) == b"new"


@requirement("store:removed", "bundle:import-resolves")
def test_a_bundle_carries_the_tombstone(store: OutputStore, session: SessionInfo) -> None:
    facts = keep(store, session, "secret\n", call_id="c1")
    store.remove(session, [facts])
    import_bundle(store, io.BytesIO(exported(store, session)).read, name="copy")
    assert store.resolve(store.open_session("copy"), "c1").is_removed


@requirement("store:removal-refused")
def test_a_session_in_which_an_agent_runs_says_who(store: OutputStore, session: SessionInfo) -> None:
    with store.lease(session, "process 7"), pytest.raises(SessionLocked, match="process 7"), store.lease(session, "rm"):
        pytest.fail("whoever removes a session holds it")


def test_outputs_of_another_session_are_left_alone(store: OutputStore, session: SessionInfo) -> None:
    facts = keep(store, store.open_session("other"), "x")
    assert store.remove(session, [facts]).removed == ()
    assert read_back(store, facts) == b"x"
