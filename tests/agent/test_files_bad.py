"""Agents' files that cannot be: each is refused with the file, the line and what to do, and nothing else is raised."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.agent.files import KNOWN, OWN, TABLES_KEY, load_agent, parse_agent
from holdall.values.errors import BadSetting, UsageError
from tests.requirements import requirement
from tests.support import in_effort


def refusal(front_matter: str) -> str:
    with pytest.raises(UsageError) as refused:
        parse_agent(f"---\n{front_matter}\n---\nYou help.", path="a.md")
    return str(refused.value)


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize(
    ("front_matter", "message"),
    [
        ("model: a: b", snapshot("a.md, line 2, column 9: the front matter cannot be read as YAML: no value can begin at this colon: the line is indented too far, or a text with a colon needs quotes.")),
        ("model: x\n  name: y", snapshot("a.md, line 3, column 7: the front matter cannot be read as YAML: no value can begin at this colon: the line is indented too far, or a text with a colon needs quotes.")),
        ("tools:\n\t- a:b", snapshot("a.md, line 3, column 1: the front matter cannot be read as YAML: a tab stands where YAML wants spaces.")),
        ("tools: [a:b", snapshot("a.md, line 2, column 12: the front matter cannot be read as YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'.")),
        ("model: 'x", snapshot('a.md, line 2, column 10: the front matter cannot be read as YAML: while scanning a quoted scalar, found unexpected end of stream.')),
        ("model: @x", snapshot("a.md, line 2, column 8: the front matter cannot be read as YAML: while scanning for the next token, found character '@' that cannot start any token.")),
        ("- a\nmodel: x", snapshot("a.md, line 3, column 1: the front matter cannot be read as YAML: while parsing a block collection, expected <block end>, but found '?'.")),
        ("model: x\n--- y", snapshot("a.md, line 3, column 1: the front matter cannot be read as YAML: a second document begins.")),
        ("name: x\nmodel: y\nname: z", snapshot("a.md, line 4, column 1: the front matter cannot be read as YAML: the key 'name' stands twice.")),
        ("tools_policy:\n  a: {store: never, store: always}", snapshot("a.md, line 3, column 21: the front matter cannot be read as YAML: the key 'store' stands twice.")),
        ("model: \x07", snapshot("a.md, line 2, column 8: the front matter cannot be read as YAML: the character U+0007 is not allowed in it.")),
        ("1: x", snapshot("a.md, line 2, column 1: the front matter cannot be read as YAML: the key '1' is not a text; write it in quotes.")),
        ("true: x", snapshot("a.md, line 2, column 1: the front matter cannot be read as YAML: the key 'true' is not a text; write it in quotes.")),
        ("? [a]\n: b", snapshot("a.md, line 2, column 3: the front matter cannot be read as YAML: a key must be a text.")),
        ("- a\n- b", snapshot("a.md: the front matter must be keys with values, as in `model: provider:name`.")),
        ("just words", snapshot("a.md: the front matter must be keys with values, as in `model: provider:name`.")),
        ('name: "\\ud83d"', snapshot("a.md, line 2, column 7: the front matter cannot be read as YAML: an escape in it stands for half a character.")),
        (f"model: {'[' * 5000}", snapshot("a.md, line 1, column 1: the front matter cannot be read as YAML: it is nested too deeply.")),
    ],
)  # fmt: skip
def test_yaml_that_is_none_is_refused_with_line_column_and_reason(front_matter: str, message: str) -> None:
    assert refusal(front_matter) == message


@pytest.mark.parametrize(
    ("front_matter", "message"),
    [
        ("description: !!python/object/apply:os.system [echo]", snapshot("a.md, line 2, column 14: the front matter cannot be read as YAML: the tag !!python/object/apply:os.system is not allowed here; write the value without it.")),
        ("description: !!binary aGk=", snapshot("a.md, line 2, column 14: the front matter cannot be read as YAML: the tag !!binary is not allowed here; write the value without it.")),
        ("!x model: y", snapshot("a.md, line 2, column 1: the front matter cannot be read as YAML: a key must be a text.")),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", snapshot("a.md, line 3, column 8: the front matter cannot be read as YAML: an alias (*a) is not allowed here; write the value out.")),
        ("tools: &t [*t]", snapshot("a.md, line 2, column 12: the front matter cannot be read as YAML: an alias (*t) is not allowed here; write the value out.")),
        ("base: &b {model: x}\n<<: *b", snapshot("a.md, line 3, column 5: the front matter cannot be read as YAML: an alias (*b) is not allowed here; write the value out.")),
        ("<<: {model: x}", snapshot("setting '<<' in a.md, line 2 is a table; an agent has no such key. The keys are name, description, tools, servers, agents, tools_policy and every setting.")),
    ],
)  # fmt: skip
def test_what_yaml_could_do_beyond_plain_values_is_refused(front_matter: str, message: str) -> None:
    assert refusal(front_matter) == message


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 60_000, "a: " + "{" * 60_000, "- " * 30_000, "? " * 30_000, "a: [" + "1," * 30_000, "a: {" + "b: 1," * 10_000,
     "&a " * 20_000, "!" * 60_000, "a: '" + "''" * 30_000, "".join(f"k{number}: 1\n" for number in range(6_000))],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_no_front_matter_takes_long_to_refuse(text: str) -> None:
    assert in_effort(3000, lambda: refusal(text)), "it is bounded by its length, which is"


@pytest.mark.parametrize(
    ("front_matter", "message"),
    [
        ("modle: x", snapshot("setting 'modle' in a.md, line 2 is text; an agent has no such key; did you mean model?")),
        ("prompt: x", snapshot("setting 'prompt' in a.md, line 2 is text; an agent has no such key. The keys are name, description, tools, servers, agents, tools_policy and every setting.")),
        ("name: x\nsub_agents: [b.md]", snapshot("setting 'sub_agents' in a.md, line 3 is a list; an agent has no such key; did you mean agents?")),
        ("Tools: [a:b]", snapshot("setting 'Tools' in a.md, line 2 is a list; an agent has no such key; did you mean tools?")),
        ("max-turns: 3", snapshot("setting 'max-turns' in a.md, line 2 is 3; an agent has no such key; did you mean max_turns?")),
        ("toolResponseMaxByte: 3", snapshot("setting 'toolResponseMaxByte' in a.md, line 2 is 3; an agent has no such key; did you mean toolResponseMaxBytes?")),
        ("api_key: sk-very-secret", snapshot("setting 'api_key' in a.md, line 2 is text; an agent has no such key. The keys are name, description, tools, servers, agents, tools_policy and every setting.")),
        ("tools_policy: {f: {stor: never}}", snapshot("setting 'tools_policy.f.stor' in a.md, line 2 is text; there is no such setting of a tool; did you mean store?")),
        ("tools_policy: {mcp: {fetch: {store: never}}}", snapshot("setting 'tools_policy.mcp.fetch' in a.md, line 2 is a table; there is no such setting of a tool; there are max_inline_bytes, toolResponseMaxBytes, maxInlineBytes, max_inline_chars, maxInlineChars, max_inline_lines, max_inline_tokens, asyncTokenThreshold, store, redact, never_async, by_reference")),
    ],
)  # fmt: skip
@requirement("settings:nearest-key", "settings:unknown-key")
def test_an_unknown_key_is_refused_and_the_nearest_one_is_named(front_matter: str, message: str) -> None:
    assert refusal(front_matter) == message


@given(st.sampled_from(sorted((OWN.keys() | KNOWN.keys() | {TABLES_KEY}) - {"name", "async"})), st.data())
def test_one_wrong_letter_is_always_seen_through(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    message = refusal(f"'{name[:at]}#{name[at + 1 :]}': 1")
    assert "did you mean " in message


@pytest.mark.parametrize(
    ("front_matter", "message"),
    [
        ("name: a b", snapshot("setting 'name' in a.md, line 2 is 'a b'; it must be 1 to 64 letters, digits, - and _")),
        ("name: 5", snapshot("setting 'name' in a.md, line 2 is 5; it must be 1 to 64 letters, digits, - and _")),
        ("description: [a]", snapshot("setting 'description' in a.md, line 2 is a list; it must be a text")),
        ("description: ' '", snapshot("setting 'description' in a.md, line 2 is ' '; it must be a text")),
        ("model: [a, b]", snapshot("setting 'model' in a.md, line 2 is ['a', 'b']; it must be text")),
        ("tools: a:b", snapshot("setting 'tools' in a.md, line 2 is 'a:b'; it must be a list of functions, each as module:name")),
        ("tools: {fetch: {store: never}}", snapshot("setting 'tools' in a.md, line 2 is a table; it must be a list of functions, each as module:name; what is different for a tool stands under tools_policy")),
        ("tools: [a:b, search]", snapshot("setting 'tools[2]' in a.md, line 2 is 'search'; it must be a function as module:name")),
        ("tools: [a:b, a:b]", snapshot("setting 'tools[2]' in a.md, line 2 is 'a:b'; it stands twice")),
        ("tools: [{a: b}]", snapshot("setting 'tools[1]' in a.md, line 2 is {'a': 'b'}; it must be a function as module:name")),
        ("agents: b.md", snapshot("setting 'agents' in a.md, line 2 is 'b.md'; it must be a list of agents' files, by their paths from this file")),
        ("agents: ['']", snapshot("setting 'agents[1]' in a.md, line 2 is ''; it must be the path of an agent's file")),
        ("servers: [x]", snapshot("setting 'servers' in a.md, line 2 is a list; it must be the path of an mcp.json or a table of servers")),
        ("servers: mcp.json", snapshot("setting 'servers' in a.md, line 2 is 'mcp.json'; there is no such file.")),
        ("tools_policy: [f]", snapshot("setting 'tools_policy' in a.md, line 2 is a list; it must be a table with a table for each tool")),
        ("tools_policy: {f: 5}", snapshot("setting 'tools_policy.f' in a.md, line 2 is 5; it must be a table, as in tools_policy: {f: {store: never}}")),
        ("tools_policy:\n  f:\n    store: sometimes", snapshot("setting 'tools_policy.f.store' in a.md, line 4 is 'sometimes'; it must be one of oversized, always, never")),
        ("max_turns: 0", snapshot("setting 'max_turns' in a.md, line 2 is 0; it must be a whole number from 1 to 1,000,000")),
        ("max_depth: -1", snapshot("setting 'max_depth' in a.md, line 2 is -1; it must be a whole number from 0 to 100")),
        ("max_turns: 'ten'", snapshot("setting 'max_turns' in a.md, line 2 is 'ten'; it must be a whole number from 1 to 1,000,000")),
        ("max_turns: true", snapshot("setting 'max_turns' in a.md, line 2 is True; it must be a whole number from 1 to 1,000,000")),
        ("async: yes", snapshot("setting 'async' in a.md, line 2 is 'yes'; it must be true or false")),
        ("dialect: klingon", snapshot("setting 'dialect' in a.md, line 2 is 'klingon'; it must be one of holdall, extract, refs, async, clamp, legacy")),
        ("retention: soon", snapshot("setting 'retention' in a.md, line 2 is 'soon'; it must be 'session', 'keep', a number of days from 0 to 36500, or a time such as 12h or 2 weeks")),
        ("asyncToolTTL: -1", snapshot("setting 'asyncToolTTL' in a.md, line 2 is -1; it must be a number of seconds from 0 to 3,153,600,000")),
        ("maxInlineBytes: many", snapshot("setting 'maxInlineBytes' in a.md, line 2 is 'many'; 'many' is not a size; write bytes, or a number with kB, MB, GB, KiB, MiB or GiB.")),
        ("grep_seconds: 1e999", snapshot("setting 'grep_seconds' in a.md, line 2 is inf; it must be a number from 0.1 to 86,400")),
        ("window: 4000\nmax_output: 4000", snapshot("setting 'max_output' in a.md, line 3 is 4000; it must be less than the window, 4,000: the request needs room too")),
        ("maxInlineBytes: 5\ntoolResponseMaxBytes: 6", snapshot("setting 'toolResponseMaxBytes' in a.md, line 3 is 6; it is the same setting as 'maxInlineBytes' (a.md, line 2); one of them is enough")),
        ("max_agent_depth: 5\nmax_depth: 5", snapshot("setting 'max_depth' in a.md, line 3 is 5; it is the same setting as 'max_agent_depth' (a.md, line 2); one of them is enough")),
    ],
)  # fmt: skip
@requirement("settings:bad-value")
def test_a_bad_value_is_refused_with_key_value_rule_and_place(front_matter: str, message: str) -> None:
    assert refusal(front_matter) == message


def test_the_message_never_shows_what_servers_are_given() -> None:
    for text in ("servers: {x: {env: {KEY: sk-secret}}}\nmax_turns: 0", "servers: [sk-secret]", "keys: sk-secret"):
        assert "secret" not in refusal(text)


# The file itself


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"---\nmodel: x\n", snapshot("FILE: the front matter begins on line 1 and does not end; a second line --- ends it. A file without front matter does not begin with ---.")),
        (b"---\nmodel: x\n----\nHi", snapshot("FILE: the front matter begins on line 1 and does not end; a second line --- ends it. A file without front matter does not begin with ---.")),
        (b"x" * 10_000_000, snapshot("the agent's file FILE is larger than 1,048,576 bytes.")),
        (b"---\n" + b"# c\n" * 20_000 + b"---\nHi", snapshot("FILE: the front matter has 79,999 characters; it may have 65,536 characters.")),
        ("---\nmodel: x\n---".encode("utf-16"), snapshot("the agent's file FILE is not UTF-8 (byte 0).")),
        (b"You help.\n\xff\xfe", snapshot("the agent's file FILE is not UTF-8 (byte 10).")),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path, "agent.md", content)
    with pytest.raises(UsageError) as refused:
        load_agent(path)
    assert str(refused.value).replace(str(path), "FILE") == message


def test_a_file_that_is_not_there_is_refused_and_a_similar_one_is_named(tmp_path: Path) -> None:
    write(tmp_path, "researcher.md", "Hi")
    for name, message in (
        ("reseacher.md", snapshot("there is no agent's file DIR/reseacher.md. Did you mean DIR/researcher.md?")),
        ("other.md", snapshot("there is no agent's file DIR/other.md.")),
        ("none/other.md", snapshot("there is no agent's file DIR/none/other.md.")),
        ("researcher.md/x", snapshot("the agent's file DIR/researcher.md/x cannot be read: Not a directory.")),
        ("nul\0.md", snapshot("the agent's file DIR/nul\\x00.md cannot be read: there is a null byte in its path.")),
    ):
        with pytest.raises(UsageError) as refused:
            load_agent(f"{tmp_path}/{name}")
        assert str(refused.value).replace(str(tmp_path), "DIR") == message


def test_a_file_that_anybody_can_change_or_that_is_none_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, "agent.md", "Hi")
    path.chmod(0o666)
    with pytest.raises(UsageError) as refused:
        load_agent(path)
    assert str(refused.value).replace(str(path), "FILE") == snapshot(
        "anybody can write to the agent's file FILE, and it says what is run or sent; so it is not read. Close it with: chmod go-w FILE"
    )
    os.mkfifo(tmp_path / "pipe.md", 0o600)
    for one in (tmp_path, tmp_path / "pipe.md"):
        with pytest.raises(UsageError, match="is not a regular file"):
            load_agent(one)


# Agents that name agents


def test_a_sub_agent_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "researcher.md", "Hi")
    path = write(tmp_path, "agent.md", "---\nname: x\nagents:\n- reseacher.md\n---")
    with pytest.raises(UsageError) as refused:
        load_agent(path)
    assert str(refused.value).replace(str(tmp_path), "DIR") == snapshot(
        "DIR/agent.md, line 3: there is no agent reseacher.md. Did you mean DIR/researcher.md?"
    )


def test_a_sub_agent_with_a_fault_is_named_with_its_own_file(tmp_path: Path) -> None:
    write(tmp_path, "sub.md", "---\nmodle: x\n---")
    path = write(tmp_path, "agent.md", "---\nagents: [sub.md]\n---")
    with pytest.raises(BadSetting, match=f"setting 'modle' in {tmp_path}/sub.md, line 2 is text"):
        load_agent(path)


def test_a_circle_of_agents_is_refused_and_shown(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    path = write(tmp_path, "a.md", "---\nagents: [b.md]\n---")
    write(tmp_path, "b.md", "---\nagents: [more/c.md]\n---")
    write(tmp_path, "more/c.md", "---\nagents: [link.md]\n---")
    (tmp_path / "more" / "link.md").symlink_to(tmp_path / "b.md")
    with pytest.raises(UsageError) as refused:
        load_agent(path)
    assert str(refused.value).replace(str(tmp_path), "DIR") == snapshot(
        "DIR/more/c.md, line 2: agents must not lead back to themselves: b.md → more/c.md → b.md."
    )
    path = write(tmp_path, "self.md", "---\nagents: [./self.md]\n---")
    for load in (lambda: load_agent(path), lambda: parse_agent(path.read_text(), path=str(path))):
        with pytest.raises(UsageError) as refused:
            load()
        assert str(refused.value).replace(str(tmp_path), "DIR") == snapshot(
            "DIR/self.md, line 2: agents must not lead back to themselves: self.md → self.md."
        )


def test_two_agents_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    write(tmp_path, "reader.md", "Hi")
    write(tmp_path, "more/reader.md", "Hi")
    path = write(tmp_path, "agent.md", "---\nagents: [reader.md, more/reader.md]\n---")
    with pytest.raises(UsageError) as refused:
        load_agent(path)
    assert str(refused.value).replace(str(tmp_path), "DIR") == snapshot(
        "DIR/agent.md, line 2: DIR/reader.md and DIR/more/reader.md are both named reader. Give one of them another `name`."
    )


def test_a_tree_of_too_many_agents_is_refused_however_it_grows(tmp_path: Path) -> None:
    for number in range(150):
        write(tmp_path, f"deep{number}.md", f"---\nagents: [deep{number + 1}.md]\n---")
        write(tmp_path, f"wide{number}.md", "Hi")
    wide = write(tmp_path, "wide.md", f"---\nagents: [{', '.join(f'wide{number}.md' for number in range(150))}]\n---")
    for path, last in ((tmp_path / "deep0.md", "deep100.md"), (wide, "wide99.md")):
        with pytest.raises(UsageError, match=f"line 2: with {last} there would be more than 100 agents"):
            load_agent(path)
    write(tmp_path, "deep99.md", "Hi")
    assert load_agent(tmp_path / "deep0.md").agents[0].name == "deep1"


# Whatever stands in it

VALUES = st.recursive(
    st.sampled_from(["1", "true", "~", "x", "a:b", "'q'", "[", "]", "{a: 1}", "*x", "&x 1", "!!str 5", "|\n  text", "1e9", "-", "? y"])
    | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3).map(lambda all: f"[{', '.join(all)}]"),
    max_leaves=4,
)  # fmt: skip
KEYS = st.sampled_from([*OWN, *KNOWN, TABLES_KEY, "<<", "x y"]) | st.text(max_size=6)
LINES = st.lists(st.tuples(KEYS, VALUES).map(lambda pair: f"{pair[0]}: {pair[1]}") | st.text(max_size=20), max_size=6)


@given(LINES.map("\n".join), st.text(max_size=50))
@example("name: " + "\u2028" * 5 + "\nname: x", "")
@example("a: \ufeff\n\x85b: 1", "---")
def test_any_front_matter_gives_an_agent_or_our_own_error(front_matter: str, body: str) -> None:
    try:
        shown = parse_agent(f"---\n{front_matter}\n---\n{body}", path="nowhere/agent.md").path
    except UsageError as refused:
        shown = str(refused)
    assert "nowhere/agent.md" in shown


@given(st.text(max_size=200))
def test_any_text_is_an_agent_or_our_own_error(text: str) -> None:
    try:
        agent = parse_agent(text, path="nowhere/agent.md")
    except UsageError:
        assert text.removeprefix("\ufeff").startswith("---")
    else:
        assert agent.name == "agent"


@given(st.binary(max_size=200))
def test_any_bytes_are_an_agent_or_our_own_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("agents") / "agent.md"
    path.write_bytes(data)
    try:
        shown = load_agent(path).path
    except UsageError as refused:
        shown = str(refused)
    assert str(path) in shown
