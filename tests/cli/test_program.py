"""The program around its commands: what it lists, and what a command imports."""

import subprocess
import sys

import pytest
import typer
from typer.core import TyperGroup

from holdall.cli.app import app

ROOT = typer.main.get_command(app)
assert isinstance(ROOT, TyperGroup)
CONTEXT = typer.Context(ROOT)
LISTED = {name: command.help for name in ROOT.list_commands(CONTEXT) if (command := ROOT.get_command(CONTEXT, name))}


@pytest.mark.parametrize("name", LISTED)
def test_the_list_of_commands_has_the_first_sentence_of_each_help(name: str) -> None:
    command = ROOT.resolve_command(CONTEXT, [name])[1]
    assert command is not None
    assert " ".join((command.help or "").split("\n\n")[0].split()) == LISTED[name]


def test_a_command_imports_no_other_command() -> None:
    program = "import sys; sys.argv = ['holdall', 'ls', '--help']\ntry:\n import holdall.__main__ as m; m.main()\nfinally:\n print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    own = {name for name in ran.stderr.split() if name.startswith("holdall.cli.")}
    assert own == {f"holdall.cli.{name}" for name in ("app", "fetch", "options", "show", "streams")}
