"""What is drawn at random has its form, and every sign of it is drawn."""

import re
import uuid
from itertools import combinations

import pytest

from holdall.store.ids import new_fence_tag, new_handle, new_mark, new_nonce, new_tag, new_uuid
from holdall.values.handles import LETTERS, LONGEST, SHORTEST, SIGNS, is_mark

DRAWS = 1000  # one that never shows one of a hundred signs is not to be expected in the life of the universe


def test_an_id_is_random_in_all_bits_but_those_that_say_so() -> None:
    drawn = [new_uuid() for _ in range(DRAWS)]
    assert all(str(uuid.UUID(one)) == one for one in drawn)
    numbers = [uuid.UUID(one).int for one in drawn]
    always, ever = numbers[0], 0
    for number in numbers:
        always &= number
        ever |= number
    assert f"{always:032x}" == "00000000000040008000000000000000"
    assert f"{ever:032x}" == "ffffffffffff4fffbfffffffffffffff"
    digits = [f"{number:032x}" for number in numbers]
    for one, other in combinations(range(32), 2):
        assert any(each[one] != each[other] for each in digits)


def test_the_tag_of_a_fence_is_any_three_digits() -> None:
    drawn = [new_fence_tag() for _ in range(DRAWS)]
    assert all(re.fullmatch("[0-9]{3}", one) for one in drawn)
    assert all(len({one[at] for one in drawn}) == 10 for at in range(3))


def test_other_tags_are_hexadecimal_digits_of_their_length() -> None:
    assert [len(bytes.fromhex(one)) for one in (new_tag(), new_tag(12), new_nonce())] == [4, 6, 16]


@pytest.mark.parametrize(
    ("attempt", "length"), [(0, SHORTEST), (3, SHORTEST), (4, SHORTEST + 1), (11, SHORTEST + 2), (10_000, LONGEST)]
)
def test_a_handle_begins_with_a_letter_and_grows_where_short_ones_are_taken(attempt: int, length: int) -> None:
    drawn = [new_handle(attempt) for _ in range(DRAWS)]
    assert {len(one) for one in drawn} == {length}
    assert {one[0] for one in drawn} == set(LETTERS)
    assert all({one[at] for one in drawn} == set(SIGNS) for at in range(1, length))


def test_a_mark_is_one() -> None:
    assert all(is_mark(new_mark()) for _ in range(DRAWS))
