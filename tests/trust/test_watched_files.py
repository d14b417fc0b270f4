"""What a server's command runs: which files are watched, what the question says of them, and that nothing else starts."""

import asyncio
import importlib.util
import json
import marshal
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall import trust
from holdall.mcp.client import spec
from holdall.mcp.client.connection import Connection
from holdall.mcp.client.server_process import StopTimeouts, start
from holdall.mcp.client.spec import StdioServer, load
from holdall.values.errors import UpstreamFault, UsageError
from tests.cli.agents import SERVER
from tests.requirements import requirement

UNCHECKED = importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + bytes(8)


def write(folder: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def watched(folder: Path, *words: str, **environment: str) -> list[str]:
    found = trust.watched_files(words, environment, str(folder), str(folder))
    assert found.whole
    return [os.path.relpath(one, folder) for one, _ in found.files]


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("words", "texts", "others"),
    [
        ("python3 srv.txt out", {"srv.txt": "import helper, pack.a", "helper.py": "", "pack/__init__.py": "",
                                 "pack/a.py": "from . import b", "pack/b.py": "", "random.py": ""}, ["out", "note.txt"]),
        ("python3 -u lib/serve.py out", {"lib/serve.py": "", "lib/beside.py": ""}, ["out", "helper.py"]),
        ("python3 -Im pack.deep", {"pack/__init__.py": "", "pack/deep.py": "", "random.py": ""}, []),
        ("python3 -c 'import a'", {"a.py": ""}, ["data"]),
        ("python3 s.py", {"s.py": "import pk.a, ns.b", "pk/__init__.py": "", "pk/a.pyc": "", "ns/b.pyc": ""}, ["ns/c.pyc"]),
        ("python3 srv", {"srv/__main__.pyc": ""}, ["srv.txt"]),
        ("python3 s.py", {"s.py": "from ns import(a)\nfrom ns.b import*", "ns/a.py": "", "ns/b.py": ""}, ["ns/c.py"]),
        ("python3 -m ns.s", {"ns/s.py": "from.a import X\nfrom . b import Y", "ns/a.py": "", "ns/b.py": ""}, ["ns/c.py"]),
        ("python3 s.py", {"s.py": "from ns\\\n.a import X\nfrom ns import b as q,\\\n c\nimport ns . d\\\n, ns.e",
                          **dict.fromkeys(("ns/a.py", "ns/b.py", "ns/c.py", "ns/d.py", "ns/e.py"), "")}, ["ns/f.py"]),
        ("sh run.sh", {"run.sh": "exec python3 -E s.py", "s.py": "import h", "h.py": "",
                       "__pycache__/h.cpython-311.pyc": "timed\0\0\0"}, []),
        ("./s.py", {"s.py": "#!/usr/bin/python3 -E\nimport ns.h", "ns/h.py": "",
                    "ns/__pycache__/h.cpython-311.pyc": "timed\0\0\0"}, []),
        ("node server", {"server.js": "require('./lib/one')", "lib/one.js": "import './two.mjs'", "lib/two.mjs": ""},
         ["lib/three.js"]),
        ("node app ./data.db", {"app/index.js": ""}, ["data.db"]),
        ("node --require ./hook.txt --require=./x.js server.js", {"hook.txt": "", "x.js": "", "server.js": ""}, []),
        ("npx .", {"package.json": '{"bin": "./bin/cli"}', "bin/cli.js": ""}, []),
        ("npx -y @me/serve@1.2 x", {"node_modules/.bin/serve": "", "node_modules/@me/serve/package.json": '"./a.js"',
                                    "node_modules/@me/serve/a.js": ""}, ["node_modules/.bin/other"]),
        ("uv run tool", {".venv/bin/tool": ""}, [".venv/bin/other"]),
        ("npm start", {"package.json": '{"scripts": {"start": "sh start.sh"}}', "start.sh": ""}, []),
        ("sh -c 'npm start'", {"package.json": '{"scripts": {"start": "sh start.sh"}}', "start.sh": ""}, ["pom.xml"]),
        ("/usr/bin/env make run", {"Makefile": "run:\n\t@sh x.sh\n", "x.sh": ""}, []),
        ("sh run.sh", {"run.sh": "exec make -C sub run", "sub/Makefile": "run:\n\t@sh x.sh\n", "sub/x.sh": ""}, []),
        ("npm --prefix sub start", {"sub/package.json": '{"main": "./a.js"}', "sub/a.js": ""}, []),
        ("make --directory=sub", {"sub/Makefile": "run:\n\t@sh x.sh\n", "sub/x.sh": ""}, []),
        ("uv --directory sub run s.py", {"s.py": "", "h.py": "", "sub/s.py": "", "sub/h.py": "", "sub/json.py": "",
                                         "sub/pyproject.toml": ""}, ["lib/h.py", "sub/deep/h.py"]),
        ("uv --directory sub run tool", {"sub/.venv/bin/tool": ""}, ["sub/.venv/bin/other"]),
        ("sh -c 'cd \"sub\" && python3 srv.txt out'", {"srv.txt": "", "sub/srv.txt": "import h", "sub/h.py": ""}, ["sub/out"]),
        ("sh -c 'cd \"sub\" && exec node main'", {"main.js": "", "sub/main.js": ""}, ["sub/other.js"]),
        ("python3 -c \"import sys;sys.path.insert(0,'sub');import server\"", {"server.py": "", "sub/server.py": "import h",
                                                                          "sub/h.py": ""}, []),
        ("python3 -Bmserver", {"server.py": "", "json.py": ""}, ["lib/more.py"]),
        ("env -C sub python3 -m pack", {"sub/pack/__init__.py": "", "sub/pack/__main__.py": "", "sub/re.py": ""}, []),
        ("sh server.sh", {"server.sh": "", "lib/server.sh": ""}, ["server.py", "lib/server.js"]),
        ("awk -fsub/prog.awk", {"sub/prog.awk": ""}, ["sub/other.awk"]),
        ("node index.js", {"index.js": "", "lib/index.js": ""}, ["node_modules/x/index.js", ".venv/lib/index.js"]),
        ("sh -c 'cd \"node_modules/x\" && node index.js'", {"index.js": "", "node_modules/x/index.js": ""},
         ["node_modules/y/index.js"]),
        ("npx -y @me/mcp-server-thing", {}, ["server.py", "thing.py", "lib/mcp.py"]),
        ("Rscript serve.R out", {"serve.R": ""}, ["out"]),
        ("go run main.go", {"main.go": ""}, ["main.db"]),
        ("go run ./cmd/server", {"cmd/server/main.go": ""}, []),
        ("docker compose -f docker/dev.yml up", {"docker/dev.yml": ""}, ["docker/other.yml"]),
        ("psql --file=x.sql out.json", {"x.sql": ""}, ["out.json"]),
        ("uvicorn app.main:serve", {"app/main.py": "", "app/__init__.py": ""}, ["other.py"]),
        ("make serve", {"Makefile": "serve:\n\t@sh x.sh\n", "x.sh": ""}, []),
        ("npm run x", {"package.json": '{"scripts": {"x": "node dist/main"}}', "dist/main.js": ""}, [".yarnrc.yml"]),
        ("yarn x", {".yarnrc.yml": "yarnPath: .yarn/releases/yarn.cjs", ".yarn/releases/yarn.cjs": ""}, ["pom.xml"]),
        ("uv run srv", {"pyproject.toml": "[project.scripts]\nsrv = 'pkg.main:run'", "src/pkg/__init__.py": "",
                        "src/pkg/main.py": ""}, []),
        ("timeout 5 python3 -u srv.txt out", {"srv.txt": "import helper", "helper.py": ""}, ["out"]),
        ("sh -c 'python srv.txt < out'", {"srv.txt": ""}, ["out"]),
        ("bash -lc 'cd pkg && exec node main'", {"pkg/main.js": ""}, ["other.js"]),
        ("make run", {"Makefile": "run:\n\tpython3 srv.txt out\n", "srv.txt": ""}, ["out"]),
        ("uvx mcp-server-sqlite --db-path ./data.db", {}, ["data.db", "package.json"]),
        ("./tool data.db", {"tool": ""}, ["data.db"]),
        ("tool", {}, ["tool"]),
        ("{folder}/tool", {"tool": ""}, []),
        ("/usr/bin/env run.sh", {"run.sh": ". ./x", "x": ""}, []),
        ("sh -c 'set -e; . ./a.sh; exec ./tool; cat note.txt'", {"a.sh": "", "tool": ""}, []),
        ("sh run.sh", {"run.sh": "if true; then . ./env; fi\nsource other\n", "env": "", "other": ""}, ["third"]),
        ("sh -c '. ./env; exec ./tool'", {"env": "", "tool": ""}, []),
        ("make -s -f build.mk run", {"build.mk": "include rules.mk\n-include more\n", "rules.mk": "", "more": ""}, []),
        ("sh go.sh", {"go.sh": "exec python3 app/server\n", "app/server": "", "app/email.py": ""}, []),
        ("python3 a.py", {"a.py": "from pk import (  # a (comment)\n one,\n two)\n", "pk/one.py": "", "pk/two.py": ""}, []),
    ],
)  # fmt: skip
def test_the_code_that_a_command_names_is_watched(
    tmp_path: Path, words: str, texts: dict[str, str], others: list[str]
) -> None:
    write(tmp_path, *others)
    for name, text in texts.items():
        write(tmp_path, name, text=text)
        (tmp_path / name).chmod(0o755 if "." not in name else 0o644)
    assert watched(tmp_path, *shlex.split(words.format(folder=tmp_path))) == sorted(texts)


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize("script", [". ./env; exec true", "set -e; . env", "if true; then source ./env; fi", ". env"])
def test_what_a_shell_is_told_to_read_is_watched_though_it_is_no_program(tmp_path: Path, script: str) -> None:
    write(tmp_path, "env", "other")
    assert watched(tmp_path, "sh", "-c", script) == ["env"]
    write(tmp_path, "run.sh", text=f"{script}\n")
    assert watched(tmp_path, "sh", "run.sh") == ["env", "run.sh"]


@requirement("trust:asks-again-when-changed")
def test_the_code_that_variables_name_is_watched(tmp_path: Path) -> None:
    write(tmp_path, "b.py", "c.js", "bin/uptime", "lib/x.txt", "src/mod.py", "rc", "pre.so")
    (tmp_path / "bin" / "uptime").chmod(0o755)
    assert watched(tmp_path, "uptime", PATH="./bin:/usr/bin") == ["bin/uptime"]
    assert watched(tmp_path, "true", PATH=f"{tmp_path}/bin:/usr/bin") == ["bin/uptime"], "it may run others"
    assert watched(tmp_path, "true", NODE_OPTIONS="--require=./c.js", BASH_ENV="rc") == ["c.js", "rc"]
    assert watched(tmp_path, "true", PYTHONPATH="src", LD_LIBRARY_PATH="lib", LD_PRELOAD="./pre.so") == [
        "lib/x.txt", "pre.so", "src/mod.py"
    ]  # fmt: skip
    assert watched(tmp_path, "true", MEMORY_FILE="./rc", SCRIPT="b.py") == ["b.py"]


@requirement("trust:asks-again-when-changed")
def test_compiled_code_that_python_does_not_compare_with_its_source_is_watched(tmp_path: Path) -> None:
    write(tmp_path, "serve.py", "__pycache__/serve.cpython-311.pyc")
    cached = tmp_path / "__pycache__" / "serve.cpython-311.pyc"
    cached.write_bytes(importlib.util.MAGIC_NUMBER + bytes(12))
    assert watched(tmp_path, "python3", "serve.py") == ["serve.py"]
    assert watched(tmp_path, "python3", "-sE", "serve.py") == ["__pycache__/serve.cpython-311.pyc", "serve.py"]
    cached.write_bytes(UNCHECKED)
    assert watched(tmp_path, "python3", "serve.py") == ["__pycache__/serve.cpython-311.pyc", "serve.py"]


@requirement("trust:asks-again-when-changed")
def test_compiled_code_of_a_checkout_is_not_run_in_place_of_what_was_agreed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python takes it where it has the size and the time of the source, which an archive may set."""
    ran, folder = tmp_path / "ran", tmp_path / "checkout"
    write(folder, "helper.py", text="ran = 'agreed'\n")
    write(folder, "server.py", text=f"import helper\nopen({str(ran)!r}, 'w').write(helper.ran)\n")
    about = (folder / "helper.py").stat()
    head = importlib.util.MAGIC_NUMBER + bytes(4) + int(about.st_mtime).to_bytes(4, "little")
    cached = Path(importlib.util.cache_from_source(str(folder / "helper.py")))
    cached = folder / "__pycache__" / cached.name
    cached.parent.mkdir()
    cached.write_bytes(head + about.st_size.to_bytes(4, "little") + marshal.dumps(compile("ran = 'evil'", "x", "exec")))
    servers = {"files": {"command": sys.executable, "args": ["server.py"]}}
    write(folder, "mcp.json", text=json.dumps({"mcpServers": servers}))
    monkeypatch.chdir(folder)
    (spec,) = load("mcp.json").servers
    assert isinstance(spec, StdioServer)
    subprocess.run([sys.executable, "server.py"], check=True, env={"PATH": os.environ["PATH"]})
    assert ran.read_text() == "evil"  # so it is by itself

    async def run() -> None:
        surroundings = {"PATH": os.environ["PATH"], "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
        child = await start(spec, environment=surroundings, hear=lambda _: None, silent=lambda: None)
        await child.exit_code_and_stderr(60)
        await child.end(StopTimeouts())

    ran.unlink()
    asyncio.run(run())
    assert ran.read_text() == "agreed"


def test_a_text_without_an_end_takes_no_time(tmp_path: Path) -> None:
    write(tmp_path, "imports.py", text="from a import (" + "#(\n# b (\n" * 5000)
    assert watched(tmp_path, "python3", "imports.py") == ["imports.py"]
    write(tmp_path, "server.js", text="a/" * 500_000)
    assert watched(tmp_path, "node", "server.js") == ["server.js"]


@requirement("trust:shows-what-it-names")
def test_too_many_files_are_said_to_be_unwatched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_MAX_WATCHED", 3)
    write(tmp_path, "serve.py", "a.py", "b.py")
    write(tmp_path, "mcp.json", text=json.dumps({"mcpServers": {"a": {"command": "python3", "args": ["serve.py"]}}}))
    monkeypatch.chdir(tmp_path)
    assert [one for one, _ in load("mcp.json").claims.shown] == ["command"]
    write(tmp_path, "c.py")
    found = load("mcp.json").claims
    assert found.shown[1] == ("unwatched", "files that it runs: they are too many or too large   (server a)")
    assert len(found.files) == 4, "with the file itself"


@requirement("trust:shows-what-it-names")
def test_a_file_of_many_servers_does_not_hold_up_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them takes all of what one command may take; how many are looked at does not depend on how many there are."""
    looked: list[Sequence[str]] = []

    def look(words: Sequence[str], *more: Any) -> trust.Watched:
        looked.append(words)
        return trust.watched_files(words, *more)

    monkeypatch.setattr(spec, "watched_files", look)
    monkeypatch.setattr(trust, "_MAX_TRIES", 100)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "run.sh", text="".join(f"python3 a{n}.py\n" for n in range(100)))
    servers = {f"s{n}": {"command": "bash", "args": ["run.sh", str(n)]} for n in range(8)}
    write(tmp_path, "few.json", text=json.dumps({"mcpServers": servers}))
    assert len(load("few.json").servers) == 8
    looked.clear()
    more = {f"m{n}": {"command": "bash", "args": ["run.sh", str(n)]} for n in range(400)}
    write(tmp_path, "many.json", text=json.dumps({"mcpServers": servers | more}))
    with pytest.raises(
        UsageError, match="m0 and those before it run more files than are looked through: put some into"
    ):
        load("many.json")
    assert len(looked) == 9
    light = {f"s{n}": {"command": "python3", "args": ["-V", str(n)]} for n in range(400)}
    write(tmp_path, "light.json", text=json.dumps({"mcpServers": light}))
    assert len(load("light.json").servers) == 400


@requirement("trust:shows-what-it-names")
def test_a_file_of_very_many_servers_or_keys_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "urls.json", text=json.dumps({"mcpServers": {f"u{n}": {"url": "http://a"} for n in range(1001)}}))
    with pytest.raises(UsageError, match="holds 1,001 servers; at most 1,000 are read"):
        load("urls.json")
    keys = {f"kkkkkkkkkkkk{n}": 1 for n in range(101)}
    write(tmp_path, "keys.json", text=json.dumps({"mcpServers": {"a": {"command": "true", **keys}}}))
    with pytest.raises(UsageError, match="one of more than 100 keys that are not known to Holdall"):
        load("keys.json")


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize("names_listed", [100_000, 1])
def test_what_a_script_runs_is_found_without_its_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_listed: int
) -> None:
    """However many files there are beside it."""
    monkeypatch.setattr(trust, "_MAX_NAMES_LISTED", names_listed)
    write(tmp_path, "run.sh", text="cd lib\nnode ./main\n. other")
    write(tmp_path, "lib/main.mjs", "lib/other.zsh", "lib/note.txt")
    assert watched(tmp_path, "bash", "run.sh") == ["lib/main.mjs", "lib/other.zsh", "run.sh"]


@requirement("trust:shows-what-it-names")
def test_variables_are_shown_as_the_file_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They decide what runs as much as the command does."""
    names = (
        "PATH",
        "LD_PRELOAD",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "BASH_ENV",
        "ENV",
        "GIT_SSH_COMMAND",
        "npm_config_prefix",
    )
    assert all(map(trust.decides_code, names))
    assert not any(map(trust.decides_code, ("TOKEN", "API_KEY", "LOG_LEVEL", "MEMORY_FILE", "LANG")))
    monkeypatch.setenv("GIVEN", "of-the-user")
    write(tmp_path, "bin/uptime", "helper.py", *(f"m{at:02}.py" for at in range(20)))
    (tmp_path / "bin" / "uptime").chmod(0o755)
    environment = {"PATH": "./bin:/usr/bin", "TOKEN": "${GIVEN}", "NOTE": "two words\x1b[2J"}
    server = {"command": "uptime", "args": ["helper.py"], "env": environment, "cwd": str(tmp_path)}
    write(tmp_path, "mcp.json", text=json.dumps({"mcpServers": {"a": server}}))
    told = trust.told(load(str(tmp_path / "mcp.json")).claims)
    assert "\n".join(told).replace(str(tmp_path), "DIR") == snapshot("""\
  watched   bin/uptime, helper.py, m00.py, m01.py, m02.py, m03.py, m04.py, m05.py, m06.py, m07.py, m08.py, m09.py and 11 more files
  command   uptime helper.py   in DIR   (server a)
  sets      PATH=./bin:/usr/bin   WHICH DECIDES WHAT CODE RUNS   (server a)
  sets      TOKEN='${GIVEN}'   (server a)
  sets      NOTE='two words\\x1b[2J'   (server a)
  variable  GIVEN → server a\
""")


# What was agreed to is what is started


def server(tmp_path: Path) -> StdioServer:
    about = {"command": sys.executable, "args": ["./serve.py", "ran"], "cwd": str(tmp_path)}
    write(tmp_path, "serve.py", text=Path(SERVER).read_text())
    write(tmp_path, "mcp.json", text=json.dumps({"mcpServers": {"files": about}}))
    assert [getattr(one, "watched", 0) for one in load(str(tmp_path / "mcp.json")).unwatched().servers] == [None]
    (one,) = load(str(tmp_path / "mcp.json")).servers
    assert isinstance(one, StdioServer)
    return one


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize("name", ["serve.py", "json.py"])
def test_a_server_whose_files_have_changed_is_not_started(tmp_path: Path, name: str) -> None:
    """While the question is on the screen, or before it is started again: also by a module that takes Python's place."""
    spec = server(tmp_path)
    assert spec.changed_files() == ()
    write(tmp_path, name)

    async def start() -> None:
        connection = Connection(spec)
        try:
            await connection.tools()
        finally:
            await connection.aclose()

    with pytest.raises(UpstreamFault) as refused:
        asyncio.run(start())
    assert str(refused.value).replace(str(tmp_path), "DIR").replace(name, "NAME") == snapshot(
        'MCP server "files" was not started: files that it runs or could import have changed since you agreed (NAME). Start this again: without --trust you are asked again about what is in DIR/mcp.json.'
    )
    assert not (tmp_path / "ran").exists()


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text("import os\n")
    (tmp_path / "__pycache__").mkdir()
    os.mkfifo(tmp_path / "__pycache__" / "serve.cpython-311.pyc")
    assert watched(tmp_path, "python", "serve.py") == ["serve.py"]
    os.mkfifo(tmp_path / "agent.md")
    with pytest.raises(UsageError, match="cannot be read: Not a file"):
        trust.file_hash(str(tmp_path / "agent.md"))


def test_what_npm_finds_above_its_folder_is_watched(tmp_path: Path) -> None:
    write(tmp_path, "sub/data.txt", "package.json")
    found = trust.watched_files(["npm", "start"], {}, str(tmp_path / "sub"), str(tmp_path))
    assert [one for one, _ in found.files] == [str(tmp_path / "package.json")]


@requirement("trust:asks-again-when-changed")
def test_what_is_too_much_to_look_through_is_said_to_be_watched_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout could hold up the question for half an hour with files that name each other."""
    for number in range(8):
        (tmp_path / f"{number}.sh").write_text(f". ./{number + 1}.sh\n" + "make " * 200)
    assert trust.watched_files(["sh", "0.sh"], {}, str(tmp_path), str(tmp_path)).whole
    monkeypatch.setattr(trust, "_MAX_SCANNED_TOGETHER", 3_000)
    found = trust.watched_files(["sh", "0.sh"], {}, str(tmp_path), str(tmp_path))
    assert (found.whole, len(found.files)) == (False, 3)


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("words", "environment", "files"),
    [
        (["python", "-m", "app.main"], {},
         {"app/main.py": "from .core import x", "app/core/x.py": "from ..util import z", "app/util.py": ""}),
        (["python", "server.py"], {},
         {"server.py": "import ns.sub.mod", "ns/sub/mod.py": "from ..up import x", "ns/up.py": ""}),
        (["python", "-m", "app"], {"PYTHONPATH": "src"},
         {"src/app/__init__.py": "", "src/app/__main__.py": "from app import inner", "src/app/inner.py": ""}),
        (["python", "-m", "app"], {"PYTHONPATH": "src"}, {"src/app/__main__.py": "from .inner import x", "src/app/inner.py": ""}),
        (["python", "server.py"], {}, {"server.py": "import ｎｓ.mod", "ns/mod.py": ""}),
    ],
    ids=["relative", "namespace", "src", "src without init", "letters"],
)  # fmt: skip
def test_each_module_that_a_server_imports_by_name_is_watched(
    tmp_path: Path, words: list[str], environment: dict[str, str], files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = trust.watched_files(words, environment, str(tmp_path), str(tmp_path))
    assert found.whole
    assert {os.path.relpath(one, os.path.realpath(tmp_path)) for one, _ in found.files} >= set(files)


@requirement("trust:asks-again-when-changed")
def test_a_linked_folder_of_a_package_is_watched(tmp_path: Path) -> None:
    for name in ("project/pkg/__init__.py", "project/lib/hidden/__init__.py", "project/lib/hidden/more.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    project = tmp_path / "project"
    (project / "server.py").write_text("import pkg.hidden")
    (project / "pkg" / "hidden").symlink_to("../lib/hidden")
    (project / "lib" / "hidden" / "back").symlink_to("..")
    found = trust.watched_files(["python", "server.py"], {}, str(project), str(project))
    names = {os.path.relpath(one, os.path.realpath(project)) for one, _ in found.files}
    assert {"server.py", "pkg/__init__.py", "lib/hidden/__init__.py", "lib/hidden/more.py"} <= names


def test_imports_of_a_source_in_another_encoding_are_read_as_python_reads_them(tmp_path: Path) -> None:
    write(tmp_path, "mödul/b.py")
    (tmp_path / "s.py").write_bytes("# coding: latin-1\nimport mödul.b\n".encode("latin-1"))
    assert watched(tmp_path, "python3", "s.py") == ["mödul/b.py", "s.py"]
    (tmp_path / "s.py").write_bytes("# coding: utf-7\n+AGk-mport m+APY-dul.b\n".encode("ascii"))
    assert watched(tmp_path, "python3", "s.py") == ["mödul/b.py", "s.py"]
    (tmp_path / "s.py").write_bytes(b"# coding: punycode\nimport a\n")
    assert not trust.watched_files(["python3", "s.py"], {}, str(tmp_path), str(tmp_path)).whole


@requirement("trust:asks-again-when-changed")
def test_what_is_in_the_folder_above_is_watched_where_a_command_goes_there(tmp_path: Path) -> None:
    write(tmp_path, "server.sh", "conf/server.sh")
    for words in (["env", "-C", "..", "./server.sh"], ["sh", "-c", "cd '..' && ./server.sh"]):
        found = trust.watched_files(words, {}, str(tmp_path / "conf"), str(tmp_path / "conf"))
        assert dict(found.files).keys() == {str(tmp_path / "server.sh"), str(tmp_path / "conf" / "server.sh")}


@requirement("trust:shows-what-it-names")
def test_a_project_of_more_files_than_are_looked_at_is_said_to_be_watched_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "tool.sh", *(f"node_modules/{name}/tool.sh" for name in "abcdefgh"))
    monkeypatch.setattr(trust, "_MAX_ENTRIES", 5)
    assert watched(tmp_path, "sh", "tool.sh") == ["tool.sh"], "what is installed is not looked through"
    write(tmp_path, *(f"lib/{name}.txt" for name in "abcdefgh"))
    found = trust.watched_files(["sh", "tool.sh"], {}, str(tmp_path), str(tmp_path))
    assert (found.whole, [*dict(found.files)]) == (False, [str(tmp_path / "tool.sh")])


def test_links_to_folders_are_not_followed_in_search_of_names(tmp_path: Path) -> None:
    write(tmp_path, "project/tool.sh", "other/tool.sh")
    (tmp_path / "project" / "back").symlink_to("..")
    assert watched(tmp_path / "project", "sh", "tool.sh") == ["tool.sh"]
