"""Each client's own file, in its own format: behind the gateway, and back, on files as people have them."""

import itertools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.mcp.client.spec import load
from holdall.mcp.install.clients import CLIENTS, client_of
from holdall.mcp.install.config_text import Choices, Configuration, behind, document, same, unwrap, wrap
from holdall.mcp.install.documents import TomlDocument
from holdall.mcp.install.installer import Done, files_of, install, survey, uninstall
from holdall.values.errors import UsageError
from tests.gateway.client_files import CODEX_INLINE, SAMPLES, TOOLS, Sample
from tests.requirements import requirement

each = pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: f"{one.client}-{len(one.text)}")


class Home:
    """A user's home with one client's file in it."""

    def __init__(self, folder: Path, sample: Sample) -> None:
        self.file = folder / sample.file
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(sample.text.encode())
        self.own = str(folder / "own")

    @property
    def text(self) -> str:
        return self.file.read_bytes().decode()

    def install(self, **more: Any) -> Done:
        choices = Choices(tools=TOOLS, **more)
        return install(str(self.file), "/opt/holdall", config_folder=self.own, choices=choices)

    def uninstall(self) -> Done:
        return uninstall(str(self.file), config_folder=self.own, tools=TOOLS)

    @property
    def read(self) -> Configuration:
        return Configuration.of(self.text, str(self.file))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: Sample) -> Home:
    clear(tmp_path, monkeypatch)
    return Home(tmp_path, sample)


def clear(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has a client here yet."""
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    (home / "project").mkdir()
    monkeypatch.chdir(home / "project")


def table() -> str:
    """The clients as the page lists them."""
    rows = ["| client | `holdall install` | its files |", "|---|---|---|"]
    for name, client in CLIENTS.items():
        files = [one.replace("${XDG_CONFIG_HOME:-~/.config}", "~/.config") for one in client.files]
        files = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", one) for one in files if "Insiders" not in one]
        rows.append(f"| {client.title} | `{name}` | {', '.join(f'`{one}`' for one in files)} |")
    return "\n".join(rows)


def test_the_page_lists_every_client_with_its_files() -> None:
    page = (Path(__file__).parents[2] / "docs" / "clients.md").read_text("utf-8")
    assert f"<!-- install: begin -->\n{table()}\n<!-- install: end -->" in page, table()


def test_every_client_has_a_sample() -> None:
    assert {one.client for one in SAMPLES} == set(CLIENTS)


@requirement("install:clients")
@each
def test_a_clients_servers_go_behind_the_gateway_and_come_back_byte_for_byte(home: Home, sample: Sample) -> None:
    assert files_of(sample.client) == [str(home.file)]
    assert client_of(str(home.file)) == sample.client
    before = home.read.document.value
    done = home.install()
    assert (done.edited.changed, tuple(sorted(name for name, _ in done.edited.left))) == (
        sample.changed, tuple(sorted(sample.left)),
    )  # fmt: skip
    found = home.read
    for server in found.look().servers:
        entry = found.common(server)
        target = behind(entry)
        assert (target is not None) == (server.name in sample.changed)
        if target is not None and target.config:
            (upstream,) = load(target.config, environment=_Everything()).servers
            assert upstream.name == server.name
    back = home.uninstall()
    assert back.exactly
    assert home.text == sample.text
    assert same(home.read.document.value, before)


class _Everything(dict[str, str]):
    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return f"value-of-{key}"


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


@requirement("install:clients")
@each
def test_comments_and_order_stay_and_only_lines_of_changed_servers_differ(home: Home, sample: Sample) -> None:
    home.install()
    kept = [line for line in lines_of(sample.text) if line in lines_of(home.text)]
    rest = [line for line in lines_of(home.text) if line in kept]
    assert [line for line in rest if rest.count(line) == 1] == [line for line in kept if kept.count(line) == 1]
    outside = home.read.document.value
    before = document(sample.text, str(home.file)).value
    assert list(outside) == list(before)
    tables = home.read.shape.tables
    for key in before.keys() - {*tables, "projects"}:
        assert same(outside[key], before[key])


@requirement("install:clients")
@each
def test_where_something_else_was_changed_meanwhile_the_rest_is_still_byte_for_byte(home: Home, sample: Sample) -> None:
    """One more blank line at the end: the copy is not what comes back."""
    home.install()
    home.file.write_bytes(home.file.read_bytes() + b"\n")
    back = home.uninstall()
    assert (back.exactly, back.edited.left) == (False, ())
    assert home.text == sample.text + "\n"


@requirement("install:clients")
@each
def test_a_second_install_changes_nothing(home: Home, sample: Sample) -> None:
    home.install()
    once = home.text
    again = home.install()
    assert (again.edited.changed, home.text) == ((), once)
    home.uninstall()
    assert home.text == sample.text


@requirement("install:allow-lists")
@each
def test_our_tools_are_added_to_lists_that_would_hide_them_and_taken_out_again(home: Home, sample: Sample) -> None:
    hidden = dict(home.install().edited.left)
    few = [name for name, why in hidden.items() if "would hide ours" in why]
    home.uninstall()
    done = home.install(add_tools=True)
    assert set(few) <= set(done.edited.changed)
    home.file.write_bytes(home.file.read_bytes() + b"\n")
    before = document(sample.text, str(home.file)).value
    home.uninstall()
    assert same(home.read.document.value, before)


def _rewritten(text: str, file: str) -> str:
    """As a client writes its file that keeps neither comments nor order."""
    found = document(text, file)
    if found.format == "YAML":
        return yaml.safe_dump(found.value, default_flow_style=False)
    if found.format == "TOML":
        return _table((), found.value)
    return json.dumps(found.value, indent=1, sort_keys=True)


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> str:
    header = f"[{'.'.join(map(json.dumps, path))}]\n" if path else ""
    inner = [key for key, one in table.items() if isinstance(one, dict)]
    own = "".join(f"{json.dumps(key)} = {_toml(one)}\n" for key, one in table.items() if key not in inner)
    return header + own + "".join(_table((*path, key), table[key]) for key in inner)


def _toml(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else TomlDocument.quoted(value)


@requirement("install:clients")
@each
def test_a_client_may_write_its_file_anew(home: Home, sample: Sample) -> None:
    before = home.read.document.value
    home.install()
    home.file.write_text(_rewritten(home.text, str(home.file)))
    back = home.uninstall()
    assert back.edited.left == ()
    assert same(home.read.document.value, before)


@requirement("install:clients")
@each
def test_a_lost_note_costs_comments_and_not_values(home: Home, sample: Sample) -> None:
    """What an entry with a URL was is in the gateway's own file, in the common form."""
    before = home.read
    home.install()
    next(Path(home.own).glob("*.note")).unlink()
    home.uninstall()
    now = home.read
    known = {"url", "httpUrl", "serverUrl", "headers", "command", "args"}
    for old, new in zip(before.look().servers, now.look().servers, strict=True):
        one, other = ({key: value for key, value in read.common(server).items() if key in known and value}
                      for read, server in ((before, old), (now, new)))  # fmt: skip
        assert same(one, other)


@pytest.mark.parametrize("sample", [SAMPLES[4]], ids=["codex"])
def test_codex_is_given_the_variables_of_its_headers(home: Home) -> None:
    home.install()
    servers = home.read.document.value["mcp_servers"]
    assert servers["figma"]["env_vars"] == ["FIGMA_OAUTH_TOKEN"]
    assert servers["docs"]["env_vars"] == ["DOCS_USER"]
    assert "s3cret" not in home.text
    config = servers["docs"]["args"][-1]
    entry = json.loads(Path(config).read_text())["mcpServers"]["docs"]
    assert entry == {
        "url": "https://docs.example.com/mcp",
        "headers": {"Authorization": "Bearer s3cret", "X-User": "${DOCS_USER}"},
    }


@pytest.mark.parametrize("sample", [one for one in SAMPLES if one.client == "gemini"], ids=["gemini"])
def test_gemini_gives_the_gateway_the_variables_that_it_keeps_from_programs(home: Home) -> None:
    home.install()
    servers = home.read.document.value["mcpServers"]
    assert servers["http"]["env"] == {"DOCS_TOKEN": "${DOCS_TOKEN}"}
    assert servers["named"]["env"] == {"A": "b"}, "the entry has its own"
    entry = json.loads(Path(servers["http"]["args"][-1]).read_text())["mcpServers"]["http"]
    assert entry["headers"] == {"Authorization": "Bearer ${DOCS_TOKEN}"}


@requirement("install:list")
def test_the_clients_of_a_machine_are_listed_with_their_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear(tmp_path, monkeypatch)
    assert survey() == []
    by_client = {one.client: one for one in SAMPLES if one.text is not CODEX_INLINE}
    for sample in by_client.values():
        home = Home(tmp_path, sample)
        if sample.client != "zed":
            home.install()
    (tmp_path / "project" / ".mcp.json").write_text("{")
    found = survey()
    assert [(one.client, os.path.relpath(one.file, tmp_path)) for one in found] == [
        ("claude-code", "project/.mcp.json"), *((name, by_client[name].file) for name in CLIENTS),
    ]  # fmt: skip
    assert "cannot be read as JSON" in found[0].problem
    for one in found[1:]:
        sample = by_client[one.client]
        assert {name for name, _ in one.servers} == {*sample.changed, *sample.left}
        assert {name for name, is_behind in one.servers if is_behind} == set(
            () if one.client == "zed" else sample.changed
        )


# What is hostile, or odd


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("c.yaml", "a: &x [1]\nextensions: {s: *x}\n", "it has an alias"),
        ("c.yaml", "extensions:\n  s: {cmd: a, cmd: b}\n", "the key 'cmd' stands twice"),
        ("c.yaml", "extensions: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        ("c.yaml", "- a\n", "it is not a table"),
        ("c.yaml", "a: " + "[" * 1000, "cannot be read as YAML"),
        ("c.yaml", "#" * 200_000, "it is larger than any configuration"),
        ("c.toml", "#" * 2_000_000, "it is larger than any configuration"),
        ("c.toml", "a = " + "[" * 3000 + "]" * 3000, "cannot be read as TOML"),
        ("c.toml", "a = 1\na = 2\n", "cannot be read as TOML"),
        ("c.toml", "x = \udcff", "cannot be read as TOML"),
    ],
    ids=itertools.count(),
)
def test_what_cannot_be_read_is_left_as_it_is(tmp_path: Path, file: str, text: str, says: str) -> None:
    path = tmp_path / file
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=says):
        install(str(path), "/opt/holdall", config_folder=str(tmp_path / "own"))
    assert path.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_what_only_looks_like_a_server_in_toml_is_none(tmp_path: Path) -> None:
    text = (
        'note = """\n[mcp_servers.a]\ncommand = "x"\n"""\n[[mcp.list]]\ncommand = "y"\n'
        '[mcp_servers.real]\ncommand = "z" # [mcp_servers.b]\n[other]\ncommand = "w"\n'
    )
    path = tmp_path / "c.toml"
    path.write_text(text)
    assert install(str(path), "/opt/holdall", config_folder=str(tmp_path / "own")).edited.changed == ("real",)
    found = document(path.read_text(), "c.toml").value
    assert (found["note"], found["other"], found["mcp"]) == (
        '[mcp_servers.a]\ncommand = "x"\n', {"command": "w"}, {"list": [{"command": "y"}]},
    )  # fmt: skip


def test_an_entry_whose_parts_are_apart_is_left_where_it_would_have_to_be_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(
        '[mcp_servers.web]\nurl = "https://x/mcp"\n[mcp_servers.run]\ncommand = "a"\n'
        '[mcp_servers.web.http_headers]\nA = "b"\n[mcp_servers.run.env]\nC = "d"\n'
    )
    done = install(str(path), "/opt/holdall", config_folder=str(tmp_path / "own"))
    assert done.edited.changed == ("run",)
    assert done.edited.left == (("web", "it is written in a way that is not changed here"),)


# Whatever a file holds, and however it is written


_WORD = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=6)
_SPACE = st.sampled_from(["", " ", "  ", "\t"])
_NOTE = st.sampled_from(["", " # a note", '  # [mcp_servers.x] "'])
_END = st.sampled_from(["\n", "\n\n", "\n# between\n"])


@st.composite
def _toml_strings(draw: st.DrawFn) -> str:
    word = draw(_WORD)
    ways = [TomlDocument.quoted(word)]
    if word.isprintable() and "'" not in word:
        ways += [f"'{word}'", f"'''{word}'''"]
    return draw(st.sampled_from(ways))


@st.composite
def _toml_lists(draw: st.DrawFn) -> str:
    items = draw(st.lists(_toml_strings(), max_size=3))
    gap = draw(st.sampled_from(["", " ", "\n  ", " # why\n"]))
    return f"[{gap}{(',' + gap).join(items)}{',' if items and draw(st.booleans()) else ''}{gap}]"


@st.composite
def _toml_files(draw: st.DrawFn) -> str:
    parts = [draw(st.sampled_from(["", "\ufeff", "# top\n", 'model = "x"\n[tui]\na = [1, 2] # three\n']))]
    for number in range(draw(st.integers(0, 3))):
        space, name = draw(_SPACE), draw(st.sampled_from([f"s{number}", f'"s {number}"', f"'ü{number}'"]))
        equals = f"{draw(_SPACE)}={draw(_SPACE)}"
        url = draw(st.booleans())
        address = draw(st.sampled_from(['"https://x/mcp"', "'https://y/mcp'"]))
        keys = [f"url{equals}{address}" if url else f"command{equals}{draw(_toml_strings())}"]
        if not url and draw(st.booleans()):
            keys.append(f"args{equals}{draw(_toml_lists())}")
        if url and draw(st.booleans()):
            keys.append(f'http_headers{equals}{{ A = "b", C = "d" }}')
        if url and draw(st.booleans()):
            keys.append(f'bearer_token_env_var{equals}"TOKEN"')
        keys += draw(st.lists(st.sampled_from(["enabled = true", "tool_timeout_sec = 1.5"]), unique=True))
        lines = [f"{space}{key}{draw(_NOTE)}\n" for key in draw(st.permutations(keys))]
        tables = draw(st.sampled_from(["", f'[mcp_servers.{name}.env]\nK = "v"\n']))
        parts += [f"{space}[{draw(_SPACE)}mcp_servers . {name} ]{draw(_NOTE)}{draw(_END)}", *lines, tables, draw(_END)]
    parts.append(draw(st.sampled_from(["", '[[rules]]\nx = """\n[mcp_servers.no]\n"""\n', "[z]"])))
    text = "".join(parts)
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def _is_inverse(text: str, file: str) -> None:
    """Taken back without a copy, and beside a change of somebody else's."""
    numbers = itertools.count()
    before = document(text, file).value
    wrapped = wrap(text, "/opt/holdall", lambda _: f"/own/{next(numbers)}.json", file=file)
    for more in ("", "\n# theirs\n"):
        back = unwrap(wrapped.text + more, wrapped.originals, wrapped.bare, file=file)
        assert back.text == text + more
        assert same(document(back.text, file).value, before)
        assert len(back.changed) == len(wrapped.changed)


@requirement("install:clients")
@settings(max_examples=80, deadline=None)
@given(_toml_files())
def test_whatever_toml_holds_it_comes_back_as_it_was(text: str) -> None:
    _is_inverse(text, "config.toml")


@st.composite
def _yaml_files(draw: st.DrawFn) -> str:
    step = draw(st.sampled_from(["  ", "    "]))
    parts = [draw(st.sampled_from(["", "GOOSE_MODE: auto\n", "# top\nx: [1, 2]\n"])), "extensions:\n"]
    words = st.sampled_from(["npx", "'it''s'", '"a b"', "a b", "-y", "'@x/y'", '"#"', "C:\\x"])
    for number in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from([f"s{number}", f'"s: {number}"', f"'ü{number}'"]))
        url = draw(st.booleans())
        keys = [f"uri: https://x/{number}", "type: streamable_http"] if url else [
            f"cmd: {draw(words)}", "type: stdio"
        ]  # fmt: skip
        if url and draw(st.booleans()):
            keys.append(f"headers:\n{step * 3}A: b # c\n{step * 3}D: e")
        if not url and draw(st.booleans()):
            items = draw(st.lists(words.filter(lambda one: one not in ("a b",)), min_size=1, max_size=3))
            dash = draw(st.sampled_from([step * 2, step * 3]))
            block = "".join(f"\n{dash}-{draw(st.sampled_from([' ', '   ']))}{one}" for one in items)
            keys.append(f"args:{draw(_NOTE)}{block}" if draw(st.booleans()) else f"args: [{', '.join(items)}]")
        keys += draw(st.lists(st.sampled_from(["enabled: true", "timeout: 300", "envs: {}"]), unique=True))
        lines = [f"{step * 2}{key}{draw(_NOTE)}\n" for key in draw(st.permutations(keys))]
        parts += [f"{step}{name}:{draw(_NOTE)}\n", *lines, draw(st.sampled_from(["", "\n", f"{step}# between\n"]))]
    text = "".join(parts) + draw(st.sampled_from(["", "GOOSE_MODEL: x\n"]))
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@requirement("install:clients")
@settings(max_examples=40, deadline=None)
@given(_yaml_files())
def test_whatever_yaml_holds_it_comes_back_as_it_was(text: str) -> None:
    _is_inverse(text, "config.yaml")
