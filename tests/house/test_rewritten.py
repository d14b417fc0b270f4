"""What is rewritten before the workers of a run start is what they use."""

import shutil
from pathlib import Path

import pytest

from tests.rewritten import rewrite_all


def test_a_file_is_rewritten_once_and_again_when_it_has_changed(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    shutil.copy(__file__, tmp_path)
    (tmp_path / "helper.py").write_text("assert True\n")
    assert [rewrite_all(pytestconfig, tmp_path) for _ in range(2)] == [1, 0]
    (kept,) = tmp_path.rglob("*.pyc")
    assert "pytest" in kept.name
    with (tmp_path / Path(__file__).name).open("a") as file:
        file.write("\n")
    assert [rewrite_all(pytestconfig, tmp_path) for _ in range(2)] == [1, 0]
