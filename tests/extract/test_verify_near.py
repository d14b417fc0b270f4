"""The place most like a quote: the distance is the true one, and what is unlike has no place."""

from hypothesis import given
from hypothesis import strategies as st

from holdall.extract.quotes import ALIKE, LONGEST, Nearest, nearest
from holdall.extract.verify import Quote, verify
from holdall.values.spans import Span

TEXT = "the quick brown fox jumps over the lazy dog while 1234 cats look on and 5678 birds sing in the trees"


def distance(left: str, right: str) -> int:
    """The edit distance, by the table of the textbook."""
    row = list(range(len(right) + 1))
    for number, char in enumerate(left, 1):
        above, row = row, [number]
        for at, other in enumerate(right, 1):
            row.append(min(above[at] + 1, row[-1] + 1, above[at - 1] + (char != other)))
    return row[-1]


edits = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["", "x", "ab", " "])), max_size=6)


@given(st.integers(0, 60), st.integers(8, 40), edits)
def test_what_is_found_is_as_near_as_it_says_and_no_other_place_is_nearer(
    start: int, length: int, changes: list[tuple[int, str]]
) -> None:
    original = quote = TEXT[start : start + length]
    for at, new in changes:
        place = at % (len(quote) + 1)
        quote = quote[:place] + new + quote[place + 1 :]
    found = nearest(quote, TEXT)
    if found is None:
        return
    assert found.distance == distance(quote, TEXT[found.start : found.end])
    assert found.distance <= distance(quote, original)
    assert found.distance <= len(quote) * (1 - ALIKE)


@given(st.integers(0, 50), st.integers(24, 45), st.integers(0, 1000), st.sampled_from("xyz09"))
def test_one_changed_sign_is_always_seen_as_one(start: int, length: int, at: int, new: str) -> None:
    original = TEXT[start : start + length]
    place = at % length
    quote = original[:place] + new + original[place + 1 :]
    found = nearest(quote, TEXT)
    assert found is not None
    assert found.distance == (quote not in TEXT)


def test_a_quote_that_shares_some_words_but_says_something_else_has_no_place() -> None:
    assert nearest("the quick brown fox was never here at all, they said", TEXT) is None
    assert nearest("5678 dogs look for 1234 trees", TEXT) is None
    assert nearest("lazy do", TEXT) is None  # too short to tell


def test_three_quarters_are_enough_and_a_sign_less_is_not() -> None:
    original = "jumps over the lazy dog while 1234 cats look on."
    changed = "#" * 12 + original[12:]
    assert nearest(changed, original + " " * 50) == Nearest(0, 48, 12)
    assert nearest("#" + changed[1:12] + "#" + changed[13:], original + " " * 50) is None


def test_the_nearest_of_many_like_lines_is_told_by_what_is_rare_in_it() -> None:
    data = "".join(f"2026-01-01 request {number * 7919 % 10007} served to host-{number}\n" for number in range(3000))
    quote = "2026-01-01 request 1234567 served to host-1777"
    (snippet,) = verify(
        [Quote(quote, 0, (Span(0, len(data)),))], lambda start, end: data.encode()[max(0, start) : end], len(data)
    ).snippets
    assert (snippet.check, snippet.said) == ("near", quote)
    assert snippet.text.endswith("host-1777")


def test_of_a_very_long_quote_the_beginning_is_looked_for() -> None:
    text = "".join(f"line {number} of the text\n" for number in range(2000))
    found = nearest(text[4000:20_000].replace("5", "6"), text)
    assert found is not None
    assert abs(found.start - 4000) < 30
    assert found.end - found.start < LONGEST + 100


def test_in_a_log_a_changed_line_is_found_where_it_is() -> None:
    lines = [
        f"2026-11-15 10:{n // 60 % 60:02}:{n % 60:02} host-{n % 50} job {n} done in {n * 37 % 900} ms\n"
        for n in range(3000)
    ]
    data = "".join(lines).encode()
    for number in (8, 146, 175, 268, 1755, 2931):
        line = lines[number].strip()
        start = data.index(line.encode())
        for quote in (line.replace("job", "task"), line.replace("2026", "2025"), line.replace("done", "DONE")):
            (snippet,) = verify([Quote(quote, 0, (Span(0, len(data)),))], lambda a, b: data[a:b], len(data)).snippets
            assert snippet.span is not None
            assert snippet.span.start <= start < snippet.span.end, quote
