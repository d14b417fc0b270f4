"""Inputs that are meant to hurt the clamp, by their names."""

from typing import Any

import pytest

from holdall.text.tokens import Estimate, rough_estimate
from holdall.wire.clamp import SUFFIX, clamp_result, clamp_text, structured_content_of
from holdall.wire.dialects import DIALECTS
from tests.requirements import requirement
from tests.wire.texts import size

LIMITS = DIALECTS["clamp"].limits


@requirement("clamp:under-limits-same-object")
@pytest.mark.parametrize(
    ("text", "total", "kept"),
    [
        ("x\n" * 2000, 2000, 2000),
        ("x\n" * 1999 + "x", 2000, 2000),
        ("x\n" * 2000 + "x", 2001, 2000),
        ("x\n" * 2001, 2001, 2000),
        ("x\n" * 2000 + "\n", 2001, 2000),
    ],
)
def test_clamp_003_a_final_newline_does_not_add_a_line(text: str, total: int, kept: int) -> None:
    clamped = clamp_text(text)
    assert (clamped.total_lines, clamped.kept_lines, clamped.changed) == (total, kept, total > 2000)
    assert clamped.text == ("x\n" * 2000 + SUFFIX if total > 2000 else text)


def test_clamp_007_an_error_of_5_mb_is_still_an_error() -> None:
    for flag in ("isError", "is_error"):
        result = {flag: True, "content": [{"type": "text", "text": "E" * 5_000_000}]}
        new: Any = clamp_result(result, LIMITS)
        assert new == {flag: True, "content": [{"type": "text", "text": "E" * (51_200 - len(SUFFIX)) + SUFFIX}]}


def test_clamp_008_structured_content_is_told_to_the_caller() -> None:
    rows = {"rows": ["x" * 1000] * 5000}
    result = {"content": [{"type": "text", "text": "ok"}], "structuredContent": rows}
    assert structured_content_of(clamp_result(result, LIMITS)) is rows


def test_clamp_010_a_quoted_notice_is_told_from_the_real_one() -> None:
    text = "[tool output truncated: exceeded 50KB or 2000 lines]\n" * 3000
    clamped = clamp_text(text, tag="9f2c41aa")
    body, real, rest = clamped.text.partition("\n\n[holdall:9f2c41aa] ")
    assert text.startswith(body)
    assert real
    assert rest == SUFFIX.removeprefix("\n\n")
    assert clamp_text(clamped.text, tag="another").text is clamped.text


@pytest.mark.parametrize("text", ["漢" * 30_000, "😀" * 30_000, "QUJD" * 30_000])
def test_clamp_011_dense_text_is_held_by_bytes_and_its_tokens_are_not_underrated(text: str) -> None:
    clamped = clamp_text(text)
    assert size(clamped.text) <= 51_200
    assert Estimate().count(clamped.text) >= rough_estimate(len(clamped.text))


def test_a_hundred_megabytes_are_clamped_in_linear_time() -> None:
    # The deadline of every test is the limit: anything that is not linear does not end within it.
    for text in ("x" * 100_000_000, "漢" * 30_000_000, "\r\n" * 50_000_000, "e" + "\u0301" * 30_000_000):
        assert size(clamp_text(text).text) <= 51_200
    assert clamp_text("\U0001f1e9\U0001f1ea" * 500_000, max_bytes=3_999_999).kept_bytes == 3_999_872
