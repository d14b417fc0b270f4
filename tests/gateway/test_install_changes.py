"""A client's file that others change between `install` and `uninstall`: what is theirs stays, what was ours goes."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdall.mcp.client.spec import load
from tests.gateway.clients import Client

MINE: dict[str, Any] = {
    "numStartups": 7,
    "mcpServers": {
        "run": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}},
        "bare": {"type": "stdio", "command": "uvx"},
        "empty": {"command": "uvx", "args": []},
        "web": {"type": "http", "url": "https://x.example/mcp", "headers": {"A": "s3cret"}, "alwaysAllow": ["t"]},
    },
    "projects": {"/w": {"mcpServers": {"run": {"command": "other"}}}},
}


def test_a_server_that_was_added_before_a_second_install_is_still_there_after_uninstall(tmp_path: Path) -> None:
    client = Client(tmp_path, '{"mcpServers":{"a":{"command":"npx","args":["-y","x"]}}}\n')
    assert client.install().exactly
    added = '{"mcpServers":{"z":{"command":"zed"},'
    client.file.write_text(client.file.read_text().replace('{"mcpServers":{', added))
    again = client.install()
    assert (again.edited.changed, again.exactly) == (("z",), False), "the copy is not the file from just before"
    back = client.uninstall()
    assert not back.exactly
    assert client.file.read_text() == added + '"a":{"command":"npx","args":["-y","x"]}}}\n'
    assert Path(back.copy).read_text() == '{"mcpServers":{"a":{"command":"npx","args":["-y","x"]}}}\n'


@pytest.mark.parametrize(
    "form", [{"indent": 2}, {"indent": 1}, {"separators": (",", ":")}, {"sort_keys": True}], ids=str
)
def test_a_client_may_rewrite_its_file_in_another_spacing(tmp_path: Path, form: dict[str, Any]) -> None:
    client = Client(tmp_path, json.dumps(MINE, indent=2))
    client.install()
    client.rewrites(lambda value: value.update(numStartups=8), **form)
    back = client.uninstall()
    assert back.edited.left == ()
    assert client.value == {**MINE, "numStartups": 8}
    assert not client.entries


def test_an_editor_may_lay_it_out_anew_and_comments_stay(tmp_path: Path) -> None:
    client = Client(tmp_path, "")
    client.file.write_text("""{"mcpServers": {
  "a": {"command": "/opt/holdall", "args": [
    "gateway", // ours
    "--",
    "npx",
    "-y" // mine
  ]},
  "b": {
    "args": ["gateway", "--", "uvx", /* none */],
    "command": "/opt/holdall", // started so
  },
}}""")
    client.uninstall()
    assert (
        client.file.read_text()
        == """{"mcpServers": {
  "a": {"command": "npx", "args": [
    // ours
    "-y" // mine
  ]},
  "b": {
    "args": [/* none */],
    "command": "uvx", // started so
  },
}}"""
    )


@pytest.mark.parametrize("place", ["before", "after"])
def test_options_of_ours_that_the_user_added_go_with_the_gateway(tmp_path: Path, place: str) -> None:
    client = Client(tmp_path, json.dumps(MINE))
    client.install()

    def add(value: Any) -> None:
        web, run = value["mcpServers"]["web"]["args"], value["mcpServers"]["run"]["args"]
        at = 1 if place == "before" else len(web)
        web[at:at] = ["--session", "work"]
        run[1:1] = ["--by-reference", "--session=work"]
        value["mcpServers"]["bare"]["args"].insert(0, "--json")

    client.rewrites(add)
    client.uninstall()
    assert client.value == MINE


def test_arguments_that_were_added_to_a_server_without_any_stay(tmp_path: Path) -> None:
    client = Client(tmp_path, '{"mcpServers": {"a": {"command": "npx"}}}')
    client.install()
    client.file.write_text(client.file.read_text().replace('"npx"]', '"npx", "-v"]'))
    client.uninstall()
    assert client.value == {"mcpServers": {"a": {"command": "npx", "args": ["-v"]}}}


def test_what_the_client_changes_in_an_entry_with_a_url_stays_with_its_comments(tmp_path: Path) -> None:
    text = (
        '{"servers": {"u": {\n  "url": "https://x", // prod\n  "headers": {"A": "b" /* key */},\n  "timeout": 1,\n}}}'
    )
    client = Client(tmp_path, text)
    client.install()
    client.file.write_text(client.file.read_text().replace('"timeout": 1', '"timeout": 2, "disabled": true'))
    client.uninstall()
    assert client.file.read_text() == (
        '{"servers": {"u": {\n  "url": "https://x", "headers": {"A": "b" /* key */}, // prod\n'
        '  "timeout": 2, "disabled": true,\n}}}'
    )


def test_a_file_that_an_entry_still_names_is_never_removed(tmp_path: Path) -> None:
    client = Client(tmp_path, json.dumps(MINE))
    client.install()
    (config,) = client.entries

    def through_a_shell(value: Any) -> None:
        value["mcpServers"]["web"] = {"command": "sh", "args": ["-c", f"holdall gateway --config {config}"]}

    client.rewrites(through_a_shell)
    back = client.uninstall()
    assert back.edited.left == (("web", "it names a file of the gateway in a way that is not known here"),)
    assert back.kept == (config,)
    assert load(config).servers[0].name == "web"
    assert client.value["mcpServers"]["run"] == MINE["mcpServers"]["run"]
    client.rewrites(
        lambda value: value["mcpServers"].update(web={"command": "holdall", "args": ["gateway", "--config", config]})
    )
    client.uninstall()
    assert client.value["mcpServers"]["web"]["headers"] == {"A": "s3cret"}, "the note was kept with it"


def test_an_entry_that_went_to_another_file_keeps_working_and_can_be_taken_out_there(tmp_path: Path) -> None:
    client = Client(tmp_path, json.dumps(MINE))
    client.install()
    moved = client.value["mcpServers"]["web"]
    client.rewrites(lambda value: value["mcpServers"].pop("web"))
    back = client.uninstall()
    assert back.kept == (moved["args"][-1],)
    assert load(moved["args"][-1]).servers
    (tmp_path / "other").mkdir()
    other = Client(tmp_path / "other", json.dumps({"mcpServers": {"web": moved}}))
    other.configs = client.configs  # the user has one
    other.uninstall()
    assert other.value == {"mcpServers": {"web": MINE["mcpServers"]["web"]}}
    assert not client.entries


@pytest.mark.parametrize("way", ["as it is", "two slashes", "a link", "writable"])
def test_a_file_that_names_the_entry_of_another_is_not_given_its_tokens(tmp_path: Path, way: str) -> None:
    """One of a checkout, for instance: the name of the entry is in the arguments of a running gateway."""
    client = Client(tmp_path, json.dumps(MINE))
    client.install()
    (tmp_path / "checkout").mkdir()
    entry = json.dumps(client.value["mcpServers"]["web"])
    if way == "two slashes":
        entry = entry.replace(f"{client.configs}/", f"{client.configs}//")
    named = json.dumps({"mcpServers": {"x": json.loads(entry)}})
    other = Client(tmp_path / "checkout", named)
    other.configs = client.configs
    if way == "a link":
        client.file.rename(tmp_path / "moved.json")
        client.file.symlink_to("moved.json")
    elif way == "writable":
        client.file.chmod(0o666)
    other.uninstall()
    if way == "a link":
        client.file.unlink()
        (tmp_path / "moved.json").rename(client.file)
    client.file.chmod(0o600)
    assert "s3cret" not in other.file.read_text()
    assert client.entries
    client.uninstall()
    assert client.value == MINE


def test_what_the_user_had_put_behind_the_gateway_by_hand_stays_so(tmp_path: Path) -> None:
    by_hand = {"command": "holdall", "args": ["gateway", "--", "npx"]}
    client = Client(tmp_path, json.dumps({"mcpServers": {"h": by_hand, "a": {"command": "a"}}}))
    client.install()
    client.rewrites(lambda value: value.update(more=1))
    back = client.uninstall()
    assert back.edited.left == (("h", "it was behind the gateway before `holdall install`"),)
    assert client.value == {"mcpServers": {"h": by_hand, "a": {"command": "a"}}, "more": 1}


def test_an_entry_that_was_given_a_url_beside_the_gateway_is_left(tmp_path: Path) -> None:
    client = Client(tmp_path, json.dumps(MINE))
    client.install()
    client.rewrites(lambda value: value["mcpServers"]["web"].update(url="https://new"))
    back = client.uninstall()
    assert back.edited.left == (("web", "it was given 'url' beside the gateway"),)
    assert client.entries


def test_a_copy_whose_note_was_lost_is_not_written_over(tmp_path: Path) -> None:
    client = Client(tmp_path, json.dumps(MINE))
    copy = Path(client.install().copy)
    next(client.configs.glob("*.note")).unlink()
    client.rewrites(lambda value: value["mcpServers"].update(new={"command": "n"}))
    assert not client.install().exactly
    assert copy.read_text() == json.dumps(MINE)


@pytest.mark.parametrize("url", ["url", '"url"'])
def test_lines_of_toml_that_install_left_stay_with_their_comments(tmp_path: Path, url: str) -> None:
    before = f'[mcp_servers.web]\n{url} = "https://x.example/mcp" # mine\ntype = "http" # keep this\n'
    client = Client(tmp_path, before, name="config.toml")
    client.install()
    client.file.write_text(client.file.read_text() + "\n# the client wrote this\n")
    client.uninstall()
    assert client.file.read_text() == before + "\n# the client wrote this\n"
    client.install()
    client.file.write_text(client.file.read_text().replace("keep this", "keep that") + "enabled = true\n")
    client.uninstall()
    assert 'type = "http" # keep that\n' in client.file.read_text()
