"""The help of every command, found by walking through the program."""

import re
from pathlib import Path

from tests.golden.commands import Commands, real
from tests.golden.golden import compare_folder


def commands_in(text: str) -> list[str]:
    listed = text.partition("\nCommands:\n")[2]
    return re.findall(r"^  ([a-z-]+)", listed, re.MULTILINE)


def test_the_help_of_every_command(holdall: Commands, tmp_path: Path) -> None:
    found: dict[str, str] = {}
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        words = waiting.pop()
        ran = holdall(*words, "--help", home=tmp_path / "home")
        assert (ran.code, ran.err) == (0, b""), words
        text = ran.out.decode()
        found["-".join(("holdall", *words)) + ".txt"] = text
        waiting += [(*words, name) for name in commands_in(text)]
    assert len(found) > 25
    compare_folder("help", found)


def test_the_runs_of_these_tests_are_runs_of_the_program(holdall: Commands, tmp_path: Path) -> None:
    """What is forked here says what the installed command says."""
    home = tmp_path / "home"
    for words in (("read", "--help"), ("ls", "--json")):
        assert holdall(*words, home=home) == real(*words, home=home)
