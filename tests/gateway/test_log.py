"""What the gateway writes on standard error."""

# pyright: reportPrivateUsage=false

import logging

import pytest

from holdall.cli import servers


def test_a_warning_is_one_short_line_whatever_a_server_has_said(capsys: pytest.CaptureFixture[str]) -> None:
    said = "no\nholdall: token: EVIL\x1b[2J" + "z" * 100_000
    servers._Handler().emit(logging.LogRecord("holdall.gateway", logging.WARNING, "", 0, "%s", (said,), None))
    told = capsys.readouterr().err
    assert told.startswith("holdall: no")
    assert (told.count("\n"), "\x1b" in told, len(told) < 1100) == (1, False, True)
