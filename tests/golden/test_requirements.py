"""No requirement is dropped: every id of today's list is still in `tests/requirements`."""

import os

from tests.golden.golden import DATA, VARIABLE
from tests.requirements import load

FILE = DATA / "requirements.txt"
COUNT = 675


def test_no_requirement_is_gone() -> None:
    now = load()
    known = FILE.read_text().split()
    assert [name for name in known if name not in now] == []
    if os.environ.get(VARIABLE):  # it only grows
        FILE.write_text("".join(f"{name}\n" for name in sorted({*known, *now})))


def test_the_list_is_that_of_version_0_1_0() -> None:
    """Nobody made the list shorter to pass the test above."""
    assert len(FILE.read_text().split()) >= COUNT
