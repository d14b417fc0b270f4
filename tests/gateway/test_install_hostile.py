"""`install` where a checkout, a server or a neighbour is hostile, and what it leaves alone because of it."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdall.mcp.install import installer
from holdall.mcp.install.config_text import Choices, claims_of
from holdall.mcp.install.documents import TomlDocument
from holdall.mcp.install.installer import Done, ask, install, is_in_git, uninstall
from holdall.trust import Claims
from holdall.values.errors import UsageError
from tests.requirements import requirement
from tests.support import in_effort

PLAIN = '{"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}'
TOOLS = ("context_read", "context_grep")


def asks(_name: str, entry: Mapping[str, Any]) -> str:
    return ask(entry)


def put(folder: Path, servers: dict[str, Any], **choices: Any) -> tuple[Path, Done]:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    chosen = Choices(tools=TOOLS, **choices)
    return file, install(str(file), "holdall", config_folder=str(folder / "own"), choices=chosen)


@requirement("trust:install-writes-through-no-link")
@pytest.mark.parametrize("end", [".before-holdall", ".holdall.json"])
def test_nothing_beside_a_configuration_is_written_or_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """A checkout brought a link to the user's start-up file, and a note that names a key."""
    bashrc, key = tmp_path / ".bashrc", tmp_path / "id_ed25519"
    bashrc.write_text("alias l=ls\n")
    key.write_text("secret")
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    monkeypatch.chdir(checkout)
    file = checkout / ".mcp.json"
    file.write_text(PLAIN)
    (checkout / f".mcp.json{end}").symlink_to(bashrc)
    done = install(str(file), "holdall", config_folder=str(tmp_path / "own"))
    assert done.edited.changed == ("a",)
    assert done.beside == (f"{file}{end}",)
    note: dict[str, Any] = {"installed": "", "originals": {str(key): "{}"}, "bare": [], "by_hand": []}
    (checkout / f".mcp.json{end}").unlink()
    (checkout / f".mcp.json{end}").write_text(json.dumps(note))
    back = uninstall(str(file), config_folder=str(tmp_path / "own"))
    assert (file.read_text(), back.exactly) == (PLAIN, True)
    assert (bashrc.read_text(), key.read_text()) == ("alias l=ls\n", "secret")
    assert (checkout / f".mcp.json{end}").exists(), "it is not ours to remove"


@requirement("trust:install-writes-through-no-link")
@pytest.mark.parametrize("here", ["checkout", "."])
@pytest.mark.parametrize("linked", [".cursor", ".cursor/mcp.json"])
def test_a_link_in_a_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: str, here: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mcp.json").write_text(PLAIN)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    if linked == ".cursor":
        (checkout / ".cursor").symlink_to(elsewhere)
    else:
        (checkout / ".cursor").mkdir()
        (checkout / ".cursor" / "mcp.json").symlink_to(elsewhere / "mcp.json")
    monkeypatch.chdir(tmp_path / here)
    file = str(checkout / ".cursor" / "mcp.json")
    for work in (lambda: install(file, "holdall", config_folder=str(tmp_path / "own")),
                 lambda: uninstall(file, config_folder=str(tmp_path / "own"))):  # fmt: skip
        with pytest.raises(UsageError, match="is a symbolic link, and nothing is written through one") as refused:
            work()
        assert f"--file {elsewhere / 'mcp.json'}" in str(refused.value)
    assert (elsewhere / "mcp.json").read_text() == PLAIN


def test_a_link_in_the_users_own_home_is_no_part_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "mcp.json").write_text(PLAIN)
    (tmp_path / ".cursor").symlink_to(tmp_path / "dotfiles")
    monkeypatch.setenv("HOME", str(tmp_path))
    install(str(tmp_path / ".cursor" / "mcp.json"), "holdall", config_folder=str(tmp_path / "own"))
    assert (tmp_path / "dotfiles" / "mcp.json").read_text() != PLAIN


@requirement("trust:install-writes-through-no-link")
@pytest.mark.parametrize("work", [install, uninstall])
def test_where_a_neighbour_could_swap_a_folder_for_a_link_nothing_is_read_or_written(tmp_path: Path, work: Any) -> None:
    project = tmp_path / "project" / ".cursor"
    project.mkdir(parents=True)
    file = project / "mcp.json"
    file.write_text(PLAIN)
    (tmp_path / "project").chmod(0o777)
    program = ("holdall",) if work is install else ()
    with pytest.raises(UsageError, match=r"anybody can write to a folder of the configuration .*chmod go-w"):
        work(str(file), *program, config_folder=str(tmp_path / "own"))
    assert file.read_text() == PLAIN


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mcp.json")
    with pytest.raises(UsageError, match="is not a regular file; nothing was changed"):
        install(str(tmp_path / "mcp.json"), "holdall", config_folder=str(tmp_path / "own"))


@requirement("trust:install-removes-only-its-own")
def test_an_entry_that_names_a_file_of_somebody_else_removes_nothing(tmp_path: Path) -> None:
    other = tmp_path / "0123456789abcdef.json"
    other.write_text('{"mcpServers": {"x": {"url": "https://evil.example/mcp"}}}')
    file = tmp_path / "mcp.json"
    file.write_text(
        json.dumps({"mcpServers": {"a": {"command": "holdall", "args": ["gateway", "--config", str(other)]}}})
    )
    back = uninstall(str(file), config_folder=str(tmp_path / "own"))
    assert back.edited.left == (("a", "nothing here tells what it was before"),)
    assert other.exists()


@requirement("trust:install-keeps-copies-private")
def test_copies_notes_and_keys_are_for_their_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"w": {"url": "https://x", "headers": {"A": "s3cret"}}}}))
    file.chmod(0o644)
    install(str(file), "holdall", config_folder=str(tmp_path / "own"))
    made = list((tmp_path / "own").iterdir())
    assert {path.suffix for path in made} == {".note", ".before", ".json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700
    assert sorted(os.listdir(tmp_path)) == ["mcp.json", "own"], "nothing stands beside it"


@pytest.mark.parametrize("how", ["link", "open"])
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path, how: str) -> None:
    own = tmp_path / "own"
    if how == "link":
        (tmp_path / "real").mkdir()
        own.symlink_to(tmp_path / "real")
    else:
        own.mkdir()
        own.chmod(0o777)
    file = tmp_path / "mcp.json"
    file.write_text(PLAIN)
    with pytest.raises(UsageError, match="is a link, or others can write to it"):
        install(str(file), "holdall", config_folder=str(own))
    assert file.read_text() == PLAIN


# What git shares


def git(folder: Path, *words: str) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, env=environment)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / ".cursor").mkdir(parents=True)
    git(folder, "init")
    (folder / ".cursor" / "mcp.json").write_text('{"mcpServers": {"a": {"command": "npx"}, "w": {"url": "https://x"}}}')
    return folder


@requirement("install:shared-only-when-asked")
def test_a_file_that_git_shares_is_changed_only_when_that_is_asked_for(checkout: Path, tmp_path: Path) -> None:
    file = checkout / ".cursor" / "mcp.json"
    own = str(tmp_path / "own")
    git(checkout, "add", ".")
    before = file.read_text()
    left = install(str(file), "/home/me/bin/holdall", config_folder=own)
    assert (left.edited.changed, file.read_text()) == ((), before)
    assert left.edited.why == "git shares it with others; --shared changes it, with what works on their machines too"
    done = install(str(file), "/home/me/bin/python", leading=["-m", "holdall"], config_folder=own, shared=True)
    assert done.edited.changed == ("a",)
    assert dict(done.edited.left)["w"] == "it has a URL, and what the gateway knows of that is a file of this machine"
    found = json.loads(file.read_text())["mcpServers"]
    assert (found["a"]["command"], found["a"]["args"][0]) == ("holdall", "gateway")
    assert str(tmp_path) not in file.read_text()


def test_what_only_lies_in_a_checkout_is_the_users_own(checkout: Path) -> None:
    file = checkout / ".cursor" / "mcp.json"
    assert not is_in_git(str(file)), "nothing was ever added"
    (checkout / "README").write_text("x")
    git(checkout, "add", "README")
    assert not is_in_git(str(file))
    git(checkout, "add", ".")
    assert is_in_git(str(file))
    git(checkout, "update-index", "--index-version", "4")
    assert is_in_git(str(file)), "packed paths are not looked into"


def test_a_second_working_tree_is_a_checkout_too(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "add", ".")
    git(checkout, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "x")
    git(checkout, "worktree", "add", str(tmp_path / "second"))
    assert is_in_git(str(tmp_path / "second" / ".cursor" / "mcp.json"))


def test_a_checkout_that_configures_programs_starts_none(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "add", ".")
    git(checkout, "config", "core.fsmonitor", f"touch {tmp_path}/started; false")
    is_in_git(str(checkout / ".cursor" / "mcp.json"))
    assert not (tmp_path / "started").exists()


# Which servers are left alone


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(int(self.path[1:]))
        self.send_header("location", "http://127.0.0.1:9/elsewhere")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@requirement("install:asks-urls")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        (200, ""), (202, ""), (400, ""), (307, ""), (500, ""),
        (401, "it answers 401 without the client's sign-in, and the gateway cannot sign in"),
        (403, "it answers 403 without the client's sign-in, and the gateway cannot sign in"),
        (405, "it does not take streamable HTTP (it answers 405); is it SSE? --no-ask puts it behind the gateway anyway"),
    ],
)  # fmt: skip
def test_a_url_is_asked_whether_its_client_signs_in(tmp_path: Path, site: str, code: int, why: str) -> None:
    _, done = put(tmp_path, {"w": {"type": "http", "url": f"{site}/{code}"}}, asked=asks)
    assert dict(done.edited.left) == ({"w": why} if why else {})


@requirement("install:asks-urls")
def test_a_url_that_does_not_answer_is_left_and_one_with_a_key_is_not_asked(tmp_path: Path) -> None:
    nobody = "http://127.0.0.1:9/mcp"
    servers = {"w": {"url": nobody}, "k": {"url": nobody, "headers": {"Authorization": "Bearer x"}},
               "v": {"url": "http://${HOST}/mcp"}}  # fmt: skip
    _, done = put(tmp_path, servers, asked=asks)
    assert done.edited.changed == ("k", "v")
    assert dict(done.edited.left)["w"].startswith("it does not answer now, so nobody can tell whether")


@requirement("install:asks-urls")
def test_a_url_that_answers_byte_by_byte_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "_ASKED_SECONDS", 0.5)
    done = threading.Event()

    def drips() -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            while not done.wait(0.05):
                connection.send(b"H")

    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drips)
        dripping.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/mcp"
        _, put_there = put(tmp_path, {"w": {"url": url}}, asked=asks)
        done.set()
        dripping.join()
    assert dict(put_there.edited.left)["w"].startswith("it does not answer now, so nobody can tell whether")


def test_the_folders_above_our_own_are_for_the_user_alone(tmp_path: Path) -> None:
    installer.Folder(str(tmp_path / "home" / "holdall" / "clients")).make()
    made = [tmp_path / "home", tmp_path / "home" / "holdall", tmp_path / "home" / "holdall" / "clients"]
    assert {one.stat().st_mode & 0o777 for one in made} == {0o700}


@requirement("install:no-sse")
@pytest.mark.parametrize(
    "entry",
    [{"type": "sse", "url": "https://x"}, {"type": "SSE", "serverUrl": "https://x"}, {"transport": "sse", "url": "https://x"},
     {"transportType": "Sse", "httpUrl": "https://x"}],
    ids=str,
)  # fmt: skip
def test_sse_is_left_under_whatever_name(tmp_path: Path, entry: dict[str, Any]) -> None:
    _, done = put(tmp_path, {"old": entry})
    assert dict(done.edited.left)["old"].startswith("the gateway could not serve it: type is 'sse'")


@requirement("install:url-names")
@pytest.mark.parametrize("key", ["url", "httpUrl", "serverUrl"])
def test_a_url_has_the_name_that_its_client_gives_it(tmp_path: Path, key: str) -> None:
    entry = {"trust": True, key: "https://x/mcp", "headers": {"A": "b"}, "timeout": 5}
    file, done = put(tmp_path, {"w": entry})
    assert done.edited.changed == ("w",)
    found = json.loads(file.read_text())["mcpServers"]["w"]
    assert (found["command"], found.keys() & {key, "headers"}, found["timeout"]) == ("holdall", set(), 5)
    file.write_text(file.read_text() + "\n")
    uninstall(str(file), config_folder=str(tmp_path / "own"))
    assert json.loads(file.read_text())["mcpServers"]["w"] == entry


@requirement("install:no-sse")
def test_in_the_file_of_gemini_a_plain_url_is_sse(tmp_path: Path) -> None:
    folder = tmp_path / ".gemini"
    folder.mkdir()
    file = folder / "settings.json"
    file.write_text(
        '{"mcpServers": {"old": {"url": "https://x"}, "new": {"httpUrl": "https://x", "headers": {"A": "b"}}}}'
    )
    done = install(str(file), "holdall", config_folder=str(tmp_path / "own"))
    assert (done.edited.changed, [name for name, _ in done.edited.left]) == (("new",), ["old"])


@requirement("install:allow-lists")
@pytest.mark.parametrize("key", ["includeTools", "enabled_tools", "tools"])
def test_a_list_of_tools_that_would_hide_ours_is_left_or_added_to(tmp_path: Path, key: str) -> None:
    servers = {
        "a": {"command": "x", key: ["theirs"]},
        "w": {key: ["theirs"], "url": "https://x"},
        "b": {"command": "y", "tools": ["*"]},
    }
    file, done = put(tmp_path, servers)
    assert done.edited.changed == ("b",)
    assert dict(done.edited.left)["a"] == f"its list of tools ({key}) would hide ours; --add-tools adds them to it"
    file, done = put(tmp_path, servers, add_tools=True)
    assert done.edited.changed == ("a", "w", "b")
    found = json.loads(file.read_text())["mcpServers"]
    assert found["a"][key] == found["w"][key] == ["theirs", *TOOLS]
    file.write_text(file.read_text() + "\n")
    uninstall(str(file), config_folder=str(tmp_path / "own"), tools=TOOLS)
    assert json.loads(file.read_text())["mcpServers"] == servers


@pytest.mark.parametrize("key", ["a", '"a"', "'a b'"])
def test_a_key_of_very_many_parts_is_refused_before_it_is_read(key: str) -> None:
    text = f"{' . '.join([key] * 20_000)} = 1\n"
    for one in (text, f"[{text.partition(' =')[0]}]\n"):
        with pytest.raises(ValueError, match="larger than any configuration"):
            TomlDocument.parse(one)
    assert in_effort(100, lambda: TomlDocument.parse(f"x = 1 # {'a' * 300_000}\n")) == {"x": 1}
    assert TomlDocument.parse('[mcp_servers."a.b.c"]\ncommand = "x"\nurl = "https://a.b.c.d.example/e.f"\n')


@requirement("trust:nothing-before-agreement")
@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"url": "http://127.0.0.1:9/mcp", "env": {"PYTHONPATH": "./evil"}},
         "it has a URL, and 'env', which is for programs"),
        ({"url": "http://127.0.0.1:9/mcp", "cwd": "./evil"}, "it has a URL, and 'cwd', which is for programs"),
        ({"url": "http://127.0.0.1:9/mcp", "envFile": ".env"}, "it has a URL, and 'envFile', which is for programs"),
        ({"command": "npx", "args": ["x"], "env": {"K": "v", "PYTHONPATH": "./evil"}},
         "its env sets PYTHONPATH, which Holdall itself would obey"),
        ({"command": "npx", "args": ["x"], "env": {"holdall_config": "./evil.toml"}},
         "its env sets holdall_config, which Holdall itself would obey"),
        ({"command": "npx", "args": ["x"], "env": {"OPENSSL_CONF": "./o.cnf"}},
         "its env sets OPENSSL_CONF, which Holdall itself would obey"),
        ({"command": "npx", "args": ["x"], "env": {"HOME": "./evil"}},
         "its env sets HOME, which Holdall itself would obey"),
        ({"command": "npx", "args": ["x"], "env": {"XDG_CONFIG_HOME": "./evil"}},
         "its env sets XDG_CONFIG_HOME, which Holdall itself would obey"),
        ({"command": "npx", "args": ["x"], "env": {"A,B": "v"}},
         "its env sets A,B, which Holdall itself would obey"),
        ({"command": "npx", "args": ["x"], "envFile": ".env"}, "its envFile may set what Holdall itself would obey"),
    ],
)  # fmt: skip
def test_a_project_gives_holdall_itself_no_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], why: str
) -> None:
    asked: list[str] = []

    def refuses(name: str, _: Mapping[str, Any]) -> str:
        asked.append(name)
        return "no"

    file, done = put(tmp_path, {"docs": entry}, asked=refuses)
    assert (done.edited.changed, done.edited.left, asked) == ((), (("docs", why),), [])
    assert json.loads(file.read_text())["mcpServers"] == {"docs": entry}
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / ".cursor").mkdir(parents=True)
    own = tmp_path / "home" / ".cursor" / "mcp.json"
    own.write_text(json.dumps({"mcpServers": {"docs": entry}}))
    done = install(str(own), "holdall", config_folder=str(tmp_path / "own"), choices=Choices(tools=TOOLS))
    assert done.edited.changed == ("docs",), "in the user's own file they are the user's"


@requirement("trust:nothing-before-agreement")
def test_what_else_a_project_gives_a_server_is_for_that_server_alone(tmp_path: Path) -> None:
    """Libraries obey variables that nobody could list: which database, which key, which proxy."""
    servers = {"docs": {"command": "npx", "args": ["x"], "env": {"PGHOST": "evil.example", "KEY": "k"}}}
    file, _ = put(tmp_path, servers)
    entry = json.loads(file.read_text())["mcpServers"]["docs"]
    assert entry["args"][-4:] == ["--for-server=KEY,PGHOST", "--", "npx", "x"]
    assert entry["env"] == servers["docs"]["env"]
    uninstall(str(file), config_folder=str(tmp_path / "own"), tools=TOOLS)
    assert json.loads(file.read_text())["mcpServers"] == servers
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os\natexit.register(lambda: open(f'seen-{os.getpid()}', 'w').write(os.environ.get('PGHOST', 'none')))"
    )
    say = "import os; print(os.getpid(), os.environ['PGHOST'], os.environ['KEY'], file=open('got', 'w'))"
    words = [sys.executable, "-m", "holdall", *entry["args"][:-2], sys.executable, "-c", say]
    given = {**os.environ, "HOLDALL_HOME": str(tmp_path / "home"), "PGHOST": "evil.example", "KEY": "k"}
    given["PYTHONPATH"] = str(tmp_path)
    hello = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}'
    )
    ran = subprocess.run(
        words, check=False, cwd=tmp_path, env=given, input=hello + b"\n", capture_output=True, timeout=60
    )
    server, *got = (tmp_path / "got").read_text().split()
    assert got == ["evil.example", "k"], ran.stderr
    ours = [one.read_text() for one in tmp_path.glob("seen-*") if one.name != f"seen-{server}"]
    assert ours
    assert set(ours) == {"none"}
    for words in (["--for-server", "KEY", "--", "x"], ["--for-server", "KEY", "x"], ["--for-server=KEY", "x"], []):
        ran = subprocess.run(
            [sys.executable, "-c", _ASIDE, "gateway", *words],
            check=True,
            env={**os.environ, "KEY": "k"},
            capture_output=True,
            timeout=60,
        )
        assert ran.stdout.split() == ([b"None", b"k"] if words else [b"k", b"None"])
    words = ["exec", "tool", "--for-server=KEY"]
    ran = subprocess.run(
        [sys.executable, "-c", _ASIDE, *words],
        check=True,
        env={**os.environ, "KEY": "k"},
        capture_output=True,
        timeout=60,
    )
    assert ran.stdout.split() == [b"k", b"None"], "it is a word of the command, which gets all variables"


_ASIDE = """
import os, sys
from holdall import __main__, cli
__main__._set_aside(sys.argv)
print(os.environ.get("KEY"), cli.for_server.get("KEY"))
"""


def test_who_agrees_to_a_url_is_told_the_name_of_its_server(tmp_path: Path) -> None:
    asked: list[str] = []

    def refuses(name: str, _: Mapping[str, Any]) -> str:
        asked.append(name)
        return "no"

    put(tmp_path, {"docs": {"url": "http://127.0.0.1:9/mcp"}}, asked=refuses)
    assert asked == ["docs"]
    for name in ("docs", "a name that\nis none"):
        assert claims_of(name, {"url": "http://127.0.0.1:9/mcp"}, "file") != Claims("file"), "something is asked"
