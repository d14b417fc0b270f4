"""Which entries of a client go behind the gateway; which are left as they are, and what is said of them."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from inline_snapshot import snapshot

from holdall.mcp.client.spec import load
from holdall.mcp.install.clients import client_id
from holdall.mcp.install.installer import Done, install, uninstall
from holdall.values.errors import UsageError


def put(tmp_path: Path, text: str | bytes | dict[str, Any]) -> tuple[Path, Done]:
    file = tmp_path / "mcp.json"
    text = json.dumps(text) if isinstance(text, dict) else text
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file, install(str(file), "/opt/holdall", config_folder=str(tmp_path / "configs"))


def reason(tmp_path: Path, entry: Any) -> str:
    """Why the one entry of a file is left as it is."""
    text = json.dumps({"mcpServers": {"a": entry}})
    file, done = put(tmp_path, text)
    assert (file.read_text(), done.edited.changed) == (text, ())
    ((name, why),) = done.edited.left
    assert name == "a"
    return why


@pytest.mark.parametrize("args", [None, "-y x", {}, 7, True])
def test_args_that_are_no_list_are_left_as_they_are(tmp_path: Path, args: object) -> None:
    assert reason(tmp_path, {"command": "npx", "args": args}) == "its args must be a list"


def test_what_the_gateway_could_not_serve_is_left_with_the_reason(tmp_path: Path) -> None:
    url = "https://x.example/mcp"
    assert [
        reason(tmp_path, {"type": "sse", "url": url}),
        reason(tmp_path, {"url": url, "headers": {"A": "${input:k}"}}),
        reason(tmp_path, {"url": "https://x/${input:k}"}),
        reason(tmp_path, {"url": "ftp://x"}),
        reason(tmp_path, {"url": None}),
        reason(tmp_path, {"url": url, "headers": None}),
        reason(tmp_path, {"url": url, "args": ["x"]}),
        reason(tmp_path, {"url": url, "oauth": {"clientId": "c"}}),
        reason(tmp_path, {"url": url, "command": "npx"}),
        reason(tmp_path, {"command": " "}),
        reason(tmp_path, {"command": ["npx", "-y"]}),
        reason(tmp_path, {"args": ["x"]}),
        reason(tmp_path, "npx"),
    ] == snapshot(
        [
            "the gateway could not serve it: type is 'sse', a transport that MCP has given up; use the server's streamable URL",
            "the gateway could not serve it: headers.A holds ${input:k}, and only variables of the environment, ${NAME}, are known",
            "the gateway could not serve it: url holds ${input:k}, and only variables of the environment, ${NAME}, are known",
            "the gateway could not serve it: url must be a URL that begins with http:// or https://",
            "the gateway could not serve it: url must be a text",
            "the gateway could not serve it: headers must be an object",
            "the gateway could not serve it: args is not for a server with a URL",
            "the client signs in for it (oauth), and the gateway cannot",
            "it has both a command and a url",
            "its command must be a text, and not empty",
            "its command must be a text, and not empty",
            "it has neither a command nor a url",
            "its entry must be an object",
        ]
    )


@pytest.mark.parametrize("url", ["${BASE}/mcp", "https://${HOST}/mcp", "http://localhost:${env:PORT}/${PATH:-mcp}"])
def test_a_variable_that_only_the_client_has_is_no_reason(tmp_path: Path, url: str) -> None:
    _, done = put(tmp_path, {"servers": {"a": {"type": "http", "url": url, "headers": {"A": "Bearer ${TOKEN}"}}}})
    assert done.edited.changed == ("a",)


def test_what_belongs_to_the_client_stays_in_its_entry(tmp_path: Path) -> None:
    theirs: dict[str, Any] = {"disabled": True, "alwaysAllow": ["t"], "timeout": 60, "oauth": {}}
    web = {"type": "http", "disabled": True, "url": "https://x/mcp", "alwaysAllow": ["t"], "timeout": 60,
           "headers": {"A": "s3cret"}, "oauth": {}}  # fmt: skip
    run = {"command": "npx", "cwd": "/x", **theirs}
    file, _ = put(tmp_path, {"mcpServers": {"web": web, "run": run}})
    found = json.loads(file.read_text())["mcpServers"]
    config = found["web"].pop("args")[-1]
    assert found["web"] == {"command": "/opt/holdall", **theirs}
    assert found["run"] == {
        **run,
        "command": "/opt/holdall",
        "args": ["gateway", f"--client={client_id(str(file))}", "--name=run", "--", "npx"],
    }
    assert json.loads(Path(config).read_text()) == {
        "mcpServers": {"web": {"type": "http", "url": "https://x/mcp", "headers": {"A": "s3cret"}}}
    }
    assert len(load(config).servers) == 1, "whether it is switched off is for the client to say"


def test_a_name_that_the_gateway_would_not_take_is_no_reason(tmp_path: Path) -> None:
    file, _ = put(tmp_path, {"mcpServers": {"a\n": {"url": "https://x"}}})
    (server,) = load(json.loads(file.read_text())["mcpServers"]["a\n"]["args"][-1]).servers
    assert server.name == "server"


@pytest.mark.parametrize(
    ("text", "left", "why"),
    [
        ({"foo": 1}, (), "it has neither `mcpServers` nor `servers`"),
        ({"mcpServers": {}}, (), "it names no server"),
        ({"mcpServers": None}, (), "it names no server"),
        ({"mcpServers": ["a"]}, (("mcpServers", "it must be an object with servers in it"),), ""),
        ({"mcpServers": "abc"}, (("mcpServers", "it must be an object with servers in it"),), ""),
        (
            {"projects": {"/w": {"servers": "abc"}}},
            (("projects → /w → servers", "it must be an object with servers in it"),),
            "",
        ),
    ],
)
def test_a_file_without_servers_is_told_so(tmp_path: Path, text: dict[str, Any], left: object, why: str) -> None:
    _, done = put(tmp_path, text)
    assert (done.edited.changed, done.edited.left, done.edited.why) == ((), left, why)


def test_a_file_without_the_gateway_is_told_so(tmp_path: Path) -> None:
    file, _ = put(tmp_path, {"mcpServers": {}})
    assert (
        uninstall(str(file), config_folder=str(tmp_path / "configs")).edited.why
        == "no server in it is behind the gateway"
    )


def test_projects_without_servers_do_not_matter(tmp_path: Path) -> None:
    projects: dict[str, Any] = {"/w": {"mcpServers": []}, "/v": {"mcpServers": None}, "/u": 1, "/t": {"mcpServers": {}}}
    file, done = put(tmp_path, {"projects": projects, "mcpServers": {"a": {"command": "a"}}})
    assert (done.edited.changed, done.edited.left) == (("a",), ())
    assert json.loads(file.read_text())["projects"] == projects


def test_servers_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    servers = {"a": {"command": "a"}}
    _, done = put(tmp_path, {"mcpServers": servers, "projects": {"/w": {"mcpServers": servers}}})
    assert done.edited.changed == ("a (in mcpServers)", "a (in projects → /w → mcpServers)")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_mark_at_the_start_of_a_file_survives(tmp_path: Path, newline: str) -> None:
    text = f'\ufeff{{ // mine{newline}"mcpServers": {{"a": {{"command": "npx"}}}}}}'.encode()
    file, done = put(tmp_path, text)
    assert done.edited.changed == ("a",)
    assert file.read_bytes().startswith(b"\xef\xbb\xbf{ // mine")
    file.write_bytes(file.read_bytes() + b"\n")
    uninstall(str(file), config_folder=str(tmp_path / "configs"))
    assert file.read_bytes() == text + b"\n"


def test_a_change_that_would_touch_more_than_our_part_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"mcpServers": {"a": {"command": "a"}}, "x": 1}'
    for wrong in ('{"mcpServers": {}}', "{", text.replace("1", "true")):
        monkeypatch.setattr("holdall.mcp.install.config_text.applied", Mock(return_value=wrong))
        with pytest.raises(UsageError, match="without touching more than our part; nothing was changed"):
            put(tmp_path, text)
        assert (tmp_path / "mcp.json").read_text() == text


@pytest.mark.parametrize("leading", [["-P", "-m", "holdall"], ["-m", "holdall"]])
def test_an_interpreter_can_be_the_program(tmp_path: Path, leading: list[str]) -> None:
    text = '{"mcpServers": {"a": {"command": "a", "args": [ "x"]}, "b": {"command": "b"}, "c": {"url": "https://x"}}}'
    file = tmp_path / "mcp.json"
    file.write_text(text)

    def once() -> Done:
        return install(str(file), "/v/python", leading=leading, config_folder=str(tmp_path / "configs"))

    once()
    found = json.loads(file.read_text())["mcpServers"]
    ours = [*leading, "gateway", f"--client={client_id(str(file))}"]
    assert found["a"] == {"command": "/v/python", "args": [*ours, "--name=a", "--", "a", "x"]}
    assert found["c"]["args"][:-1] == [*ours, "--config"]
    assert once().edited.changed == ()
    file.write_text(file.read_text() + "\n")
    uninstall(str(file), config_folder=str(tmp_path / "configs"))
    assert file.read_text() == text + "\n"
