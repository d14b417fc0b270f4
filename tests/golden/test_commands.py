"""What every command prints: with `--json`, without it, and where something is wrong.

A file of `data/commands` is a story on one store, told run by run: what was typed, the exit code, both streams.
"""

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.golden import samples
from tests.golden.commands import PROGRAM, ROOT, Commands, Ran
from tests.golden.golden import compare, readable
from tests.golden.normal import Normal
from tests.golden.reading import BUNDLES, unpacked
from tests.requirements import requirement

ROOMY = ("--set", "notice_max_tokens=3000")  # why: see test_gateway.py
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b")
_MARK = re.compile(r'("process_mark": ")[0-9a-f]{16}"')
_PROCESS = re.compile(r'("(?:process|keeper)": |^process +)\d+(?:,\d+)*', re.MULTILINE)
_USAGE = re.compile(
    r'("(?:input_tokens|output_tokens|model_tokens|estimated_tokens|model_input_tokens|cost|model_cost|content_tokens|tokens)": )[\d.e-]+'
)
_SPENT = re.compile(r"~?[\d,]+(?= tokens| → )|(?<=→ )[\d,]+|\$\d+\.\d+")
_AGE = re.compile(r" +(AGE|\d+(?:\.\d+)? ?(?:s|m|min|h|d|days?))$", re.MULTILINE)
_CLIENT = re.compile(r"(clients/|--client=client-)[0-9a-f]{8,16}\b")
# How well a bundle is compressed is the library's business.
_WRITTEN = re.compile(r'("file": "[^"]+", "bytes": )\d+|(written to \S+: )[\d.]+ \w+')
_TAG = re.compile(r'("(?:by|op)": )"[0-9a-f]{8}"')


@dataclass
class Story:
    """Runs on one store, and what they print, without what differs from run to run."""

    holdall: Commands
    home: Path
    lines: list[str] = field(default_factory=list[str])
    normal: Normal = field(default_factory=Normal)

    def __post_init__(self) -> None:
        self.normal.places = {str(self.home): "<home>", str(self.home.parent): "<folder>", PROGRAM: "<program>"}
        self.normal.places |= {str(ROOT): "<repository>"}

    def __call__(
        self, *words: str, stdin: bytes = b"", usage: bool = False, durations: bool = False, **env: str
    ) -> Ran:
        """`usage` where a model's tokens are told, which depend on a random word in its prompt."""
        ran = self.holdall(*words, home=self.home, stdin=stdin, env=env)
        given = f" < {len(stdin)} bytes" if stdin else ""
        told = [f"{name}={value} " for name, value in env.items()]
        self.lines.append(self.clean(f"$ {''.join(told)}holdall {shlex.join(words)}{given}", usage, durations))
        self.lines.append(f"exit code {ran.code}")
        for name, data in (("stdout", ran.out), ("stderr", ran.err)):
            text = self.clean(readable(data.decode("utf-8", "backslashreplace")), usage, durations)
            self.lines += [f"{name}: {line}" for line in text.split("\n")[:-1]]
            self.lines += (
                [f"{name} without an end of line: {text.split(chr(10))[-1]}"]
                if not text.endswith("\n") and text
                else []
            )
        self.lines.append("")
        return ran

    def clean(self, text: str, usage: bool = False, durations: bool = False) -> str:
        if durations:
            text = _AGE.sub(lambda found: "  AGE" if found[1] == "AGE" else "  <age>", text)
        text = _MARK.sub(r'\1<mark>"', text)
        text = _PROCESS.sub(r"\1<process>", _CLOCK.sub("<clock>", self.normal(text, durations=durations)))
        text = _WRITTEN.sub(lambda found: f"{found[1] or found[2]}<n>", text)
        text = _CLIENT.sub(r"\1<hash>", _TAG.sub(r'\1"<tag>"', text))
        return _SPENT.sub("<n>", _USAGE.sub(r"\1<n>", text)) if usage else text

    def put(self, data: bytes, *words: str) -> str:
        """Keep it, untold; its handle."""
        ran = self.holdall(*ROOMY, "put", "--json", *words, home=self.home, stdin=data)
        assert ran.code == 0, ran.err
        handle = str(ran.json["handle"])
        self.normal.learn(handle)
        return handle

    def end(self, name: str) -> None:
        compare(f"commands/{name}.txt", "\n".join(self.lines))


@pytest.fixture
def story(holdall: Commands, tmp_path: Path) -> Story:
    return Story(holdall, tmp_path / "home")


@requirement("cli:json-put", "cli:put-prints-notice", "cli:exec-exit-code")
def test_what_keeping_prints(story: Story) -> None:
    log, small = samples.log().encode(), b"a small result"
    story(*ROOMY, "put", "--json", "--tool", "fetch", "--call-id", "c1", stdin=log)
    story(*ROOMY, "put", "--tool", "fetch", stdin=log)
    story("put", "--json", stdin=small)
    story("put", stdin=small)
    story("put", "--json")
    story(*ROOMY, "put", "--json", stdin=samples.binary(60_000))
    story("put", stdin=b"caf\xe9\n")
    story("exec", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    story("exec", "--tool", "shell", "--", "sh", "-c", "echo out; exit 4")
    story("exec", "--json", "--", "no-such-command-anywhere")
    story("exec", "--", "no-such-command-anywhere")
    story("exec", "--", "sh", "-c", "kill -9 $$")
    story("--set", "tools.secret.store=never", "put", "--tool", "secret", stdin=small)
    for dialect in ("extract", "refs", "async", "clamp", "legacy"):
        story("--set", f"dialect={dialect}", "--set", "max_inline_bytes=3000", "put", stdin=samples.csv(200).encode())
    story.end("keep")


@requirement("cli:exec-background", "cli:wait", "cli:stop")
def test_what_commands_in_the_background_print(story: Story) -> None:
    story("wait")
    story("wait", "--json")
    ran = story("exec", "--background", "--json", "--call-id", "b1", "--", "sh", "-c", "echo started; exec sleep 600")
    handle = ran.json["handle"]
    try:
        story("wait", handle, "--pattern", "started", "--json", durations=True)
        story("wait", handle, "--timeout", "0", durations=True)
        story("wait", handle, "--timeout", "0", "--json", durations=True)
        story("show", handle, "--json")
    finally:
        story("stop", handle, "--json")
    story("stop", handle)
    story("wait", handle, "--json")
    story.end("background")


@requirement("cli:json-read", "cli:json-tail", "cli:json-grep", "cli:json-slice", "cli:ls", "cli:show", "cli:cat")
def test_what_fetching_prints(story: Story) -> None:
    log = story.put(samples.log(600).encode() + b"the end, without a newline", "--tool", "fetch", "--call-id", "c1")
    table = story.put(samples.csv(40).encode())
    tree = story.put(json.dumps(samples.orders(12)).encode())
    raw = story.put(b"caf\xe9 \x00\xff\n" * 3)
    for more in ((), ("--json",)):
        story("ls", *more, durations=True)
        story("ls", "--sessions", *more, durations=True)
        story("show", log, *more)
        story("show", "c1", "-s", "cli", *more)
        story("cat", raw, *more)
        story("read", log, "--lines", "2:4", *more)
        story("read", log, "--bytes", "10:30", *more)
        story("read", log, "--chars=-5:", *more)
        story("read", table, *more)
        story("read", log, "--lines", "5000:", *more)
        story("read", raw, "--bytes", "3:9", *more)
        story("tail", log, "-n", "2", *more)
        story("tail", log, "-n", "0", *more)
        story("grep", log, "ERROR", *more)
        story("grep", log, "request 1[0-9]{2} ", "-m", "2", "-C", "1", *more)
        story("grep", log, "worker-([0-9])", "--group", *more)
        story("grep", log, "error", "-i", "--count", *more)
        story("grep", log, "10.0.0.0", "-F", "--from", "5", "-m", "1", *more)
        story("grep", log, "nowhere", *more)
        story("slice", log, "--start", "5", "--length", "20", *more)
        story("slice", log, "--anchor", "ERROR", "--window", "60", *more)
        story(
            "query",
            table,
            "select region, count(*) as n, sum(amount) as s from t group by region order by region",
            *more,
        )
        story("query", tree, "--path", "$.orders[0:2].town", *more)
        story("query", tree, "--path", "/orders/3/cents", *more)
        story("query", tree, "--path", "$.nothing", *more)
    story("query", tree, "select town, cents from t order by id limit 2", "--at", "$.orders", "--json")
    story("query", log, "select count(*) as n from t where text like '%ERROR%'")
    story.end("fetch")


@requirement("cli:exit-1", "cli:exit-2", "cli:exit-3", "cli:no-traceback")
def test_what_mistakes_print(story: Story) -> None:
    log = story.put(samples.log(600).encode(), "--tool", "fetch")
    tree = story.put(json.dumps(samples.orders(3)).encode())
    for more in ((), ("--json",)):  # an error is of one form in JSON
        story("read", "zzzz", *more)
        story("read", log, "--session", "nobody", *more)
        story("read", log, "--lines", "x:y", *more)
        story("grep", log, "(unclosed", *more)
        story("slice", log, "--anchor", "not in it", *more)
        story("query", log, "drop table t", *more)
        story("--set", "no_such_setting=1", "ls", *more)
        story("import", "no-such-file", *more)
        story("run", "no-such-agent.md", "hello", *more)
    story("read", "../../etc/passwd")
    story("read", log, "--lines", "1:2", "--bytes", "1:2")
    story("grep", log, "(?=look)around")
    story("grep", log, "a", "--count", "--group")
    story("slice", log)
    story("slice", log, "--anchor", "ERROR", "--match-index", "9")
    story("query", log)
    story("query", tree, "--path", "$.orders[")
    story("query", log, "--path", "$.a")
    story("extract", log, "what failed?")
    story("show")
    story("--set", "max_inline_bytes=-1", "ls")
    story("ls", HOLDALL_HOME="not/absolute")
    story("export", "nobody", "-o", "file")
    story("install", "no-such-client")
    story("install")
    story("no-such-command")
    story("read")
    story("read", log, "--no-such-option")
    story("grep", log, "a", "-m", "0")
    story("gateway")
    story("tail", log, "-f", "--json")
    facts = story.holdall("show", log, "--json", home=story.home).json
    path = story.home / f"session-{facts['session']}" / facts["file"]
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"?" + data[101:])
    for more in ((), ("--json",)):
        story("read", log, "--lines", "1:1", *more)
        story("cat", log, *more)
        story("verify", *more)
    path.unlink()
    for more in ((), ("--json",)):
        story("read", log, *more)
        story("verify", *more)
    story.end("mistakes")


def test_what_caring_for_a_store_prints(story: Story, tmp_path: Path) -> None:
    """On the store that version 0.1.0 wrote: its facts are the same each time."""
    unpacked(tmp_path)
    for more in ((), ("--json",)):  # before a command opens a session, which removes what has expired
        story("gc", "--dry-run", *more)
    for more in ((), ("--json",)):
        story("verify", *more)
        story("stats", *more)
        story("stats", "--session", "outputs", *more)
        story("show", "--tree", "agent", *more, durations=True)
        story("show", "log-1", "--session", "outputs", *more)
    story("gc", "--json")
    story("gc")
    for more in ((), ("--json",)):
        story("read", "young-1", "--session", "brief", *more)
        story("export", "below", "-o", str(tmp_path / "file.holdall"), "--force", "--redact", *more)
        story("export", "below", "-o", str(tmp_path / "file.holdall"), *more)
        story("import", str(BUNDLES["outputs"]), "--as", f"again{len(more)}", *more)
    story("import", str(BUNDLES["agent"]))
    story.end("care")


def test_what_settings_and_checks_print(story: Story, tmp_path: Path) -> None:
    story("--version")
    story("config", "path", XDG_CONFIG_HOME=str(tmp_path / "config"))
    story("config", "path", "--json", XDG_CONFIG_HOME=str(tmp_path / "config"))
    file = tmp_path / "config.toml"
    file.write_text('max_inline_bytes = "100 KiB"\n[tools.fetch]\nstore = "never"\n')
    file.chmod(0o600)
    for more in ((), ("--json",)):
        story("config", "show", *more, HOLDALL_CONFIG=str(file), HOLDALL_RETENTION="keep")
    file.write_text("max_inline_byte = 1\n")
    story("config", "show", HOLDALL_CONFIG=str(file))
    story("ls", HOLDALL_CONFIG=str(file))
    story("ls", HOLDALL_MAX_INLINE_BYTE="5")
    checks = story.holdall("doctor", "--json", home=story.home).json
    assert {key: checks[key] for key in checks if key != "checks"} == {"ok": True}
    assert [(one.keys(), one["name"], one["ok"]) for one in checks["checks"]] == [
        ({"name", "ok", "detail"}, name, True)
        for name in ("python", "configuration", "store", "ripgrep", "duckdb", "tokens")
    ]
    story.end("settings")


@requirement("cli:install", "cli:uninstall")
def test_what_installing_prints_and_writes(story: Story, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    before = '{\n  // a comment\n  "mcpServers": {"one": {"command": "npx", "args": ["-y", "server"]},\n    "two": {"url": "http://127.0.0.1:1/mcp"}}, "other": [1, 2]\n}\n'
    for more in ((), ("--json",)):
        file.write_text(before)
        story("install", "--file", str(file), "--dry-run", "--no-ask", *more)
        story("install", "--file", str(file), "--no-ask", "--trust", *more)
        story.lines += ["the file:", *story.clean(file.read_text()).split("\n")]
        story("install", "--file", str(file), "--no-ask", *more)
        story("uninstall", "--file", str(file), *more)
        assert file.read_text() == before
        story("uninstall", "--file", str(file), *more)
    story.end("install")


TOOLS = '''
def fetch_log() -> str:
    """The log of the day."""
    return "".join(f"line {n} of the log {'FAILED' if n == 777 else 'ok'}\\n" for n in range(5_000))
'''


@requirement("cli:run", "cli:extract")
def test_what_models_and_agents_print(story: Story, tmp_path: Path) -> None:
    log = story.put(
        "".join(f"2026-01-01 job {n} {'FAILED disk 7' if n == 40 else 'done'}\n" for n in range(60)).encode()
    )
    said = {"found": True, "quotes": ["FAILED disk 7", "not in it"], "answer": "Disk 7 failed.", "confidence": 0.9}
    nothing: dict[str, Any] = {"found": False, "quotes": [], "answer": "jobs that are done", "confidence": 0.9}
    scripts: dict[str, Any] = {
        "model": {"replies": [{"when": "which disk", "text": json.dumps(said)}, {"when": "", "text": json.dumps(nothing)}],
                  "keeps_schema": True, "price": {"input": 1, "output": 4}},
        "agent": {"replies": [
            {"calls": [{"id": "log", "name": "fetch_log", "arguments": {}}]},
            {"calls": [{"id": "find", "name": "context_grep", "arguments": {"handle": "log", "pattern": "FAILED"}}]},
            {"calls": [{"id": "end", "name": "final_report", "arguments": {"report": "Line 777 failed."}}]},
        ], "price": {"input": 1, "output": 4}},
    }  # fmt: skip
    for name, script in scripts.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(script))
    (tmp_path / "golden_day_tools.py").write_text(TOOLS)
    (tmp_path / "finder.md").write_text(
        "---\nmodel: scripted:agent.json\ntools: [golden_day_tools:fetch_log]\n---\nYou find things.\n"
    )
    model = ("--model", "scripted:model.json?window=200000")
    told: dict[str, Any] = {"usage": True, "durations": True}
    for more in ((), ("--json",)):
        story("extract", log, "which disk failed?", *model, *more, **told)
        story("extract", log, "which disk failed?", *model, *more, **told)  # remembered
        story("extract", log, "who won?", *model, *more, **told)
        story("extract", log, "what is it?", "--mode", "truncate", *more, **told)
        story("extract", log, "which disk?", *model, "--max-calls", "1", "--mode", "read-grep", *more, **told)
        story(*ROOMY, "run", "finder.md", "Which line?", "--trust", "--session", f"run{len(more)}", *more, **told)
        story("show", "--tree", f"run{len(more)}", *more, **told)
        story("ls", "--session", f"run{len(more)}", *more, **told)
    story("run", "finder.md", "Which line?", "--trust", "--max-turns", "1", "--session", "short", **told)
    story("run", "finder.md", "Which line?")
    story.end("models")
