"""A verb, a dialect and a setting are declared in one place each: toys are known everywhere (tests/cli/toys.py)."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.gateway.support import plain, text_of, wire
from tests.requirements import requirement

ROOT = Path(__file__).parents[2]
TOYS = (sys.executable, "-m", "tests.cli.toys")
TEXT = "".join(f"line {number}\n" for number in range(10))


class Toys(Program):
    """`holdall` with the toys."""

    def said(self, *arguments: str, code: int = 0, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
        """What it wrote to both streams."""
        ran = subprocess.run(
            [*TOYS, *arguments], cwd=ROOT, input=stdin, env=self.environment(env),
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
    assert f"\n| `stride` | – | How far one step goes, in metres. It {rule}. |  |\n" in page


@requirement("settings:dialect")
def test_a_toy_dialect_can_be_chosen_by_a_flag_and_the_environment(toys: Toys) -> None:
    for how, env in ((("--set", "dialect=terse"), {}), ((), {"HOLDALL_DIALECT": "terse"})):
        said = toys.said(*how, "put", stdin=TEXT, env=env)
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


@requirement("cli:json-everywhere")
def test_a_toy_verb_is_a_command_with_flags_and_a_page(toys: Toys) -> None:
    handle = json.loads(toys.said("put", "--json", stdin=TEXT))["handle"]
    assert toys.said("head", handle, "-n", "2").startswith("line 0\nline 1\nlines 1–2 of 10 · ")
    assert toys.said("head", handle).startswith("line 0\nline 1\nline 2\nlines 1–3 of 10 · ")
    assert json.loads(toys.said("head", handle, "--json", "--lines", "1"))["text"] == "line 0\n"
    assert "0 is not in the range 1<=x<=1000" in toys.said("head", handle, "-n", "0", code=2)
    assert "\n  head       Print the first lines of an output.\n" in toys.said("--help")
    flag = "\n  -n, --lines N        How many lines.  [default: 3; 1<=x<=1000]\n"
    assert flag in toys.said("head", "--help")
    commands = toys.said("page", "commands.md")
    assert "\n## holdall head\n" in commands
    assert flag in commands
    assert "\n### context_head\n\n```text\nRead the first lines of a kept output.\n```\n" in toys.said(
        "page", "tools.md"
    )


@requirement("api:tools-openai", "api:tools-anthropic", "api:tools-mcp", "watch:retrievals-by-verb")
def test_a_toy_verb_is_a_tool_in_the_form_of_every_provider_and_can_be_called(toys: Toys) -> None:
    found = json.loads(toys.said("forms"))
    lines = {"type": "integer", "description": "How many (default 3)."}
    schema = {
        "type": "object", "required": ["handle"],
        "properties": {"handle": {"type": "string"}, "lines": lines},
    }  # fmt: skip
    function = {"name": "context_head", "description": "Read the first lines of a kept output."}
    assert found["openai"] == {"type": "function", "function": function | {"parameters": schema}}
    assert found["responses"] == {"type": "function", **function, "parameters": schema, "strict": False}
    assert found["strict"]["function"]["parameters"]["required"] == ["handle", "lines"]
    assert found["anthropic"] == function | {"input_schema": schema}
    assert found["mcp"] == function | {"inputSchema": schema, "annotations": {"readOnlyHint": True}}
    assert found["said"][0][2:4] == ["line 0", "line 1"]
    assert found["said"][1] == ["The argument 'lines' must be at least 1."]
    assert found["errors"] == [False, True]
    assert found["retrievals"] == {"head": 1}


@pytest.mark.anyio
@requirement("api:tools-mcp")
async def test_a_toy_verb_is_a_tool_of_the_gateway(toys: Toys) -> None:
    environment = toys.environment({"PYTHONPATH": str(ROOT)})
    async with wire([*TOYS, "gateway", "--", *plain()], **environment) as client:
        await client.greet()
        listed = {one["name"]: one for one in (await client.result("tools/list", {"cursor": "2"}))["tools"]}
        assert listed["context_head"]["inputSchema"]["required"] == ["handle"]
        big = text_of(await client.call("big", lines=20_000))
        handle = big.partition('handle="')[2].partition('"')[0]
        assert "lines 1–2 of " in text_of(await client.call("context_head", handle=handle, lines=2))
