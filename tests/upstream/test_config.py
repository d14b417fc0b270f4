"""`mcp.json` in its usual forms, and what is said of one that is wrong."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.mcp.client.spec import (
    Configured,
    HttpServer,
    StdioServer,
    UnknownVariable,
    expand,
    from_command,
    load,
    parse_servers,
    variables_in,
    without_secrets,
)
from holdall.text.json import jsonc
from holdall.values.errors import BadServer, UsageError
from tests.support import in_effort

ENVIRONMENT = {"TOKEN": "t0ken", "HOME": "/home/me", "EMPTY": ""}


@pytest.fixture(scope="module", autouse=True)
def _outside_of_the_checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Of a folder that a server is started in all code is hashed, for each server."""
    with contextlib.chdir(tmp_path_factory.mktemp("started")):
        yield


def read(document: Any, **more: Any) -> Configured:
    text = document if isinstance(document, str) else json.dumps(document)
    return parse_servers(text, source="mcp.json", environment=ENVIRONMENT, **more)


def complaint(document: Any) -> str:
    with pytest.raises(BadServer) as caught:
        read(document)
    return str(caught.value)


def one(about: dict[str, Any], **more: Any) -> Any:
    (server,) = read({"mcpServers": {"s": about}}, **more).servers
    return server


def test_both_kinds_of_server_are_read_in_the_order_of_the_file() -> None:
    found = read(
        {
            "mcpServers": {
                "files": {"command": "npx", "args": ["-y", "${HOME}/x"], "env": {"K": "${TOKEN}"}, "cwd": "/tmp"},
                "web": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
                "off": {"command": "x", "disabled": True},
                "off too": {"url": "http://h", "enabled": False},
            }
        }
    )
    assert found == Configured(
        (
            StdioServer("files", "npx", ("-y", "/home/me/x"), {"K": "t0ken"}, "/tmp", source="mcp.json"),
            HttpServer("web", "https://h/mcp", {"Authorization": "Bearer t0ken"}, source="mcp.json"),
        )
    )


def test_the_other_name_of_the_table_and_comments_are_known() -> None:
    text = """{
      // the servers of this project
      "servers": {
        "a": {"type": "stdio", "command": "a", /* none */ "args": ["//not a comment", "/* nor this */", ",]"],},
      },
    }"""
    assert read(text).servers == (
        StdioServer("a", "a", ("//not a comment", "/* nor this */", ",]"), source="mcp.json"),
    )


def test_keys_of_other_clients_are_kept_and_warned_about() -> None:
    found = read({"inputs": [], "$schema": "x", "servers": {"a": {"command": "a", "autoApprove": ["x"], "timeout": 3}}})
    assert found.servers[0].extra == {"autoApprove": ["x"], "timeout": 3}
    assert found.warnings == snapshot(
        (
            "mcp.json: inputs is not known to Holdall and is not used",
            "mcp.json: servers.a.autoApprove is not known to Holdall and is not used",
            "mcp.json: servers.a.timeout is not known to Holdall and is not used",
        )
    )


def test_deadlines_and_the_era_can_be_set_for_each_server() -> None:
    server = one({"command": "a", "call_timeout_seconds": 5, "start_timeout_seconds": 0.5, "revision": "handshake"})
    assert (server.call_seconds, server.start_seconds, server.revision) == (5.0, 0.5, "handshake")
    assert one({"command": "a"}).inherits is False
    assert one({"command": "a"}, inherits=True).inherits is True


def test_each_complaint_names_file_key_and_rule_and_the_nearest_key() -> None:
    servers: list[dict[str, Any]] = [
        {},
        {"comand": "x"},
        {"command": "x", "arg": []},
        {"command": "x", "url": "http://h"},
        {"command": ["x"]},
        {"command": " "},
        {"command": "x", "args": "-y"},
        {"command": "x", "args": ["-y", 3]},
        {"command": "x", "env": {"A": 1}},
        {"command": "x", "env": {"A=B": "1"}},
        {"command": "x", "env": {"A": "${TOKN}"}},
        {"command": "x", "env": {"A": "${input:key}"}},
        {"command": "x", "cwd": "a\0b"},
        {"command": "x", "headers": {}},
        {"command": "x", "type": "http"},
        {"command": "x", "disabled": "yes"},
        {"command": "x", "call_timeout_seconds": 0},
        {"command": "x", "revision": "2025-06-18"},
        {"url": "h/mcp"},
        {"url": "http://[::1/mcp"},
        {"url": "http://h/ mcp"},
        {"url": "http://h", "type": "sse"},
        {"url": "http://h", "type": "htttp"},
        {"url": "http://h", "headers": {"a b": "x"}},
        {"url": "http://h", "headers": {"A": "x\r\nB: y"}},
        {"url": "http://h", "headers": ["A: x"]},
    ]
    assert [complaint({"mcpServers": {"s": about}}) for about in servers] == snapshot(
        [
            "mcp.json: mcpServers.s has neither 'command' nor 'url'.",
            "mcp.json: mcpServers.s.comand is not a key of a server. Did you mean 'command'?",
            "mcp.json: mcpServers.s.arg is not a key of a server. Did you mean 'args'?",
            "mcp.json: mcpServers.s has both 'command' and 'url'.",
            "mcp.json: mcpServers.s.command must be a text.",
            "mcp.json: mcpServers.s.command is empty.",
            "mcp.json: mcpServers.s.args must be a list of texts.",
            "mcp.json: mcpServers.s.args[1] must be a text.",
            "mcp.json: mcpServers.s.env.A must be a text.",
            "mcp.json: mcpServers.s.env.A=B is no name of a variable.",
            "mcp.json: mcpServers.s.env.A needs the variable TOKN, which the environment does not have. Did you mean 'TOKEN'?",
            "mcp.json: mcpServers.s.env.A holds ${input:key}, and only variables of the environment, ${NAME}, are known.",
            "mcp.json: mcpServers.s.cwd holds the character NUL.",
            "mcp.json: mcpServers.s.headers is not for a server with a command.",
            "mcp.json: mcpServers.s.type must be 'stdio' for a server with 'command'.",
            "mcp.json: mcpServers.s.disabled must be true or false.",
            "mcp.json: mcpServers.s.call_timeout_seconds must be a number of seconds, more than 0 and at most 604,800.",
            "mcp.json: mcpServers.s.revision must be one of 'auto', 'handshake', '2026-07-28'.",
            "mcp.json: mcpServers.s.url must be a URL that begins with http:// or https://.",
            "mcp.json: mcpServers.s.url must be a URL that begins with http:// or https://.",
            "mcp.json: mcpServers.s.url must be a URL that begins with http:// or https://.",
            "mcp.json: mcpServers.s.type is 'sse', a transport that MCP has given up; use the server's streamable URL.",
            "mcp.json: mcpServers.s.type must be 'http' for a server with 'url'.",
            "mcp.json: mcpServers.s.headers.a b is no name of a header.",
            "mcp.json: mcpServers.s.headers.A may hold visible ASCII characters only.",
            "mcp.json: mcpServers.s.headers must be an object.",
        ]
    )


def test_a_file_that_is_none_says_where() -> None:
    documents: list[Any] = [
        [],
        {},
        {"mcpServer": {}},
        {"mcpServers": {}, "servers": {}},
        {"mcpServers": []},
        {"mcpServers": {"s": "npx"}},
        {"mcpServers": {"": {"command": "x"}}},
        {"mcpServers": {"a\nb": {"command": "x"}}},
        '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}',
        '{"mcpServers": {\n  "a": }',
        "",
        "[" * 100_000,
        '{"mcpServers": ' + "9" * 5000 + "}",
    ]
    assert [complaint(document) for document in documents] == snapshot(
        [
            "mcp.json: the file must hold one object with the key 'mcpServers'.",
            "mcp.json: 'mcpServers' is missing.",
            "mcp.json: mcpServer is not a key of this file. Did you mean 'mcpServers'?",
            "mcp.json: mcpServers and servers are both there; one of them is enough.",
            "mcp.json: mcpServers must be an object.",
            "mcp.json: mcpServers.s must be an object.",
            "mcp.json: mcpServers. is no name: it must have 1 to 100 visible characters.",
            "mcp.json: mcpServers.a\\nb is no name: it must have 1 to 100 visible characters.",
            "mcp.json: 'a' stands twice in the same object.",
            "mcp.json: line 2, column 8 is not JSON: Expecting value.",
            "mcp.json: line 1, column 1 is not JSON: Expecting value.",
            "mcp.json: the file is nested too deeply, or has a number that is too long.",
            "mcp.json: the file is nested too deeply, or has a number that is too long.",
        ]
    )


SECRET = "hunter2-very-secret"


@pytest.mark.parametrize(
    "about",
    [
        {"command": "x", "env": {"K": SECRET + "\0"}},
        {"url": "http://h", "headers": {"K": SECRET + "\n"}},
        {"url": f"ftp://user:{SECRET}@h/"},
        {"command": "x", "args": [SECRET, 3]},
        {"command": "x", "call_timeout_seconds": SECRET},
    ],
)
def test_no_complaint_repeats_a_value(about: dict[str, Any]) -> None:
    assert SECRET not in complaint({"mcpServers": {"s": about}})


def test_a_server_is_never_shown_with_its_secrets() -> None:
    stdio = StdioServer("a", "/usr/bin/npx", ("--key", SECRET), {"K": SECRET}, extra={"k": SECRET})
    http = HttpServer("b", f"https://me:{SECRET}@h:8443/mcp?key={SECRET}", {"Authorization": f"Bearer {SECRET}"})
    assert SECRET not in repr(stdio) + str(stdio) + stdio.shown + repr(http) + str(http) + http.shown
    assert (stdio.shown, http.shown) == ("npx", "https://h:8443/mcp")
    assert HttpServer("c", "http://[::1]:80/x").shown == "http://[::1]:80/x"
    text = '{"mcpServers": {"s": {"url": "${AT}/b/${KEY}"}}}'
    (keyed,) = parse_servers(text, source="x", environment={"AT": "https://h/a", "KEY": SECRET}).servers
    assert keyed.shown == "https://h/a/b/***"
    for spec in (stdio, http, keyed):
        assert without_secrets(f"401 for {SECRET}!", spec) == "401 for ***!"
    assert without_secrets("a b", StdioServer("a", "x", environment={"K": "a"})) == "a b"


# Files


def test_a_file_is_read_with_its_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(b'\xef\xbb\xbf{"mcpServers": {"a": {"command": "x"}}}')
    (server,) = load(str(path)).servers
    assert (server.name, server.source) == ("a", str(path))


def test_a_file_that_cannot_be_trusted_or_read_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load(str(path))
    with pytest.raises(UsageError, match="is not a regular file"):
        load(str(tmp_path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"is not UTF-8 \(byte 0\)"):
        load(str(path))
    path.write_bytes(b" " * 1_100_000)
    with pytest.raises(UsageError, match="at most 1,048,576 are read"):
        load(str(path))
    path.write_text('{"mcpServers": {}}')
    path.chmod(0o666)
    with pytest.raises(UsageError, match="anybody can write to"):
        load(str(path))
    path.chmod(0o644)
    assert load(str(path)) == Configured(())


# A plain command


def test_a_plain_command_is_a_server_that_inherits_the_environment() -> None:
    spec = from_command(["/usr/bin/npx", "-y", "x"])
    assert (spec.name, spec.command, spec.arguments, spec.inherits) == ("npx", "/usr/bin/npx", ("-y", "x"), True)
    assert from_command(["x"], name="y", inherits=False) == StdioServer("y", "x", source="the command line")
    for words in ([], [""], ["x", "a\0b"]):
        with pytest.raises(UsageError):
            from_command(words)


# Variables


def test_variables_are_replaced_once_and_only_where_they_are_meant() -> None:
    environment = {"A": "${B}", "B": "b", "EMPTY": ""}
    cases = {
        "${A}": "${B}",
        "x${B}y${env:B}": "xbyb",
        "${EMPTY}": "",
        "${NONE:-d}": "d",
        "${NONE:-}": "",
        "${B:-d}": "b",
        "$B $(B) {B} $": "$B $(B) {B} $",
        "${NONE:-a:-b}": "a:-b",
    }
    assert {text: expand(text, environment) for text in cases} == cases
    for text in ("${NONE}", "${}", "${a b}", "${input:x}", "${workspaceFolder/x}", "${1}"):
        with pytest.raises(UnknownVariable):
            expand(text, environment)


def test_beginnings_of_places_without_an_end_take_no_longer_than_other_text() -> None:
    text = "${" * 500_000  # as much as a file may hold; looked through from each beginning it would take hours
    assert expand(f"{text}", {}) == text
    assert variables_in(f"${{A}}{text}") == ["A"]


@given(st.text().filter(lambda text: "${" not in text))
def test_a_text_without_a_place_stays_as_it_is(text: str) -> None:
    assert expand(text, os.environ) == text


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(_VALUES)
def test_what_is_json_is_read_as_json(value: Any) -> None:
    assert jsonc.parse_jsonc(json.dumps(value)) == value
    assert jsonc.parse_jsonc(json.dumps(value, indent=1, ensure_ascii=False)) == value


@given(_VALUES, st.text(st.characters(exclude_characters="\r\n*/", exclude_categories=["Cs"])))
def test_comments_and_commas_too_many_change_nothing(value: Any, words: str) -> None:
    text = json.dumps([value, value], ensure_ascii=False)
    assert jsonc.parse_jsonc(f"// {words}\n/* {words}\n */ {text[:-1]} , ] // {words}") == [value, value]


@pytest.mark.parametrize("unit", ['\\"', "/* ", '"\\', ", "], ids=["escapes", "comments", "open", "commas"])
def test_a_text_that_never_ends_is_read_in_time_that_grows_with_its_length(unit: str) -> None:
    """Nothing interrupts a pattern, and the user is asked about a file of a checkout only after it was read."""

    def read(start: str) -> None:
        with pytest.raises(json.JSONDecodeError):
            jsonc.parse_jsonc(start + unit * 20_000)

    in_effort(100, lambda: read('{"mcpServers": {"a": "'))
    in_effort(100, lambda: read('{"mcpServers": {"a": '))


@pytest.mark.parametrize("end", ["/*", "/* {", "/*/", '"', '"\\'])
def test_an_open_comment_or_string_is_no_end(end: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        jsonc.parse_jsonc(f"[1,] {end}")
