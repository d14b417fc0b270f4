"""`holdall run` with the real program, scripted models and real MCP servers: streams, exit codes, faults, resuming."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SessionInfo
from tests.cli.agents import Agents, calls, report, report_when
from tests.cli.mcp_server import pids_in
from tests.cli.program import PROGRAM, Program, Ran, started_as, until
from tests.cli.test_extract import Terminal
from tests.requirements import requirement
from tests.upstream.support import lives

GREP = calls(("context_grep", {"handle": "log", "pattern": "FAILED"}))
FETCH = calls(("fetch_log", {}, "log"))


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    return Agents.own(tmp_path)


def plain(ran: Ran) -> str:
    """Standard error, without what differs from run to run."""
    told = re.sub(r"\d+\.\d s\b", "TIME", ran.err)
    told = re.sub(r"[\d,]+ tokens", "N tokens", re.sub(r"\$\d+\.\d+", "$COST", told))
    told = re.sub(r"of [a-z0-9]{4} \(", "of HANDLE (", told)
    return re.sub(r"finder-[0-9a-f]{6}", "finder-TAG", told)


def events_of(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.text.splitlines()]


# From a prompt to a report


@requirement("cli:run", "cli:content-to-stdout", "cli:about-to-stderr", "cli:exit-0", "runtime:tools-functions")
def test_the_report_is_all_of_stdout_and_what_it_took_is_on_stderr(holdall: Program, agents: Agents) -> None:
    file = agents.agent(FETCH, GREP, report("Line 777 failed."))
    ran = holdall("run", file, "Which line failed?")
    assert (ran.code, ran.text) == (0, "Line 777 failed.\n")
    assert plain(ran) == snapshot("""\
session finder-TAG
a tool that prints
session finder-TAG · 3 turns · 3 model calls · 2 tool calls · N tokens · $COST · TIME
seen: <0.1 % of HANDLE (fetch_log, 94.9 kB), 100 % scanned
more: holdall show --tree finder-TAG · holdall ls -s finder-TAG
""")


@requirement("cli:run")
@pytest.mark.parametrize("given", [("-",), ()])
def test_the_prompt_may_come_from_standard_input(holdall: Program, agents: Agents, given: tuple[str, ...]) -> None:
    file = agents.agent(report_when("Was ist “kaputt”\\?", "it was read"))
    assert holdall("run", file, *given, stdin="Was ist “kaputt”?\n".encode()).text == "it was read\n"


@requirement("cli:json-everywhere", "watch:event-log", "ledger:in-final-report")
def test_json_is_a_line_for_each_event_and_the_report_is_the_last(holdall: Program, agents: Agents) -> None:
    ran = holdall("run", agents.agent(FETCH, GREP, report("Line 777.")), "Which?", "--json")
    *events, last = events_of(ran)
    assert [event["event"] for event in events] == snapshot(
        ["turn", "asked", "kept", "called", "turn", "asked", "retrieved", "called", "turn", "asked", "reported"]
    )
    assert ran.err == "a tool that prints\n", "and not on standard output"
    name, session = last.pop("session_name"), last.pop("session")
    assert re.fullmatch(r"finder-[0-9a-f]{6}", name)
    ((handle, seen),) = last.pop("seen").items()
    assert 0 < seen < 0.01
    assert holdall("show", handle, "-s", f"session-{session}", "--json").json["tool"] == "fetch_log"
    assert {key: last[key] for key in ("report", "status", "synthetic", "turns", "model_calls")} == {
        "report": "Line 777.", "status": "success", "synthetic": False, "turns": 3, "model_calls": 3,
    }  # fmt: skip


def test_whoever_reads_the_events_may_stop_and_the_run_ends(holdall: Program, agents: Agents) -> None:
    file = agents.agent(FETCH, calls(("gate", {})), tools="fetch_log, gate")
    process = subprocess.Popen(
        started_as("run", file, "go", "--json", "--session", "s1"), env=holdall.environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["event"] == "turn"
    process.stdout.close()
    assert process.wait(timeout=45) == 0
    tree = holdall("show", "--tree", "s1", "--json").json
    assert "reported" not in tree


@requirement("cli:exit-1")
def test_a_failure_and_a_report_that_never_came_are_told_apart_and_are_exit_code_1(
    holdall: Program, agents: Agents
) -> None:
    failed = holdall("run", agents.agent(report("There is no log.", status="failure")), "Which?")
    assert (failed.code, failed.text) == (1, "There is no log.\n")
    assert "The agent says that it failed.\n" in failed.err
    never = holdall(
        "run", agents.agent(*[calls(("small", {"word": str(n)})) for n in range(9)]), "x", "--max-turns", "3"
    )
    assert never.code == 1
    assert never.text.startswith("[This report was not written by the model: 3 turns are over, and it did not report.]")
    assert "The agent did not report: 3 turns are over, and it did not report. What it has done is kept.\n" in never.err
    assert re.search(r"^go on with: holdall run \S+/finder\.md --resume finder-\w+$", never.err, re.MULTILINE)
    partly = holdall("run", agents.agent(report("Half of it.", status="partial")), "Which?")
    assert partly.code == 0
    assert "The agent says that this is only a part of what was asked.\n" in partly.err


@requirement("measure:escape-bidi", "measure:escape-facts")
def test_what_a_model_or_a_tool_says_is_escaped_on_a_terminal_and_is_not_in_a_pipe(
    holdall: Program, agents: Agents
) -> None:
    file = agents.agent(
        calls(("bad", {}), ("task_status", {"status": "at \x1b[2J\u202eit"})), report("All \x1b[2Jgone\u202e."),
        tools="bad",
    )  # fmt: skip
    with Terminal(holdall, "run", file, "go", "--session", "s1") as terminal:
        code, seen = terminal.end()
    assert code == 0
    assert "All \\x1b[2Jgone\\u202e." in seen
    assert "\u202e" not in seen
    assert "\x1b[2J" not in seen
    assert holdall("run", file, "go").text == "All \x1b[2Jgone\u202e.\n"
    tree = holdall("show", "--tree", "s1").text
    assert "\x1b" not in tree
    assert "tool bad" in tree


# Settings


@requirement("settings:flag-over-front-matter", "settings:front-matter-over-environment")
def test_the_command_line_goes_before_the_file_before_the_environment_before_the_configuration(
    holdall: Program, agents: Agents, tmp_path: Path
) -> None:
    replies = [calls(("small", {"word": str(n)})) for n in range(9)]
    (tmp_path / "config.toml").write_text("max_turns = 5\n")
    env: dict[str, str | None] = {"HOLDALL_CONFIG": str(tmp_path / "config.toml")}

    def turns(file: str, *options: str) -> int:
        return int(events_of(holdall(*options[:2], "run", file, "x", "--json", *options[2:], env=env))[-1]["turns"])

    silent, says = agents.agent(*replies, name="silent"), agents.agent(*replies, more="maxTurns: 3", name="says")
    assert turns(silent) == 5
    env["HOLDALL_MAX_TURNS"] = "4"
    assert turns(silent) == 4
    assert turns(says) == 3
    assert turns(says, "--set", "max_turns=2") == 2
    assert turns(says, "--set", "max_turns=2", "--max-turns", "1") == 1


@requirement("settings:flag-over-front-matter")
def test_the_model_of_the_command_line_is_that_of_every_agent_of_the_run(holdall: Program, agents: Agents) -> None:
    child = agents.agent(report("by its own model"), name="child")
    file = agents.agent(report("by the file's model"), more=f"agents: [{child}]")
    assert holdall("run", file, "x").text == "by the file's model\n"
    other = agents.script(
        report_when("by the one that was named", "and both"),
        calls(("spawn_agent", {"agent": "child", "task": "go"})),
        report("by the one that was named"),
        name="other",
    )
    assert holdall("run", file, "x", "--model", other).text == "and both\n"


@requirement("runtime:async-flags")
def test_async_and_no_async_win_over_the_file(holdall: Program, agents: Agents) -> None:
    (agents.folder / "slow_tools.py").write_text(
        "import asyncio\nasync def slow() -> str:\n    await asyncio.sleep(0.4)\n    return 'slow'\n"
    )
    model = agents.script(calls(("slow", {})), report("done"))

    def kinds(front: str, *options: str) -> set[str]:
        front = f"model: {model}\ntools: [slow_tools:slow]\nslow_after_seconds: 0.05\n{front}"
        return {
            event.get("event", "") for event in events_of(holdall("run", agents.write(front), "x", "--json", *options))
        }

    assert "running" in kinds("")
    assert "running" not in kinds("async: false")
    assert "running" in kinds("async: false", "--async")
    assert "running" not in kinds("async: true", "--no-async")


@requirement("reference:on-in-runtime")
def test_a_tool_may_be_given_a_kept_output_by_its_handle_unless_the_file_says_no(
    holdall: Program, agents: Agents
) -> None:
    passing = calls(("small", {"word": "holdall:log#L778-L778"}))
    on = agents.agent(FETCH, passing, report_when("\nline 777 of the log FAILED", "it was passed on"))
    assert holdall("run", on, "x").text == "it was passed on\n"
    seen = report_when("holdall:log#L778-L778", "as it was written")
    off = agents.agent(FETCH, passing, seen, more="by_reference: false", name="off")
    assert holdall("run", off, "x").text == "as it was written\n"


# What cannot be run


@requirement("cli:exit-2", "cli:no-traceback", "runtime:agent-files")
@pytest.mark.parametrize(
    ("front", "said"),
    [
        ("tools: [a:b", "finder.md, line "),
        ("model: scripted:x\nmax_turn: 3", "an agent has no such key; did you mean max_turns?"),
        ("model: scripted:x\nmax_turns: 0", "setting 'max_turns' in "),
        ("tools: []", ": no model. Name one with --model, `model:` in the front matter, HOLDALL_MODEL"),
        ("model: gpt-5", 'no model is named "gpt-5"'),
        ("model: scripted:nowhere.json", "the script nowhere.json cannot be read"),
        ("model: scripted:x\ntools: [no_such_module:f]", "no_such_module:f: there is no module 'no_such_module'"),
        ("model: scripted:x\ntools: [day_tools:fetch_logs]", "Did you mean fetch_log?"),
        ("model: scripted:x\nagents: [other.md]", "there is no agent other.md"),
        ("model: scripted:x\nagents: [finder.md]", "agents must not lead back to themselves: finder.md → finder.md"),
        ("model: scripted:x\nservers: mcpp.json", "there is no such file"),
        ("model: scripted:x\nservers: {a: {comand: x}}", "comand"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused_in_one_line(
    holdall: Program, agents: Agents, front: str, said: str
) -> None:
    ran = holdall("run", agents.write(front), "x")
    assert (ran.code, ran.out) == (2, b"")
    assert ran.err.startswith("holdall: ")
    assert ran.err.count("\n") == 1
    assert said in ran.err


def test_on_a_terminal_the_prompt_is_typed_and_ctrl_c_ends_it(holdall: Program, agents: Agents) -> None:
    file = agents.agent(report_when("two\nlines", "read"))
    with Terminal(holdall, "run", file, "-") as terminal:
        terminal.until("What should the agent do? Ctrl-D ends it.")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end()[0] == 130
    with Terminal(holdall, "run", file, "-", piped=True) as terminal:
        terminal.until("What should the agent do?")
        terminal.type("two\nlines\n\x04")
        code, seen = terminal.end()
    assert (code, seen.endswith("read\n")) == (0, True)


def test_a_circle_of_agents_is_named_with_its_way(holdall: Program, agents: Agents) -> None:
    agents.write("model: scripted:x\nagents: [two.md]", name="one")
    agents.write("agents: [one.md]", name="two")
    ran = holdall("run", str(agents.folder / "one.md"), "x")
    assert ran.code == 2
    assert "agents must not lead back to themselves: one.md → two.md → one.md." in ran.err


@requirement("cli:exit-2")
def test_wrong_use_is_told_before_anything_is_started(holdall: Program, agents: Agents) -> None:
    file = agents.agent(report("x"), more=f"servers: {agents.servers(small={})}")
    missing = holdall("run", file)
    assert (missing.code, missing.err.startswith("holdall: the prompt is missing: ")) == (2, True)
    assert holdall("run", file, " ").code == 2
    nobody = holdall("run", file, "--resume", "nobody")
    assert nobody.code == 2
    assert nobody.err.startswith('holdall: there is no session "nobody". The newest are: none.')
    both = holdall("run", file, "--resume", "a", "--session", "b")
    assert both.err == "holdall: --resume names the session that goes on: leave --session out.\n"
    assert holdall("run", str(agents.folder / "find.md"), "x").err.endswith("finder.md?\n")
    assert pids_in(agents.pids()) == []


def test_a_session_holds_one_conversation(holdall: Program, agents: Agents) -> None:
    file = agents.agent(report("first"))
    assert holdall("run", file, "x", "--session", "s1").text == "first\n"
    again = holdall("run", file, "x", "--session", "s1")
    assert again.code == 2
    assert 'an agent has run in session "s1": go on with --resume s1, or choose another name.' in again.err
    silent = holdall("run", file, "--resume", "s1")
    assert silent.code == 2
    assert 'the agent of session "s1" has reported. Say what it should do now, after the file.' in silent.err
    more = agents.agent(report_when("Noted\\..*and then\\?", "second"))
    assert holdall("run", more, "and then?", "--resume", "s1").text == "second\n"
    holdall.put(b"x", "-s", "plain")
    nothing = holdall("run", file, "--resume", "plain")
    assert (nothing.code, "no agent has run in session" in nothing.err) == (2, True)


# Servers


@requirement("runtime:tools-mcp-stdio", "way:mcp-results")
def test_the_tools_of_a_real_mcp_server_are_those_of_the_agent(holdall: Program, agents: Agents) -> None:
    front = f"servers: {agents.servers(small={})}\nslow_after_seconds: 600"  # however busy the machine is
    file = agents.agent(
        calls(("big", {}, "rows"), ("shout", {"text": "quiet"})),
        calls(("context_grep", {"handle": "rows", "pattern": "row 777 "})),
        report_when("QUIET.*row 777 of the server", "both are there"),
        more=front, tools="",
    )  # fmt: skip
    ran = holdall("run", file, "x", "--json", cwd=agents.folder)
    assert events_of(ran)[-1]["report"] == "both are there"
    (pid,) = pids_in(agents.pids())
    assert not lives(pid), "it ends with the run"


def test_tools_of_several_servers_have_the_names_of_their_servers(holdall: Program, agents: Agents) -> None:
    front = f"servers: {agents.servers(one={}, two={})}\nslow_after_seconds: 600"  # however busy the machine is
    asked = calls(("one__shout", {"text": "from one"}), ("two__shout", {"text": "from two"}))
    file = agents.agent(asked, report_when("FROM ONE.*FROM TWO", "both"), more=front, tools="")
    ran = holdall("run", file, "x", cwd=agents.folder)
    assert ran.text == "both\n", ran.err


@requirement("cli:exit-3")
@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"command": "/nowhere/server"}, "cannot be started: server: No such file or directory"),
        ({"args": ["-c", "import sys; sys.exit('no licence')"]}, 'It last wrote: "no licence"'),
        ({"args": ["-c", "import time; time.sleep(600)"], "start_timeout_seconds": 0.5}, "did not answer the greeting"),
        ({"args": ["-c", "print('hello'); import time; time.sleep(600)"], "start_timeout_seconds": 0.5}, "greeting"),
    ],
)
def test_a_server_that_does_not_start_is_a_fault_that_names_it(
    holdall: Program, agents: Agents, server: dict[str, Any], said: str
) -> None:
    server.setdefault("command", sys.executable)
    file = agents.agent(report("x"), more=f"servers: {agents.servers(shop=server)}", tools="")
    ran = holdall("run", file, "x", cwd=agents.folder)
    assert (ran.code, ran.out) == (3, b"")
    assert 'MCP server "shop"' in ran.err
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_server_that_dies_in_a_call_is_told_to_the_model_and_starts_again(holdall: Program, agents: Agents) -> None:
    file = agents.agent(
        calls(("die", {})),
        calls(("garbage", {})),
        calls(("shout", {"text": "back again"})),
        report_when("out of cheese.*BACK AGAIN", "it came back"),
        more=f"servers: {agents.servers(small={})}", tools="",
    )  # fmt: skip
    ran = holdall("run", file, "x", cwd=agents.folder)
    assert (ran.code, ran.text) == (0, "it came back\n")
    assert len(pids_in(agents.pids())) == 2


def test_a_server_that_hangs_does_not_hold_up_the_run(holdall: Program, agents: Agents) -> None:
    file = agents.agent(
        calls(("hang", {}), ("small", {"word": "meanwhile"})),
        report_when("meanwhile", "went on"),
        more=f"servers: {agents.servers(small={})}\nslow_after_seconds: 0.2\ngrace_seconds: 0.2",
    )
    ran = holdall("run", file, "x", cwd=agents.folder)
    assert (ran.code, ran.text) == (0, "went on\n")
    assert "still running: hang " in ran.err
    assert not any(map(lives, pids_in(agents.pids())))


# Agents that start agents


@requirement("runtime:spawn-agent", "runtime:tools-agents", "runtime:operation-tree", "runtime:totals-to-root")
def test_an_agent_starts_another_and_the_tree_shows_both(holdall: Program, agents: Agents) -> None:
    agents.agent(
        FETCH, calls(("context_query", {"handle": "log", "sql": "select count(*) as n from t"})),
        report_when("4000", "4,000 lines"), name="counter", more="description: counts lines",
    )  # fmt: skip
    file = agents.agent(
        calls(("spawn_agent", {"agent": "counter", "task": "How many lines?"})),
        report_when("4,000 lines", "There are 4,000."),
        more="agents: [counter.md]",
    )
    ran = holdall("run", file, "How many?", "--session", "s1")
    assert (ran.code, ran.text) == (0, "There are 4,000.\n")
    assert " · 2 turns · 5 model calls · 3 tool calls · " in ran.err
    shown = re.sub(r"\d+ ms|\d+\.\d s", "TIME", holdall("show", "--tree").text)
    shown = re.sub(r"[\d,]+( → [\d,]+)? (tokens|chars)", r"N \2", re.sub(r"\$\d+\.\d+", "$COST", shown))
    shown = re.sub(r"(kept|answer) [a-z0-9]{4}", r"\1 HANDLE", shown.replace(str(agents.folder), "FOLDER"))
    assert shown == snapshot("""\
session s1 · 2 turns · 5 model calls · 3 tool calls · N tokens · $COST · TIME · reported success
├─ turn 1 · TIME · N tokens in it
│  ├─ model scripted:FOLDER/finder-model.json · TIME · N tokens · $COST · 1 call
│  ├─ agent counter · TIME · 3 turns · N tokens · $COST
│  │  ├─ turn 1 · TIME · N tokens in it
│  │  │  ├─ model scripted:FOLDER/counter-model.json · TIME · N tokens · $COST · 1 call
│  │  │  └─ tool fetch_log · TIME · kept HANDLE · N chars
│  │  ├─ turn 2 · TIME · N tokens in it
│  │  │  ├─ model scripted:FOLDER/counter-model.json · TIME · N tokens · $COST · 1 call
│  │  │  └─ tool context_query · TIME · answer HANDLE · N chars
│  │  └─ turn 3 · TIME · N tokens in it
│  │     └─ model scripted:FOLDER/counter-model.json · TIME · N tokens · $COST
│  └─ tool spawn_agent · TIME · inline · N chars
└─ turn 2 · TIME · N tokens in it
   └─ model scripted:FOLDER/finder-model.json · TIME · N tokens · $COST
""")
    tree = holdall("show", "--tree", "s1", "--json").json
    assert tree["session_name"] == "s1"
    (agent,) = [one for turn in tree["children"] for one in turn["children"] if one["op"] == "agent"]
    assert [turn["op"] for turn in agent["children"]] == ["turn"] * 3
    assert tree["totals"]["model_calls"] == 5
    assert agent["input_tokens"] < tree["totals"]["input_tokens"]


@requirement("runtime:operation-tree", "runtime:totals-to-root")
def test_a_run_and_its_tree_count_the_same_calls_those_of_agents_and_refused_ones_too(
    holdall: Program, agents: Agents
) -> None:
    wrong = ("context_read", {"handle": "zzzz"})
    agents.agent(FETCH, calls(wrong), report("nothing"), name="child")
    file = agents.agent(
        calls(wrong), calls(("spawn_agent", {"agent": "child", "task": "go"})), report_when("nothing", "none"),
        more="agents: [child.md]",
    )  # fmt: skip
    ran = holdall("run", file, "x", "--session", "s1")
    told = re.compile(r"\d+ tool calls[^·]*")
    counts = [told.findall(text)[0].strip() for text in (ran.err, holdall("show", "--tree").text)]
    assert counts == ["4 tool calls, 2 failed or cut short"] * 2


def test_the_number_of_agents_is_bounded_by_the_settings(holdall: Program, agents: Agents) -> None:
    agents.agent(report("child"), name="child")
    spawn = ("spawn_agent", {"agent": "child", "task": "go"})
    file = agents.agent(
        calls(spawn), calls(spawn), report_when("No more agents: this run may start 1 in all", "bounded"),
        more="agents: [child.md]\nmax_agents: 1",
    )  # fmt: skip
    assert holdall("run", file, "x").text == "bounded\n"


def _happened(store: DirectoryStore, session: SessionInfo, events: list[dict[str, object]]) -> None:
    store.append_events(session, b"".join(json.dumps({"at": 1.0, **one}).encode() + b"\n" for one in events))


@requirement("bundle:no-verdicts")
@pytest.mark.parametrize("children", [5, [5], [{"a": 1}], "text", [{"op": "extraction", "verified": 3}]], ids=str)
def test_an_event_from_elsewhere_is_drawn_as_what_it_is(holdall: Program, children: object) -> None:
    with closing(DirectoryStore(str(holdall.home))) as store:
        _happened(store, store.open_session("s1"), [
            {"event": "turn", "number": 1, "children": children},
            {"event": "turn", "number": 2, "op": "extraction", "name": "x", "verified": 7, "strategy": "full"},
            {"event": "spawned", "tool": "a", "op": "extraction", "verified": 7},
        ])  # fmt: skip
    tree = holdall("show", "--tree", "s1")
    assert (tree.code, "verified" in tree.text) == (0, False)
    assert [line.split(" · ")[0].lstrip("│├└─ ") for line in tree.text.splitlines()[1:]] == [
        "turn 1",
        "turn 2",
        "agent a",
    ]


def test_sessions_that_name_each_other_are_drawn_once(holdall: Program) -> None:
    with closing(DirectoryStore(str(holdall.home))) as store:
        other, bag = store.open_session("other"), store.open_session("s1")
        child = store.open_session("s2", parent=bag.id)
        ids = [bag.id, child.id, other.id] * 20
        _happened(store, other, [{"event": "spawned", "tool": "secret", "session": ""}])
        for session, name in ((bag, "agent"), (child, "again")):
            _happened(store, session, [{"event": "spawned", "tool": name, "session": one} for one in ids])
    tree = holdall("show", "--tree", "s1")
    assert (tree.code, "secret" in tree.text) == (0, False)
    assert [tree.text.count(name) for name in ("agent agent", "agent again")] == [60, 60]


@requirement("cli:exit-1", "cli:exit-2")
def test_there_is_a_tree_only_where_an_agent_has_run(holdall: Program, agents: Agents) -> None:
    holdall.put(b"x")
    ran = holdall("show", "--tree")
    assert (ran.code, ran.out, ran.err) == (1, b"", "no agent has run yet: holdall run AGENT.md\n")
    assert holdall("show", "--tree", "cli").err == 'no agent has run in session "cli" yet: holdall run AGENT.md\n'
    unknown = holdall("show", "--tree", "clu")
    assert unknown.code == 2
    assert unknown.err.endswith("Did you mean cli?\n")
    assert holdall("show").err.startswith("holdall: show needs the handle of an output")


# Faults, stops, kills, and going on


@requirement("cli:exit-3", "cli:run-resume")
def test_after_a_fault_of_the_model_it_says_how_to_go_on_and_goes_on(holdall: Program, agents: Agents) -> None:
    file = agents.agent(FETCH, {"error": "fault", "text": "401: the key \x1b[2J is wrong"})
    ran = holdall("run", file, "Which line failed?", "--session", "my job")
    assert (ran.code, ran.out) == (3, b"")
    assert "holdall: 401: the key \\x1b[2J is wrong\n" in ran.err
    assert f"Nothing is lost. Go on with: holdall run {file} --resume 'my job'\n" in ran.err
    brief = holdall("--set", "retention=session", "run", file, "Which line failed?", "--session", "brief")
    assert (
        "Its conversation is kept; 1 output of it, kept for the session only, will be gone. Go on with: " in brief.err
    )
    told = holdall("run", file, "x", "--session", "other", "--json")
    error, how = (json.loads(line) for line in told.err.splitlines() if line.startswith("{"))
    assert (error["error"], how["session_name"]) == ("ModelFault", "other")
    agents.agent(GREP, report_when("Which line failed.*line 777 of the log FAILED", "Line 777."))
    assert holdall("run", file, "--resume", "my job").text == "Line 777.\n"


@requirement("cli:run-resume", "async:crash-interrupted")
def test_a_run_that_was_killed_goes_on_where_it_stopped_with_its_handles(holdall: Program, agents: Agents) -> None:
    file = agents.agent(FETCH, calls(("stuck", {})), tools="fetch_log, stuck", more="slow_after_seconds: 0.1")
    process = subprocess.Popen(
        [PROGRAM, "run", file, "Which line failed?", "--session", "job"], env=holdall.environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: (agents.folder / "begun").exists() and len(list(holdall.home.glob("session-*/*.record"))) == 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    outputs = {one["tool"]: one for one in holdall("ls", "-s", "job", "--json").json["outputs"]}
    assert (outputs["fetch_log"]["state"], outputs["stuck"]["state"]) == ("ready", "interrupted")
    assert "interrupted, no report" in holdall("show", "--tree", "job").text
    kept = rf"handle[: ]+{outputs['fetch_log']['handle']}.*line 777 of the log FAILED"
    agents.agent(GREP, report_when(kept, "Line 777."), tools="fetch_log, stuck")
    ran = holdall("run", file, "--resume", "job")
    assert (ran.code, ran.text) == (0, "Line 777.\n")
    log = holdall("cat", outputs["fetch_log"]["handle"], "-s", "job").out
    assert log.count(b"\n") == 4_000
    assert "reported success" in holdall("show", "--tree", "job").text


@requirement("session:lease", "session:lease-says-who")
def test_while_it_runs_a_second_one_is_told_who_holds_the_session(holdall: Program, agents: Agents) -> None:
    file = agents.agent(FETCH, calls(("gate", {})), report("done"), tools="fetch_log, gate")
    process = subprocess.Popen(
        [PROGRAM, "run", file, "x", "--session", "job"], env=holdall.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until((agents.folder / "begun").exists)
    second = holdall("run", file, "--resume", "job")
    assert second.code == 2
    assert f"the agent finder, process {process.pid} on " in second.err
    (agents.folder / "open").touch()
    assert process.communicate(timeout=45)[0] == b"done\n"


def test_on_a_terminal_it_shows_what_runs_and_ctrl_c_asks_for_a_report(holdall: Program, agents: Agents) -> None:
    file = agents.agent(
        report_when("This is your final turn: it was stopped", "I was at the gate."),
        calls(("task_status", {"status": "going to the gate"}), ("gate", {})),
        tools="gate",
    )
    with Terminal(holdall, "run", file, "x", piped=True) as terminal:
        terminal.until("running: gate ")
        for shown in ("finder · turn 1 of 30 · ", " tokens · $0.00", "  going to the gate"):
            terminal.until(shown)
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("stopping: the agent may report in one more turn. Ctrl-C again ends it at once.")
        (agents.folder / "open").touch()
        code, seen = terminal.end()
    assert code == 0
    assert seen.endswith("I was at the gate.\n")


@pytest.mark.in_full(one_in=2)
@pytest.mark.parametrize("tool", ["gate", "stuck"])
def test_ctrl_c_twice_ends_it_at_once_with_all_that_it_started(holdall: Program, agents: Agents, tool: str) -> None:
    agents.agent(calls((tool, {})), tools=tool, name="child")
    file = agents.agent(
        calls(("spawn_agent", {"agent": "child", "task": "go"}), ("hang", {})),
        more=f"agents: [child.md]\nservers: {agents.servers(small={})}", tools="",
    )  # fmt: skip
    with Terminal(holdall, "run", file, "x", "--session", "job") as terminal:
        terminal.until(f"child: {tool} ")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("stopping: ")
        terminal.process.send_signal(signal.SIGINT)
        code, seen = terminal.end()
    assert code == 130
    assert f"Nothing is lost. Go on with: holdall run {file} --resume job" in seen.replace("\n", "")
    assert "Traceback" not in seen
    assert not any(map(lives, pids_in(agents.pids())))


def test_a_run_that_is_asked_to_end_ends_and_can_go_on(holdall: Program, agents: Agents) -> None:
    file = agents.agent(FETCH, calls(("gate", {})), tools="fetch_log, gate")
    process = subprocess.Popen(
        started_as("run", file, "x", "--session", "job"), env=holdall.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    until((agents.folder / "begun").exists)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=45)
    assert (process.returncode, out) == (128 + signal.SIGTERM, b"")
    assert b"--resume job\n" in err
    agents.agent(report("went on"), tools="fetch_log, gate")
    assert holdall("run", file, "--resume", "job").text == "went on\n"


def test_in_a_pipe_nothing_is_drawn(holdall: Program, agents: Agents) -> None:
    ran = holdall("run", agents.agent(report("x")), "x", env={"TERM": "xterm"})
    assert "\x1b" not in ran.err
    assert os.linesep.join(line for line in ran.err.splitlines() if "turn 1 of" in line) == ""
