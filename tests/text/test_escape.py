"""What a person may safely see: nothing that a terminal or an eye can be fooled with is left as it is."""

import shlex
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.text.escape import (
    beside_it,
    ended_as,
    for_people,
    foreign,
    foreign_names,
    hidden_in,
    named,
    on_one_line,
    one_line,
    quoted,
    shell_quoted,
    state_and_reason,
    told_names,
    without_passwords,
)
from tests.requirements import requirement

BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
TAGS = "".join(map(chr, range(0xE0000, 0xE0080)))
SELECTORS = "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
any_text = st.text(st.characters(exclude_categories=["Cn", "Co"]))


def is_safe(char: str) -> bool:
    return char in "\t\n" or (
        unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") and char not in BIDIRECTIONAL and char not in TAGS
    )


@given(st.text(st.characters(exclude_characters="\0")))
def test_a_word_of_a_command_line_is_read_as_it_was(text: str) -> None:
    assert shlex.split(shell_quoted(text)) == [text]
    assert shell_quoted("select 'x'") == "\"select 'x'\""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain – é 漢 😀", "plain – é 漢 😀"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\rb", "a\\x0db"),
        ("bell\x07 nul\x00 del\x7f csi\x9b", "bell\\x07 nul\\x00 del\\x7f csi\\u009b"),
        ("next\x85line", "next\\u0085line"),  # as a byte would be shown it is none
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("a\u200bb\ufeffc", "a\\u200bb\\ufeffc"),
        ("\U000e0041\U000e0042", "\\U000e0041\\U000e0042"),
        ("line\u2028sep", "line\\u2028sep"),
        ("lone \ud83d", "lone \\ud83d"),
    ],
)
def test_an_unsafe_character_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert for_people(text) == shown


@given(any_text)
def test_nothing_that_controls_a_terminal_or_reorders_a_line_is_left(text: str) -> None:
    assert all(map(is_safe, for_people(text)))


@given(any_text)
def test_each_character_is_left_or_escaped_by_itself(text: str) -> None:
    if not set(text) & set(SELECTORS):
        assert for_people(text) == "".join(map(for_people, text))
    assert all(for_people(char) == char for char in text if char.isalnum() or char in " \t\n")


@pytest.mark.parametrize("char", [*BIDIRECTIONAL, *TAGS[::16], *map(chr, range(0x80, 0xA0, 8))])
def test_bidirectional_tag_and_control_characters_are_all_escaped(char: str) -> None:
    assert for_people(char) in (f"\\x{ord(char):02x}", f"\\u{ord(char):04x}", f"\\U{ord(char):08x}")


@given(any_text, st.integers(min_value=1, max_value=40))
def test_one_line_is_one_line_and_no_longer_than_its_limit(text: str, limit: int) -> None:
    shown = one_line(text, limit)
    assert len(shown) <= limit
    assert all(is_safe(char) and char not in "\t\n" for char in shown)


def test_one_line_says_when_it_is_cut() -> None:
    assert one_line("a\nb\tc") == "a\\nb\\tc"
    assert one_line("x" * 200) == "x" * 200
    assert one_line("x" * 201) == "x" * 199 + "…"


@requirement("measure:escape-selectors")
def test_text_in_variation_selectors_is_seen_and_an_emoji_stays_as_it_is() -> None:
    assert for_people("⚠\ufe0f ok ❤\ufe0f") == "⚠\ufe0f ok ❤\ufe0f"
    message = "".join(chr(0xFE00 + byte) if byte < 16 else chr(0xE0100 + byte - 16) for byte in b"obey\x0e\x0f")
    for shown in (for_people(f"☺{message}"), foreign(f"☺{message[:3]}"), one_line(f"☺{message}")):
        assert not set(shown) & set(SELECTORS)
    assert for_people("☺" + "\ufe0e\ufe0f" * 3) == "☺\ufe0e" + "\\ufe0f\\ufe0e" * 2 + "\\ufe0f"
    assert for_people("a\u3164b\u034fc") == "a\\u3164b\\u034fc"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("plain", 0),
        ("é 漢 ⚠\ufe0f 👩\u200d🚀 \u200eעברית\u200f می\u200cخواهم", 0),  # what emojis and scripts need
        ("a\u202eb\u202c", 2),
        ("".join(chr(0xE0000 + ord(char)) for char in "ignore"), 6),
        ("☺" + "".join(chr(0xE0100 + byte) for byte in b"obey"), 4),
        ("☺\ufe0f\ufe0e\ufe0f", 2),
        ("zero\u200bwidth\u2060", 2),
    ],
)
def test_hidden_characters_are_counted(text: str, hidden: int) -> None:
    assert hidden_in(text) == hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://me:s3c@ret@host:80/x failed", "at http://me:…@host:80/x failed"),
        ("postgresql://:secret@h/d?sslpassword=pw&x=1", "postgresql://:…@h/d?sslpassword=…&x=1"),
        ("https://host:8080/a?b=c@d", "https://host:8080/a?b=c@d"),
        ("https://me@host/", "https://me@host/"),
        ("12:30@noon", "12:30@noon"),
    ],
)
def test_passwords_of_urls_are_not_shown(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


def test_a_foreign_text_is_as_long_as_it_may_be_and_not_longer() -> None:
    assert foreign("") == ""
    assert foreign("x" * 60) == "x" * 60
    assert foreign("x" * 61) == "x" * 59 + "…"
    assert foreign("abcd", 3) == "ab…"
    assert foreign("a\nb\tc\x1f\x7f\xa0\u0378\U000e0041") == "a\\nb\\tc\\x1f\\x7f\\u00a0\\u0378\\U000e0041"
    assert foreign("é\uffff\U00010000") == "é\\uffff\U00010000"


def test_a_name_is_in_quotes_unless_it_is_one_word() -> None:
    assert [named(one) for one in ("", "a.b/c:1", "two words", 12, "x" * 61)] == [
        "", "a.b/c:1", '"two words"', "12", "x" * 59 + "…",
    ]  # fmt: skip
    assert named("abcd", 3) == "ab…"


def test_of_several_names_there_is_room_for_words_and_for_little_else() -> None:
    assert foreign_names(["a", "b c"]) == ["a", "b c"]
    assert foreign_names([*["x" * 40] * 10, "y"]) == ["x" * 40] * 10
    assert foreign_names([*["a word" * 5] * 4, "?"]) == ["a word" * 5] * 4
    assert foreign_names(["x" * 41] * 3) == ["x" * 41] * 2
    assert foreign_names(["ab", "c d", "e"], words=2) == ["ab", "c d"]
    assert told_names("abcdefghijkl") == "a, b, c, d, e, f, g, h, i, j"


def test_an_argument_to_copy_is_json_that_shows_what_is_in_it() -> None:
    assert quoted('say "é"\n') == '"say \\"é\\"\\n"'
    assert quoted("a\u202eb\x9f") == '"a\\u202eb\\u009f"'


def test_a_word_of_a_command_line_is_in_the_quotes_that_it_needs() -> None:
    assert [shell_quoted(one) for one in ("a/b=1", "", "two words", "it's", "it's $HOME", 'it\'s "x"')] == [
        "a/b=1", "''", "'two words'", '"it\'s"', "'it'\"'\"'s $HOME'", "'it'\"'\"'s \"x\"'",
    ]  # fmt: skip


def test_a_state_is_said_once() -> None:
    assert state_and_reason("failed", "") == "failed"
    assert state_and_reason("failed", "no such file") == "failed: no such file"
    assert state_and_reason("timed out", "timed out after 2s") == "timed out after 2s"
    assert state_and_reason("failed", "x" * 61) == "failed: " + "x" * 61
    cut = state_and_reason(
        "interrupted", "its writer ended before it did; what had been written is kept; its command may"
    )
    assert cut == "interrupted: its writer ended before it did; what had been written is …"
    assert state_and_reason("failed", "x" * 62) == "failed: " + "x" * 60 + "…"


def test_only_a_call_that_did_not_end_well_is_told_of() -> None:
    assert [ended_as(state, "") for state in ("ready", "running", "queued")] == [[], [], []]
    assert ended_as("failed", "no such file") == ["failed: no such file"]


def test_what_a_result_said_beside_its_text_is_told_once_and_only_as_we_write_it() -> None:
    kept = "other fields of the result are kept by themselves; handle: k3f9"
    long = "other fields of the result are not kept: " + "x" * 99
    assert beside_it(["anything", f"{kept} and more", kept, kept]) == [kept]
    assert beside_it([long]) == [long[:100] + "…"]
    assert beside_it(["ignore all that"]) == []


def test_all_of_a_text_is_on_one_line() -> None:
    assert on_one_line("a\nb\tc\x1b" + "x" * 300) == "a\\nb\\tc\\x1b" + "x" * 300


def test_one_line_looks_one_sign_further_than_it_shows() -> None:
    assert one_line("abc", 3) == "abc"
    assert one_line("abcd", 3) == "ab…"
    assert one_line("ab\n", 3) == "ab…"
