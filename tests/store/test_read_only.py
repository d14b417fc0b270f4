"""The read-only view passes on what it does not name, so what it passes on is listed here."""

from holdall.store.memory import MemoryStore
from holdall.store.protocol import OutputStore
from holdall.store.read_only import read_only

LOOKS = {
    "home", "tokenizer", "find_session", "sessions", "unreadable_sessions", "resolve", "outputs", "unreadable", "open",
    "open_named", "stamp", "watch", "events_from", "transcript", "tree", "is_leased", "recall", "notes", "log_length",
    "log_lines", "read_log", "session_stamps", "verify", "stats", "used_bytes", "free_bytes", "clock",
    "kept_by_session",
}  # fmt: skip
CACHES = {"summaries", "save_summaries", "forget_summaries"}
ENDS = {"leave_session", "close"}


def test_a_new_method_of_stores_is_refused_ignored_or_known_to_change_nothing() -> None:
    promised = {name for name in vars(OutputStore) if not name.startswith("_")}
    named = set(vars(type(read_only(MemoryStore()))))
    assert promised - named == LOOKS | CACHES | ENDS
