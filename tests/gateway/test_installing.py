"""A client's servers put behind the gateway and taken back: byte for byte, and never more than our own part."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.mcp.client.spec import load
from holdall.mcp.gateway.siblings import running_client
from holdall.mcp.install import installer
from holdall.mcp.install.clients import CLIENTS, client_id, path_of
from holdall.mcp.install.config_text import Configuration, servers_in, unwrap, wrap
from holdall.mcp.install.installer import files_of, install, uninstall
from holdall.values.errors import UsageError
from tests.requirements import requirement

CURSOR = """{
  // my servers
  "mcpServers": {
    "github": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github"],
      "env": {"GITHUB_TOKEN": "secret"} /* mine */
    },
    "bare": { "command" : "uvx" },
    "web": {"url": "https://mcp.example.org/mcp", "headers": {"Authorization": "Bearer s3cret"}},
  },
  "unknown": [1, {"deep": "}"}]
}
"""
VSCODE = '{"inputs": [], "servers": {"git": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"]}}}'
CLAUDE = json.dumps(
    {"numStartups": 7, "mcpServers": {"a": {"type": "stdio", "command": "a", "args": [], "env": {}}},
     "projects": {"/home/u/p": {"allowedTools": [], "mcpServers": {"b": {"command": "b", "args": ["x"]}}}}},
    indent=2,
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "configs")


@pytest.mark.parametrize("text", [CURSOR, VSCODE, CLAUDE, CURSOR.replace("\n", "\r\n")])
def test_every_server_is_wrapped_and_the_file_restored_byte_for_byte(tmp_path: Path, folder: str, text: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(text.encode())
    file.chmod(0o640)
    done = install(str(file), "holdall", config_folder=folder)
    assert done.edited.changed
    assert Path(done.copy).read_bytes() == text.encode()
    read = Configuration.of(file.read_bytes().decode())
    assert all(read.is_wrapped(server) for server in read.look().servers)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    back = uninstall(str(file), config_folder=folder)
    assert back.exactly
    assert file.read_bytes() == text.encode()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == ["mcp.json"]


def test_what_the_client_starts_is_the_gateway_before_the_same_command(tmp_path: Path, folder: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(CURSOR)
    install(str(file), "/opt/holdall", config_folder=folder)
    servers = {server.name: server.place.value for server in servers_in(file.read_text())}
    ours = f"--client={client_id(str(file))}"
    assert servers["github"] == {
        "command": "/opt/holdall",
        "args": [
            "gateway", ours, "--name=github", "--for-server=GITHUB_TOKEN", "--",
            "npx", "-y", "@modelcontextprotocol/server-github",
        ],
        "env": {"GITHUB_TOKEN": "secret"},
    }  # fmt: skip
    assert servers["bare"] == {"command": "/opt/holdall", "args": ["gateway", ours, "--name=bare", "--", "uvx"]}
    command, client, flag, config = servers["web"]["args"]
    assert (command, client, flag) == ("gateway", ours, "--config")
    (upstream,) = load(config).servers
    assert upstream.name == "web"
    assert stat.S_IMODE(os.stat(config).st_mode) == 0o600, "it holds the key"
    assert "s3cret" not in file.read_text()


@requirement("gateway:one-session")
def test_all_files_of_a_client_have_its_id_and_other_files_one_each() -> None:
    for name, client in CLIENTS.items():
        assert {client_id(path_of(one)) for one in client.files} == {name}
    assert client_id("/a/mcp.json") == client_id("/a/mcp.json") != client_id("/b/mcp.json")
    assert running_client(client_id("/a/mcp.json"))


@requirement("gateway:server-name")
@pytest.mark.parametrize("name", ["--config", "-- x", "a b", 'é"\\', "\n", "", "x" * 101])
def test_a_server_of_any_name_is_called_so_or_by_its_command(tmp_path: Path, folder: str, name: str) -> None:
    file = tmp_path / "mcp.json"
    text = json.dumps({"mcpServers": {name: {"command": "npx", "args": ["-y"]}}})
    file.write_text(text)
    install(str(file), "/opt/holdall", config_folder=folder)
    words = json.loads(file.read_text())["mcpServers"][name]["args"]
    named = [f"--name={name}"] if name.strip() and name.isprintable() and len(name) <= 100 else []
    assert words == ["gateway", f"--client={client_id(str(file))}", *named, "--", "npx", "-y"]
    file.write_text(file.read_text() + "\n")  # so that the copy is not what comes back
    uninstall(str(file), config_folder=folder)
    assert file.read_text() == text + "\n"


def test_a_second_install_changes_nothing_and_the_copy_stays_the_users(tmp_path: Path, folder: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(CURSOR)
    copy = install(str(file), "holdall", config_folder=folder).copy
    once = file.read_text()
    again = install(str(file), "holdall", config_folder=folder)
    assert (again.edited.changed, file.read_text()) == ((), once)
    assert dict(again.edited.left)["github"] == "it is behind the gateway already"
    assert Path(copy).read_text() == CURSOR


@requirement("install:clients")
def test_what_a_client_writes_while_servers_are_asked_is_not_overwritten(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(CURSOR)
    theirs = CURSOR.replace("my servers", "a new token of the client")

    def slow(*given: Any, **more: Any) -> Any:
        file.write_text(theirs)
        return wrap(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(installer, "wrap", slow)
        with pytest.raises(UsageError, match="was changed by another program meanwhile; nothing was written"):
            install(str(file), "holdall", config_folder=folder)
    assert (file.read_text(), os.listdir(tmp_path)) == (theirs, ["mcp.json"])
    assert install(str(file), "holdall", config_folder=folder).edited.changed
    uninstall(str(file), config_folder=folder)
    assert file.read_text() == theirs


def test_a_file_with_more_parts_than_any_configuration_is_not_read(tmp_path: Path, folder: str) -> None:
    """Each becomes a hundred times its bytes, and a checkout brings files of any kind."""
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {}, "x": [' + '{"":0},' * 60_000 + "0]}")
    with pytest.raises(UsageError, match="has more in it than any configuration; nothing was changed"):
        install(str(file), "holdall", config_folder=folder)


def test_what_others_changed_meanwhile_stays(tmp_path: Path, folder: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(CURSOR)
    install(str(file), "holdall", config_folder=folder)
    file.write_text(file.read_text().replace('"unknown": [1,', '"added": {"by": "the client"},\n  "unknown": [1,'))
    back = uninstall(str(file), config_folder=folder)
    assert not back.exactly
    assert file.read_text() == CURSOR.replace('"unknown": [1,', '"added": {"by": "the client"},\n  "unknown": [1,')
    assert Path(back.copy).exists(), "the copy is the user's to remove"


def test_a_dry_run_changes_no_file(tmp_path: Path, folder: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(CURSOR)
    done = install(str(file), "holdall", config_folder=folder, dry_run=True)
    assert done.edited.changed == ("github", "bare", "web")
    assert file.read_text() == CURSOR
    assert sorted(os.listdir(tmp_path)) == ["mcp.json"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"mcpServers": {"a": {"command": "x"}', "null", '{"a": 1, "a": 2}'])
def test_what_is_no_configuration_is_left_as_it_is(tmp_path: Path, folder: str, text: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="nothing was changed"):
        install(str(file), "holdall", config_folder=folder)
    assert file.read_text() == text


def test_the_files_of_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(UsageError, match="no configuration of cursor was found"):
        files_of("cursor")
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(CURSOR)
    assert files_of("cursor") == [str(tmp_path / ".cursor" / "mcp.json")]
    with pytest.raises(UsageError, match="there is no client 'emacs' here"):
        files_of("emacs")


_ENTRY = st.fixed_dictionaries(
    {}, optional={
        "command": st.text(max_size=8), "args": st.lists(st.text(max_size=6), max_size=3),
        "url": st.just("https://x"), "env": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
        "more": st.none() | st.integers() | st.lists(st.booleans()),
    },
)  # fmt: skip


@given(
    st.dictionaries(st.text(max_size=6), _ENTRY, max_size=4),
    st.sampled_from([None, 2, "\t"]),
    st.booleans(),
)
def test_whatever_a_file_holds_it_comes_back_as_it_was(
    servers: dict[str, dict[str, object]], indent: int | str | None, ascii: bool
) -> None:
    text = json.dumps({"x": "{", "mcpServers": servers, "y": ["}"]}, indent=indent, ensure_ascii=ascii)
    names = iter(range(100))
    wrapped = wrap(text, "holdall", lambda _: f"/configs/{next(names)}.json")
    json.loads(wrapped.text)
    assert unwrap(wrapped.text, wrapped.originals).text == text
