"""The program around its commands: what it lists, and what a command imports."""

import json
import re
import shlex
import subprocess
import sys

import pytest
import typer

from holdall.cli.app import app
from holdall.cli.topics import TOPICS
from tests.cli.program import Program

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
    assert own == {f"holdall.cli.{name}" for name in ("app", "fetch", "options", "progress", "show", "streams")}


def test_an_option_that_goes_before_the_command_is_said_to(holdall: Program) -> None:
    for name, value in (("--set", "retention=keep"), ("--objects", "/o")):
        said = rf"No such option:? '?{name}'?\. It goes before the command: holdall {name} … put"
        assert re.search(said, holdall("put", name, value).err)
        assert re.fullmatch(said, json.loads(holdall("put", name, value, "--json").err)["message"])


def test_help_explains_topics_and_commands(holdall: Program) -> None:
    listed = holdall("help")
    assert re.findall(r"^  (\S+) +\S", listed.text, re.MULTILINE) == list(TOPICS)
    assert holdall("help", "patterns").text == TOPICS["patterns"]
    assert holdall("help", "exit", "codes").text == TOPICS["exit-codes"]
    for words in (("grep",), ("config", "show")):
        assert holdall("help", *words).text == holdall(*words, "--help").text
    unknown = holdall("help", "patern")
    assert unknown.code == 2
    assert "Did you mean patterns?" in unknown.err
    assert holdall("help", "sql", "--json").json["text"] == TOPICS["sql"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nosuch", "--json"), "No such command 'nosuch'."),
        (("grep", "--json"), "Missing argument 'HANDLE...'."),
        (("--json", "ls", "--limit", "x"), "Invalid value for '--limit' / '-n': 'x' is not a valid int range."),
    ],
)
def test_with_json_wrong_use_is_an_object_too(holdall: Program, words: tuple[str, ...], message: str) -> None:
    ran = holdall(*words)
    assert (ran.code, ran.out) == (2, b"")
    assert json.loads(ran.err) == {"error": "WrongUse", "message": message}


@pytest.mark.parametrize("topic", TOPICS)
def test_the_commands_of_a_topic_are_those_of_the_program(topic: str) -> None:
    lines = [line for line in TOPICS[topic].splitlines() if line.startswith("  ") and "holdall " in line]
    assert all(len(line) <= 120 for line in TOPICS[topic].splitlines())
    for line in lines:
        command = line[line.index("holdall ") :].split("  ")[0].split(" | jq")[0].split("; ")[0]
        _, *words = shlex.split(command.split(" restores")[0].partition(" | ")[0].partition(" > ")[0])
        name = next((one for one in words if not one.startswith("-") and "=" not in one), None)
        if name is None:
            continue
        found = ROOT.resolve_command(CONTEXT, [name])[1]
        options = {one for given in (found, ROOT) if given for known in given.params for one in known.opts}
        own = words[: words.index("--")] if "--" in words else words
        flags = [one.partition("=")[0] for one in own if one.startswith("-")]
        assert set(flags) <= options | {"--install-completion"}, line
