"""The benchmark of adapters on tiny sizes: every figure is there. What they are is judged by `./dev bench adapters`."""

import pytest

from bench import adapters

pytestmark = pytest.mark.bench


def test_every_figure_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(adapters, "ROUNDS", 1)
    monkeypatch.setattr(adapters, "CALLS", 1)
    monkeypatch.setattr(adapters.sessions, "__defaults__", (3,))
    adapters.main(["ground", "fastmcp"])
    told = capsys.readouterr().out
    for name in (
        "take of a dict",
        "3 open sessions",
        "fastmcp: Server",
        "ratio",
        "10 MB: tokens",
        "lines of user code",
    ):
        assert name in told


def test_a_figure_over_its_bound_is_told_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adapters, "forms", lambda: iter([adapters.Figure("a figure", 3.0, "×", 2.0, holds=False)]))
    monkeypatch.setattr(adapters, "sessions", lambda: iter([adapters.Figure("another", 1.0, "×", 2.0)]))
    assert adapters.main(["ground"]) == 1
    assert "BROKEN" in capsys.readouterr().out
