"""What random input has found so far, read again; and a little more of it."""

import random

import pytest

from tests.fuzz.campaign import changed, load
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.fuzz


@pytest.mark.parametrize("name", TARGETS)
def test_no_reader_fails_in_an_undeclared_way(name: str) -> None:
    target, inputs = TARGETS[name][0], load(name)
    for data in inputs:
        target(data)
    dice = random.Random(name)
    for _ in range(30):
        target(changed(dice.choice(inputs), inputs, dice))
