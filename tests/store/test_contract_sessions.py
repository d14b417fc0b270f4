"""Sessions: made on first use, found by name, and never a path."""

import pytest
from inline_snapshot import snapshot

from holdall.store.protocol import OutputStore, session_by
from holdall.values.errors import UsageError
from holdall.values.retention import Retention
from tests.requirements import requirement
from tests.store.support import Clock, StoreMaker, keep, read_back

HOSTILE_NAMES = [
    "..", "../../etc", "/etc/passwd", "a/b", "CON", "session-abc", ".", "names", "index.sqlite", "-rf", "$HOME", "~",
    "漢字", "a b", "'; drop table", "x" * 200, "session-01234567-0123-4123-8123-0123456789ab",
]  # fmt: skip


@requirement("session:created-on-first-use")
def test_a_session_is_made_when_it_is_first_asked_for(store: OutputStore, clock: Clock) -> None:
    assert store.sessions() == []
    made = store.open_session("s1", parent="p")
    assert (made.name, made.created, made.parent) == ("s1", clock.now, "p")
    facts = keep(store, made, "x")
    assert facts.session == made.id
    assert store.sessions() == [made]


@requirement("session:created-on-first-use")
def test_the_same_name_is_the_same_session(make_store: StoreMaker, clock: Clock) -> None:
    first = make_store()
    made = first.open_session("s1")
    kept = keep(first, made, "x")
    clock.now += 1
    assert first.open_session("s1") == made
    second = make_store()
    assert second.open_session("s1") == made
    assert second.open_session(f"session-{made.id}") == made
    assert read_back(second, second.resolve(made, kept.handle)) == b"x"


@requirement("session:listed")
def test_a_name_that_is_the_id_of_another_session_means_neither(store: OutputStore) -> None:
    """Bundles bring any name: whoever removes the one by it must not lose the other."""
    mine = store.open_session("work")
    theirs = store.open_session(mine.id)
    with pytest.raises(UsageError, match=f"write session-{mine.id} for the one of that id, session-{theirs.id} for"):
        session_by(store, mine.id)
    assert session_by(store, f"session-{mine.id}") == mine
    assert session_by(store, "work") == mine
    assert session_by(store, theirs.id) == theirs


def test_sessions_are_listed_newest_first(store: OutputStore, clock: Clock) -> None:
    made = [store.open_session(name) for name in ("a", "b")]
    clock.now += 5
    made.insert(0, store.open_session("c"))
    assert store.sessions()[0].name == "c"
    assert sorted(store.sessions(), key=lambda one: one.name) == sorted(made, key=lambda one: one.name)


@pytest.mark.in_full(one_in=3)
@requirement("session:name-confined")
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_any_printable_name_is_a_name_and_no_path(make_store: StoreMaker, name: str) -> None:
    store = make_store()
    session = store.open_session(name)
    facts = keep(store, session, name)
    assert session.name == name
    again = make_store()
    assert again.open_session(name) == session
    assert again.sessions() == [session]
    assert read_back(again, again.resolve(session, facts.handle)) == name.encode()


@requirement("session:name-confined")
@pytest.mark.parametrize("name", ["", "a\nb", "a\x00b", "\x1b[31m", "\ud800", "\u202e", "x" * 201, "\u2028"])
def test_a_name_that_is_refused_is_refused_with_the_rule(store: OutputStore, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        store.open_session(name)
    assert str(refused.value) == (
        f"{name[:40]!r} cannot be the name of a session: write 1 to 200 printable characters."
    )
    assert store.sessions() == []


def test_the_refusal_of_a_name_reads_well(store: OutputStore) -> None:
    with pytest.raises(UsageError) as refused:
        store.open_session("a\nb")
    assert str(refused.value) == snapshot(
        "'a\\nb' cannot be the name of a session: write 1 to 200 printable characters."
    )


def test_a_name_that_is_no_text_is_refused(store: OutputStore) -> None:
    with pytest.raises(UsageError) as refused:
        store.open_session(5)  # pyright: ignore[reportArgumentType]
    assert str(refused.value) == snapshot("5 cannot be the name of a session: write text, as str(…) makes it.")


@requirement("store:retention-default")
def test_a_session_keeps_for_30_days_unless_told(make_store: StoreMaker) -> None:
    assert make_store().open_session("a").retention == Retention(days=30.0)
    assert make_store(retention=Retention(days=7)).open_session("b").retention == Retention(days=7)


@pytest.mark.parametrize(
    "rule", [Retention(days=None), Retention(days=None, session=True), Retention(days=1 / 3), Retention(days=1e-7)]
)
def test_a_session_remembers_its_retention_and_takes_another(make_store: StoreMaker, rule: Retention) -> None:
    store = make_store()
    made = store.open_session("s", retention=rule)
    assert made.retention == rule
    assert make_store().open_session("s") == made
    changed = make_store().open_session("s", retention=Retention(days=5))
    assert (changed.id, changed.retention) == (made.id, Retention(days=5))
    assert make_store().open_session("s") == changed
