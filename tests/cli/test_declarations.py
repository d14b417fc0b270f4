"""A dialect and a setting are declared in one place each: toys that are known everywhere (tests/cli/toys.py)."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.requirements import requirement

ROOT = Path(__file__).parents[2]


class Toys(Program):
    """`holdall` with the toys."""

    def said(self, *arguments: str, code: int = 0, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
        """What it wrote to both streams."""
        ran = subprocess.run(
            [sys.executable, "-m", "tests.cli.toys", *arguments], cwd=ROOT, input=stdin, env=self.environment(env),
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False,
        )  # fmt: skip
        assert ran.returncode == code, ran.stdout
        return ran.stdout


@pytest.fixture
def toys(tmp_path: Path) -> Toys:
    return Toys(tmp_path / "home")


def setting(shown: str, name: str) -> Any:
    return json.loads(shown)["settings"][name]


@requirement("settings:file-over-default", "settings:environment-over-file", "settings:flag-over-environment")
def test_a_toy_setting_comes_from_a_file_the_environment_or_a_flag_and_is_shown(toys: Toys, tmp_path: Path) -> None:
    show = ("config", "show", "--json")
    file = tmp_path / "config.toml"
    file.write_text("stride = 1", "utf-8")
    file.chmod(0o600)
    assert setting(toys.said(*show), "stride") == {"value": None, "source": "default"}
    env = {"HOLDALL_CONFIG": str(file)}
    assert setting(toys.said(*show, env=env), "stride") == {"value": 1, "source": str(file)}
    env |= {"HOLDALL_STRIDE": "1.5"}
    assert setting(toys.said(*show, env=env), "stride") == {"value": 1.5, "source": "the environment"}
    flagged = toys.said("--set", "stride=2", *show, env=env)
    assert setting(flagged, "stride") == {"value": 2.0, "source": "--set"}
    assert "stride from the environment" in toys.said("doctor", env=env)


@requirement("settings:bad-value", "settings:nearest-key")
def test_a_toy_setting_is_complained_about_and_documented(toys: Toys) -> None:
    rule = "must be a number from 0.5 to 2, or left out"
    assert f"setting 'stride' in --set is 3.0; it {rule}" in toys.said("--set", "stride=3", "ls", code=2)
    assert "did you mean stride?" in toys.said("--set", "strid=1", "ls", code=2)
    page = toys.said("page", "settings.md")
    assert f"\n| `stride` | – | how far one step goes, in metres; {rule} |  |\n" in page


@requirement("settings:dialect")
def test_a_toy_dialect_can_be_chosen_by_a_flag_and_the_environment(toys: Toys) -> None:
    text = "".join(f"line {number}\n" for number in range(10))
    for how, env in ((("--set", "dialect=terse"), {}), ((), {"HOLDALL_DIALECT": "terse"})):
        said = toys.said(*how, "put", stdin=text, env=env)
        assert ", 10 lines\n" in said
        shown = toys.said(*how, "config", "show", "--json", env=env)
        assert setting(shown, "max_inline_lines") == {"value": 7, "source": "dialect terse"}
    assert "it must be one of holdall, extract, refs, async, clamp, legacy, terse" in toys.said(
        "--set", "dialect=tense", "ls", code=2
    )
    assert "\n## Dialect `terse`\n" in toys.said("page", "tools.md")


def test_only_the_dialect_in_use_is_imported() -> None:
    program = (
        "import sys; from holdall.wire.dialects import dialect_of; from holdall.values.settings import Settings;"
        "dialect_of(Settings(dialect='clamp'));"
        "print(*sorted(one for one in sys.modules if one.startswith('holdall.wire.dialects.')))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == ["holdall.wire.dialects.cutting"]
