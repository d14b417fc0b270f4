"""Every claim of every notice, computed a second way."""

import os
import random

import pytest

from tests.requirements import requirement
from tests.truth import json_shapes, keyed, logs, outputs, tables, texts
from tests.truth.claims import FalseClaim, check_notice
from tests.wire.notices import notice_of

KINDS = (json_shapes, keyed, logs, tables, texts)  # each registers what it can check
_SEEDS = 8 if "HOLDALL_TEST_FULL" in os.environ else 4
_BUDGETS = (250, 700)  # the default, and one in which more is said


def _check(data: bytes, tool: str = "") -> int:
    return sum(check_notice(notice_of(data, exact=False, most_tokens=most, tool=tool), data) for most in _BUDGETS)


def test_many_notices_are_checked() -> None:
    assert len(outputs.MADE) * _SEEDS * len(_BUDGETS) >= 200


@pytest.mark.in_full(one_in=2)
@requirement("notice:figures-true", "notice:exact-up-to-8-mb")
@pytest.mark.parametrize("kind", outputs.MADE)
def test_what_is_made_by_rule_is_told_truly(kind: str) -> None:
    claims = [_check(outputs.MADE[kind](random.Random(f"{kind} {seed}"))) for seed in range(_SEEDS)]
    assert min(claims) >= 2 * 3  # bytes, lines and tokens at least


@pytest.mark.in_full(one_in=3)
@requirement("notice:figures-true")
@pytest.mark.parametrize("name", outputs.real())
def test_real_outputs_are_told_truly(name: str) -> None:
    assert _check(outputs.real()[name].read_bytes()) > 6


@requirement("notice:figures-true")
def test_what_tools_say_is_told_truly() -> None:
    for name, data in outputs.of_tools().items():
        assert _check(data, tool=name.split()[0]) >= 6


@requirement("notice:figures-true", "notice:sample-marked")
def test_of_what_is_too_large_it_is_said_how_much_there_is_at_least() -> None:
    for data in outputs.large().values():
        text = notice_of(data, exact=False, most_tokens=700)
        assert check_notice(text, data) > 4
        assert "at least " in text or " sampled lines:" in text


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (" 4 lines", " 5 lines"),
        ("INFO 3", "INFO 4"),
        ("00:00:03 ·", "00:00:02 ·"),
        ("3 × INFO a", "4 × INFO a"),
        ("L1  2026-01-01 00:00:01 INFO a", "L2  2026-01-01 00:00:01 INFO a"),
        ("WARN 1", "WARN 1, ERROR 1"),
        ("L4 × 1  WARN b", "L3 × 1  WARN b"),
        ("1 rare", "5 rare"),
        ("3 × INFO a", "17 of 4"),
    ],
)
def test_a_false_claim_is_found(right: str, wrong: str) -> None:
    data = b"".join(
        b"2026-01-01 00:00:%02d %b\n" % each
        for each in ((1, b"INFO a"), (3, b"INFO a"), (2, b"INFO a"), (1, b"WARN b"))
    )
    text = (
        "The tool returned 108 bytes · 4 lines · ~64 tokens (log)\nhandle: k3f9\n\n"
        "<7d1a7d1a>\n2026-01-01 00:00:01 → 2026-01-01 00:00:03 · INFO 3, WARN 1\n3 × INFO a\n"
        "… 1 more shape, 1 rare (≤2 lines):\nL4 × 1  WARN b\nL1  2026-01-01 00:00:01 INFO a\n</7d1a7d1a>\n"
    )
    assert check_notice(text, data) == 3 + 5
    assert right in text
    with pytest.raises(FalseClaim):
        check_notice(text.replace(right, wrong), data)
