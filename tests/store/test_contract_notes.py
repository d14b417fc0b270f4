"""Notes about outputs: what was costly to work out, kept as long as there is an output that it is about."""

import pytest

from holdall.store.protocol import OutputStore, SessionInfo
from holdall.values.errors import UsageError
from tests.requirements import requirement
from tests.store.support import keep

KEY, OTHER = "a" * 64, "b" * 64


def test_a_note_comes_back_and_a_newer_one_takes_its_place(store: OutputStore, session: SessionInfo) -> None:
    content = keep(store, session, "the output").measure.sha256
    assert store.recall(session, content, KEY) is None
    store.remember(session, content, KEY, b"first")
    store.remember(session, content, OTHER, b"other")
    store.remember(session, content, KEY, b"second")
    assert store.recall(session, content, KEY) == b"second"
    assert store.recall(session, content, OTHER) == b"other"


@requirement("extract:cache-in-session")
def test_a_note_reaches_no_other_session(store: OutputStore, session: SessionInfo) -> None:
    content = keep(store, session, "the output").measure.sha256
    store.remember(session, content, KEY, b"mine")
    other = store.open_session("other")
    keep(store, other, "the output")
    assert store.recall(other, content, KEY) is None


@pytest.mark.parametrize(("content", "key"), [("../../etc/passwd", KEY), (KEY, "../x"), ("", KEY), (KEY, "A" * 64)])
def test_what_is_no_hash_names_no_note(store: OutputStore, session: SessionInfo, content: str, key: str) -> None:
    with pytest.raises(UsageError):
        store.remember(session, content, key, b"x")
    with pytest.raises(UsageError):
        store.recall(session, content, key)


def test_a_note_goes_with_the_last_output_that_it_is_about(store: OutputStore, session: SessionInfo) -> None:
    first, twin = keep(store, session, "the output"), keep(store, session, "the output")
    stays = keep(store, session, "another")
    for facts in (first, stays):
        store.remember(session, facts.measure.sha256, KEY, b"note")
    store.expire(session, [first], "by hand")
    assert store.recall(session, first.measure.sha256, KEY) == b"note"
    store.expire(session, [twin], "by hand")
    assert store.recall(session, first.measure.sha256, KEY) is None
    assert store.recall(session, stays.measure.sha256, KEY) == b"note"
