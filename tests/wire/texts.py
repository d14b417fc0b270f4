"""Texts that are easy to cut wrongly."""

import stringzilla
from hypothesis import strategies as st

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
SEQUENCES = [
    "a", "Z", " ", "\n", "\r\n", "\r", "\t", "\x00", "é", "漢", "😀", "\ufeff",
    FAMILY, "👍🏽", "☀\ufe0f", "1\ufe0f\u20e3", "\U0001f1e9\U0001f1ea", "\U0001f1e9", "e\u0301\u0302", "\u0301", "\u200d",
    "\u1100\u1161\u11a8", "\u1100", "\u1161", "가", "\u0915\u094d\u0937\u093f", "\u0915", "\u094d", "\u0e01\u0e33", "\u0600",
    "[tool output truncated: ", "\n\n[holdall:t] ",
]  # fmt: skip

texts = st.lists(st.sampled_from(SEQUENCES), max_size=60).map("".join)
broken_texts = st.lists(st.sampled_from([*SEQUENCES, "\ud83d", "\ude00"]), max_size=60).map("".join)


def borders(text: str) -> set[int]:
    """Every place where `text` may be cut, from one look at all of it."""
    found, at = {0}, 0
    for cluster in stringzilla.utf8_graphemes(text):
        at += cluster.utf8_count()
        found.add(at)
    return found


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")
