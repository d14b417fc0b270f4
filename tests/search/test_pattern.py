"""The language of patterns: what is understood, what it is written as, and what is refused with which hint."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.search.charset import category, charset, complement, fold, has, single
from holdall.search.pattern import MAX_CHARACTERS, read_pattern
from holdall.search.ripgrep import command_for, output_of, written
from holdall.values.errors import BadPattern
from tests.requirements import requirement


def refusal_of(pattern: str) -> str:
    with pytest.raises(BadPattern) as refused:
        written(read_pattern(pattern))
    return str(refused.value)


def matches(pattern: str, text: str, *, ignore_case: bool = False, literal: bool = False) -> list[str]:
    """What ripgrep prints of it."""
    command = command_for(read_pattern(pattern, ignore_case=ignore_case, literal=literal), "places", [text.encode()])
    printed = b"".join(output_of(command, seconds=60))
    return [line.partition(b":")[2].decode() for line in printed.split(b"\n")[:-1]]


# ── What is understood ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a.c", "abc aéc a😀c", ["abc", "aéc", "a😀c"]),
        ("colou?r", "color colour", ["color", "colour"]),
        ("a|bc", "a bc b", ["a", "bc"]),
        ("(?:ab){2}", "ababab", ["abab"]),
        ("a{2,3}", "aaaaa", ["aaa", "aa"]),
        ("a{2,}", "a aaaa", ["aaaa"]),
        ("a+?", "aaa", ["a", "a", "a"]),
        ("(?U)a+", "aaa", ["a", "a", "a"]),
        ("(?U)a+?", "aaa", ["aaa"]),
        ("^b|d$", "ab\nbc\ncd", ["b", "d"]),
        (r"\d+", "a12b3", ["12", "3"]),
        (r"\D+", "1ab2", ["ab"]),
        (r"[\w-.]+@", "x.y-z@w", ["x.y-z@"]),
        (r"[^\n]+", "one\ntwo", ["one", "two"]),
        ("[]a]+", "x]a]", ["]a]"]),
        ("[^]a]", "]ab", ["b"]),
        ("[a&&b]+", "a&&b", ["a&&b"]),
        ("[+--]+", "+,-.", ["+,-"]),
        ("[a-]+", "b-a", ["-a"]),
        ("[[:alpha:]_]+", "ab_1", ["ab_"]),
        ("[[:^digit:]]+", "12ab3", ["ab"]),
        (r"\x41\x{1F600}\u00e9\U0001F600", "A😀é😀", ["A😀é😀"]),
        (r"\t\e\0", "\t\x1b\0", ["\t\x1b\0"]),
        (r"\.\*\/\-\_\é", ".*/-_é", [".*/-_é"]),
        (r"\p{Lu}\pL+", "É tÉté", ["Été"]),
        (r"\P{L}+", "ab12", ["12"]),
        (r"\p{Greek}+|\p{Han}+", "abγδ漢字", ["γδ", "漢字"]),
        (r"(?P<key>\w+)=(?<value>\w+)", "a=1 b=2", ["a=1", "b=2"]),
        ("x(?i)y|z", "xY Z y", ["xY", "Z"]),
        ("(?i:a)a", "Aa AA", ["Aa"]),
        ("(?i)a(?-i)b", "Ab AB", ["Ab"]),
        ("(?sm)a.b", "a\nb axb", ["axb"]),
        ('{"a": [1-3]}', '{"a": 2}', ['{"a": 2}']),
        ("a{x}", "a{x}", ["a{x}"]),
        ("x]}", "x]}", ["x]}"]),
        ("a\x00b", "a\x00b", ["a\x00b"]),
        ("😀+", "😀😀", ["😀😀"]),
    ],
)
def test_a_pattern_finds(pattern: str, text: str, found: list[str]) -> None:
    assert matches(pattern, text) == found


@requirement("grep:ascii-classes", "grep:ascii-boundary")
@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\w+", "naïve", ["na", "ve"]),
        (r"\d+", "1٣2", ["1", "2"]),
        (r"\s", "a\u00a0b\u2003c d\x0be", [" ", "\x0b"]),
        (r"\bna\b", "naïve", ["na"]),
        (r"\Bb", "ab éb", ["b"]),
    ],
)
def test_letters_digits_spaces_and_word_edges_are_ascii(pattern: str, text: str, found: list[str]) -> None:
    assert matches(pattern, text) == found


@requirement("grep:literal")
def test_a_literal_takes_every_character_as_itself() -> None:
    assert matches("a.b*[c](?=d)\\", "a.b*[c](?=d)\\ axb", literal=True) == ["a.b*[c](?=d)\\"]


@requirement("grep:ignore-case")
@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("straße", "STRASSE Straße STRAẞE", ["Straße", "STRAẞE"]),
        ("k", "k K \u212a", ["k", "K", "\u212a"]),
        ("[h-j]", "İ ı I i", ["I", "i"]),
        ("İ", "İ i", ["İ"]),
        ("σ", "Σσς", ["Σ", "σ", "ς"]),
        ("[^k]", "kK\u212ax", ["x"]),
        (r"\p{Lu}", "aB1", ["a", "B"]),
        (r"\W", "s\u017f", ["\u017f"]),
    ],
)
def test_case_is_ignored_by_simple_folding_one_character_for_one(pattern: str, text: str, found: list[str]) -> None:
    assert matches(pattern, text, ignore_case=True) == found


def test_dollar_stands_before_a_carriage_return_that_ends_a_line_too() -> None:
    assert matches("b$", "ab\r\nb") == ["b\r", "b"]  # whoever shows the match takes the \r off again
    assert read_pattern("b$").takes_return
    assert matches(r"b\r$", "ab\r\nb\r\r\n") == ["b\r"]
    assert not read_pattern(r"b\r$").takes_return
    assert read_pattern(r"[^\r\n]+$").takes_return


def test_whether_a_pattern_can_match_nothing_is_known() -> None:
    empty = ["^", "$", r"\b", "a*", "a?", "(?:a|)", "()", "a{0}", "(a*)(b?)", "^$", "a|b*"]
    never = ["a", "a+", "^a", "a*b", "(?:a|b)", r"\ba*b", "a{2}", "."]
    assert all(read_pattern(pattern).can_be_empty for pattern in empty)
    assert not any(read_pattern(pattern).can_be_empty for pattern in never)


def test_captures_are_counted() -> None:
    assert [read_pattern(pattern).captures for pattern in ("a", "(a)", "(?:a)(b)(?P<c>d)", "((a)|b)*")] == [0, 1, 2, 2]


# ── What is refused ─────────────────────────────────────────────────────────────────────────────────────────


@requirement("grep:look-around-refused")
def test_look_around_is_refused_with_what_to_write_instead() -> None:
    assert refusal_of("(?<=user )root") == snapshot(
        "look-around is not supported (patterns run in linear time). Write the context into the pattern and capture: 'user (root)' with group=True."
    )
    assert refusal_of("user(?= root)") == snapshot(
        "look-around is not supported (patterns run in linear time). Write the context into the pattern and capture: '(user) root' with group=True."
    )
    assert refusal_of("a(?=b)(c)") == snapshot(
        "look-around is not supported (patterns run in linear time). Write the context into the pattern and capture: 'key=(\\w+)' with group=True."
    )
    assert refusal_of("user (?!root)") == snapshot(
        "look-around is not supported (patterns run in linear time). Write what may stand there, or capture it: 'user (\\w+)' with group=True, and skip what is not wanted."
    )
    assert refusal_of("(?<!a)b") == refusal_of("user (?!root)")


@requirement("grep:back-reference-refused")
def test_a_back_reference_is_refused_with_what_to_write_instead() -> None:
    assert refusal_of(r"(\w+) \1") == snapshot(
        "back-references are not supported (patterns run in linear time): '\\1' at character 7 of the pattern. Capture each part and compare the values: '(\\w+) (\\w+)' with group=True counts every pair."
    )
    assert refusal_of(r"(?P<a>x)(?P=a)") == snapshot(
        "a back-reference is not supported (patterns run in linear time). Capture each part and compare the values: '(\\w+) (\\w+)' with group=True."
    )
    assert "back-references are not supported" in refusal_of(r"(?P<a>x)\k<a>")


@requirement("grep:across-lines")
@pytest.mark.parametrize("pattern", ["a\nb", r"a\nb", "[\n]", r"a\x0Ab", r"(?:\n|$)"])
def test_a_newline_is_refused_with_what_to_do(pattern: str) -> None:
    complaint = refusal_of(pattern)
    assert complaint.startswith("a pattern is matched within one line, and this one asks for a newline (at character ")
    assert complaint.endswith(
        "Search for a part that stands on one line, and ask for lines of context around the match."
    )


def test_a_newline_in_a_literal_is_refused_too() -> None:
    with pytest.raises(BadPattern, match=r"newline \(at character 2\)"):
        read_pattern("a\nb", literal=True)


@requirement("grep:bad-pattern")
@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("", "the pattern is empty"),
        ("(a", r"this bracket is not closed: '(' at character 1 of the pattern. Write \( for the character (."),
        ("a)", r"this bracket closes nothing: ')' at character 2 of the pattern. Write \) for the character )."),
        ("[a", r"this class is not closed: '[a' at character 1 of the pattern. Write \[ for the character [."),
        ("[", "this class is not closed"),
        ("[]", "this class is not closed"),
        ("[b-a]", "this range runs backwards: 'b-a'"),
        (r"[a-\d]", "a range cannot end in a class"),
        ("[[:letters:]]", "no such class is known: '[:letters:]'"),
        ("[:alpha:]", "Write [[:alpha:]]."),
        ("[a-z&&[^b]]", "sets cannot be combined"),
        (r"[^\x{0}-\x{10FFFF}]", "this class has no character"),
        ("*a", r"there is nothing to repeat: '*' at character 1 of the pattern. Write \* for the character."),
        ("a|+", "there is nothing to repeat"),
        ("{2}", "there is nothing to repeat"),
        ("^*", "a place between characters cannot be repeated"),
        (r"\b+", "a place between characters cannot be repeated"),
        ("a**", "a count of a count: '**' at character 2"),
        ("a{2}{3}", "Put the first in a group"),
        ("a++", "possessive quantifiers are not supported"),
        ("a{2}+", "possessive quantifiers are not supported"),
        ("a{,3}", "Write {0,3}."),
        ("a{3,2}", "this count runs backwards"),
        ("a{1001}", "a count is at most 1,000: '{1001}'"),
        ("a{9" + "9" * 5000 + "}", "a count is at most 1,000"),
        ("(?:a{100}){11}", "counts inside each other come to more than 1,000"),
        ("(?>a)", "an atomic group is not supported"),
        ("(?|a)", "a branch reset is not supported"),
        ("(?#a)", "a comment is not supported"),
        ("(?(1)a|b)", "a condition is not supported"),
        ("(?1)", "recursion is not supported"),
        ("(?&a)", "recursion is not supported"),
        ("(?R)", "the flag R is not supported"),
        ("(?'a'b)", "Write (?P<name>…)."),
        ("(*SKIP)a", "verbs like (*SKIP) are not supported"),
        ("(?<a>x)(?P<a>y)", "this name is taken already"),
        (
            "(?x) a",
            "the flag x is not supported: '(?x)' at character 1 of the pattern. Write the pattern without spaces",
        ),
        ("(?-m)^", "^ and $ are always about the line."),
        ("(?q:a)", "Known are i (ignore case)"),
        ("(?", "there is no such group"),
        ("(?P<1a>b)", "there is no such group"),
        ("a\\", r"the pattern ends in a backslash: '\' at character 2 of the pattern. Write \\ for a backslash."),
        (r"\Aa", "write ^ for its start"),
        (r"a\z", "write $ for its end"),
        (r"a\Z", "write $ for its end"),
        (r"a\Kb", "Capture what follows instead"),
        (r"\Ga", "Write out what stands before the match."),
        (r"\Qa\E", "Ask for a literal search"),
        (r"\C", "Write . for one character."),
        (r"\X", "Write . for one character."),
        (r"a\R", "write $ for its end"),
        (r"\h", r"Write [ \t]."),
        (r"\cC", r"as in \x03"),
        (r"\<a", r"Write \b for the edge of a word, or < for the character."),
        (r"[\b]", r"write \x08 for a backspace"),
        (r"\012", r"Write \x0A, in hex."),
        (r"\q", "Write q for the character itself."),
        (r"\xZ", r"Write \x41"),
        (r"\x{110000}", "no text has this character"),
        (r"\x{D800}", "no text has this character"),
        (r"\p{Klingon}", "these scripts: Latin, Greek"),
        (r"\p{Xx}", "no such property is known here"),
        (r"\p{Script=Greek}", "or a script (Latin, Greek"),
        ("a\ud800", "character 2 of the pattern is half of one (the surrogate U+D800)"),
        ("(" * 51 + "a" + ")" * 51, "at most 50 deep"),
        (r"\p{L}{1000}", "the pattern becomes too large to run"),
        (r"\p{L}" * 90, "the pattern becomes too large to run"),
    ],
)
def test_what_is_never_run_is_refused_with_a_reason_and_a_hint(pattern: str, complaint: str) -> None:
    assert complaint in refusal_of(pattern)


@requirement("grep:pattern-too-long")
def test_a_pattern_over_the_length_limit_is_refused_with_the_limit() -> None:
    assert refusal_of("a" * (MAX_CHARACTERS + 1)) == snapshot(
        "the pattern has 10,001 characters; at most 10,000 are run. Search for a few words at a time."
    )
    assert matches("a" * MAX_CHARACTERS, "a" * MAX_CHARACTERS)


def test_a_pattern_that_is_not_text_is_refused() -> None:
    with pytest.raises(BadPattern, match="a pattern is text, not b'a'"):
        read_pattern(b"a")  # pyright: ignore[reportArgumentType]


@given(st.text(alphabet=r"ab1 \()[]{}|*+?^$.-,:<>=!&pPdwsbxuQEL\n'é😀", max_size=14), st.booleans())
def test_any_text_is_a_pattern_that_compiles_or_is_refused_politely(text: str, ignore_case: bool) -> None:
    complaint = ""
    try:
        pattern = read_pattern(text, ignore_case=ignore_case)
    except BadPattern as refused:
        pattern, complaint = None, str(refused)
    if pattern is None:
        assert complaint[0].islower()
        assert complaint.endswith(".")
        return
    assert "\n" not in written(pattern)
    b"".join(output_of(command_for(pattern, "values", [b"a b1"]), seconds=60))  # else BadPattern


# ── Sets of characters ──────────────────────────────────────────────────────────────────────────────────────

codes = st.integers(0, 0x10FFFF)
ranges = st.lists(st.tuples(codes, codes).map(lambda pair: (min(pair), max(pair))), max_size=6)


@given(ranges, codes)
def test_a_set_and_its_complement_hold_each_character_of_a_line_once(pairs: list[tuple[int, int]], code: int) -> None:
    chars = charset(pairs)
    in_line = code != 0x0A and not 0xD800 <= code <= 0xDFFF
    assert has(chars, code) == (in_line and any(low <= code <= high for low, high in pairs))
    assert has(complement(chars), code) == (in_line and not has(chars, code))


def test_folding_a_plain_letter_needs_no_walk_over_all_scripts_and_gives_the_same() -> None:
    for code in range(0x80):
        assert fold(single(code)) == tuple(
            pair for pair in fold((*single(code), *single(0x3042))) if pair != (0x3042, 0x3042)
        )


def test_every_character_that_folds_is_in_the_part_of_unicode_that_is_walked() -> None:
    def walked(code: int) -> bool:
        return code < 0x2E80 or 0xA640 <= code < 0xAC00 or 0xFB00 <= code < 0x1F000

    cased = (code for code in range(0x110000) if chr(code).lower() != chr(code) or chr(code).casefold() != chr(code))
    assert all(walked(code) for code in cased)


def test_a_category_is_what_unicode_says() -> None:
    letters = category("Lu")
    assert letters
    assert all(has(letters, code) == (unicodedata.category(chr(code)) == "Lu") for code in range(0x3000))
    assert category("Cs") is None  # surrogates are in no text


def test_nothing_but_plain_syntax_is_written() -> None:
    text = written(read_pattern(r"(?i)[[:alpha:]&&--~~\]]{2}\p{Lu}\bx(?P<n>.)[^\s]"))
    flags = re.findall(r"\(\?[^:]", text.replace(r"(?-u:\b)", ""))
    assert flags == []
    assert not re.search(r"\[[^]]*\[", text)
