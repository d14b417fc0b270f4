"""The program around its commands: what it lists, and what a command imports."""

import subprocess
import sys

import pytest
import typer

from holdall.cli.app import app

ROOT = typer.main.get_group(app)
CONTEXT = typer.Context(ROOT)


@pytest.mark.parametrize("name", ROOT.list_commands(CONTEXT))
def test_the_list_of_commands_has_the_first_sentence_of_each_help(name: str) -> None:
    listed = typer.main.get_group(app).get_command(CONTEXT, name)
    command = ROOT.resolve_command(CONTEXT, [name])[1]
    assert listed is not None
    assert listed.help
    assert command is not None
    assert command.help
    assert " ".join(command.help.split("\n\n")[0].split()) == listed.help
    assert command.callback is not listed.callback, "the command itself, not the sentence about it"


def test_a_command_imports_no_other_command() -> None:
    program = "import sys; sys.argv = ['holdall', 'ls', '--help']\ntry:\n import holdall.__main__ as m; m.main()\nfinally:\n print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    own = {name for name in ran.stderr.split() if name.startswith("holdall.cli.")}
    assert own == {f"holdall.cli.{name}" for name in ("app", "fetch", "options", "show", "streams")}
