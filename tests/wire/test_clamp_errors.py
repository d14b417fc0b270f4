"""The clamp of errors: the model reads the message, the facts get the traceback."""

import inspect
import sys

import pytest

from holdall.policy.decide import Limits
from holdall.wire.clamp import SUFFIX, clamp_error, traceback_of
from holdall.wire.dialects import DIALECTS
from tests.requirements import requirement
from tests.wire.texts import lines, size

LIMITS = DIALECTS["clamp"].limits


def nested(error: Exception, levels: int) -> Exception:
    for _ in range(levels):
        group: ExceptionGroup[Exception] = ExceptionGroup("g", [error])
        error = group
    return error


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@requirement("clamp:pure")
@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("bad value"), "ValueError: bad value"),
        (KeyError("name"), "KeyError: 'name'"),
        (TimeoutError(), "TimeoutError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (Mute(), "Mute: (its message could not be read: RuntimeError)"),
        (
            ExceptionGroup("two", [ValueError("a"), ExceptionGroup("inner", [OSError("b")]), ValueError("c")]),
            "ExceptionGroup: two (3 sub-exceptions)\n  ValueError: a\n  ExceptionGroup: inner (1 sub-exception)\n    OSError: b\n  ValueError: c",
        ),
    ],
)
def test_an_error_is_shown_as_its_type_and_message(error: BaseException, shown: str) -> None:
    assert clamp_error(error, LIMITS) == shown


def test_a_long_message_is_clamped_and_holds_no_traceback() -> None:
    try:
        raise ValueError("E" * 5_000_000)
    except ValueError as error:
        shown, whole = clamp_error(error, LIMITS), traceback_of(error)
    assert shown == "ValueError: " + "E" * (51_200 - 12 - len(SUFFIX)) + SUFFIX
    assert whole.startswith("Traceback (most recent call last):\n")
    assert __file__ in whole
    assert len(whole) > 5_000_000


def test_async_004_a_group_of_a_thousand_errors_is_bounded_where_shown_and_whole_in_the_facts() -> None:
    error = ExceptionGroup("g", [ValueError(f"{number} " + "x" * 5000) for number in range(1000)])
    shown = clamp_error(error, LIMITS)
    assert size(shown) <= 51_200
    assert shown.startswith("ExceptionGroup: g (1000 sub-exceptions)\n  ValueError: 0 xxx")
    assert shown.endswith(SUFFIX)
    assert "ValueError: 999 xxx" in traceback_of(error)


def test_groups_nested_a_thousand_deep_are_bounded() -> None:
    error = nested(ValueError("x" * 5_000_000), 1000)
    shown = clamp_error(error, LIMITS)
    assert size(shown) <= 51_200
    assert lines(shown) <= 2003
    assert "max_group_depth" in traceback_of(error)


def test_a_traceback_is_written_even_deep_down() -> None:
    error = nested(ValueError("bottom"), 60)

    def deep(levels: int) -> str:
        return deep(levels - 1) if levels else traceback_of(error)

    assert "ExceptionGroup: g" in deep(sys.getrecursionlimit() - len(inspect.stack(0)) - 50)


def test_without_a_byte_limit_all_members_are_gathered() -> None:
    error = ExceptionGroup("g", [ValueError("x" * 100)] * 1000)
    assert len(clamp_error(error, Limits())) > 100_000
    assert lines(clamp_error(error, Limits(lines=3)).partition("\n\n[")[0]) == 3
