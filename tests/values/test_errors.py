"""The errors: their tree is as it is drawn, and each message says what to do next."""

import re

import pytest
from inline_snapshot import snapshot

from holdall.values import errors
from holdall.values.errors import (
    AmbiguousCallId,
    AnchorNotFound,
    BadSetting,
    HoldallError,
    MissingExtra,
    OutputDamaged,
    OutputExpired,
    OutputMissing,
    UnknownHandle,
)


def drawn() -> dict[str, str]:
    """Each name of the tree in the module's docstring, to the name above it."""
    tree: dict[str, str] = {}
    above: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"    ([│├└─ ]*)([A-Z]\w+)(?: |$)", line):
            depth = len(match[1]) // 4
            above[depth] = match[2]
            tree[match[2]] = above[depth - 1] if depth else "Exception"
    return tree


def test_the_tree_of_errors_is_as_its_docstring_draws_it() -> None:
    found = {
        name: one.__base__.__name__
        for name, one in vars(errors).items()
        if isinstance(one, type) and issubclass(one, HoldallError) and one.__base__
    }
    assert found == drawn()


def test_the_messages_say_what_happened_and_what_to_do() -> None:
    shown = [
        UnknownHandle("k3f9", session="s1"),
        UnknownHandle("x" * 200, session="s1", known=[f"h{number}" for number in range(10)]),
        AmbiguousCallId("c1", ["k3f9", "m4g8"]),
        BadSetting("retention", "x" * 200, "it must be shorter", where="config.toml"),
        MissingExtra("rs_bpe", "tokens", "counting tokens exactly"),
        AnchorNotFound(),
        OutputExpired("k3f9", "2026-11-15", "kept for 30 days"),
        OutputDamaged("k3f9", "checksum mismatch in bytes 0 to 65,536"),
        OutputMissing("k3f9"),
    ]
    assert [str(one) for one in shown] == snapshot(
        [
            'no output is kept under "k3f9" in session "s1". Kept: nothing yet. (`holdall ls` lists them.)',
            'no output is kept under "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" in session "s1". Kept: h0, h1, h2, h3, h4, h5, h6, h7 and 2 more. (`holdall ls` lists them.)',
            '2 outputs have the call id "c1". Use one of their handles: k3f9, m4g8.',
            "setting 'retention' in config.toml is 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...; it must be shorter",
            "counting tokens exactly needs the package 'rs_bpe'. Install it with: pip install 'holdall[tokens]'",
            "Anchor not found in content",
            "output k3f9 expired: its bytes were removed on 2026-11-15 (kept for 30 days).",
            "output k3f9 is damaged: checksum mismatch in bytes 0 to 65,536. The damaged bytes are not shown; `holdall verify` lists what is damaged.",
            "the stored bytes of output k3f9 are gone: its file was removed from the store by hand.",
        ]
    )


def test_a_value_that_cannot_be_written_out_does_not_hide_the_complaint() -> None:
    with pytest.raises(ValueError, match="4300 digits"):
        repr(10**5000)
    assert str(BadSetting("n", 10**5000, "it must be less")) == snapshot(
        "setting 'n' is a number that is too long to show; it must be less"
    )
