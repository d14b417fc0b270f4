"""What an agent leaves in its session: the transcript, the operation tree, and a lease while it runs."""

import pytest

from holdall.store.protocol import OutputStore, SessionInfo
from holdall.values.errors import SessionLocked
from tests.requirements import requirement


def test_a_transcript_is_appended_and_read_whole(store: OutputStore, session: SessionInfo) -> None:
    assert store.transcript(session).lines == b""
    store.append_transcript(session, b'{"n":1}\n')
    store.append_transcript(session, b'{"n":2}\n{"n":3}\n')
    assert store.transcript(session).lines == b'{"n":1}\n{"n":2}\n{"n":3}\n'
    assert store.transcript(store.open_session("other")).lines == b""


def test_the_newest_tree_takes_the_place_of_the_one_before(store: OutputStore, session: SessionInfo) -> None:
    assert store.tree(session) is None
    store.save_tree(session, b'{"version":1}')
    store.save_tree(session, b'{"version":2}')
    assert store.tree(session) == b'{"version":2}'


@requirement("session:lease", "session:lease-says-who")
def test_one_agent_holds_a_session_and_a_second_one_is_told_who(store: OutputStore, session: SessionInfo) -> None:
    with store.lease(session, "process 7 on host a"):
        with pytest.raises(SessionLocked, match="process 7 on host a"), store.lease(session, "second"):
            pytest.fail("nobody else has it")
        with store.lease(store.open_session("other"), "second"):
            pass
    with store.lease(session, "second"):
        pass
