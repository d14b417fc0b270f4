"""`bench answers --model`: a real model in Holdall's own loop answers the questions, by one way to show an output.

Every token of every request counts, the system prompt and the tools included. Answers are judged by code, and each is
a line of a file, so that a run that was stopped goes on where it was. No model is asked past the ceiling.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from bench.answers import clamps, judge
from bench.answers.shell import SECONDS, SHOWN_BYTES, Shell
from bench.answers.tasks import Output, Task
from holdall.agent.loop import run_agent
from holdall.agent.toolbox import Agent, AgentTool, Toolbox
from holdall.agent.transcript import messages_in
from holdall.bag import Holdall
from holdall.llm.catalogue import Price
from holdall.llm.protocol import Model, Request, estimated_tokens, reply_limit
from holdall.llm.wrappers import ModelWrapper, Retrying
from holdall.values.chat import Assistant, Reply, System, Usage, User
from holdall.values.errors import ModelOverflow
from holdall.values.settings import Settings
from holdall.wire.tool import ToolSpec

Arm = Literal["holdall", "shell", "head-tail"]
ARMS: tuple[Arm, ...] = ("holdall", "shell", "head-tail")
MAX_TURNS, MAX_REPLY = 10, 4_096
PREVIEW_BYTES, CUT_TOKENS = 2_048, 4_000
TOKENS, DOLLARS = 500_000, 1.0  # the ceiling where none is given

PROMPT = (
    "You answer one question about the output of a tool. Report the answer alone, in a few words: a value as it is in "
    "the output, a number in digits. If the output does not hold it, report NOT FOUND."
)
_SHELL = ToolSpec(
    "shell",
    f"Run a shell command, without network. It has {SECONDS:g} s; {SHOWN_BYTES:,} bytes of what it prints are shown.",
    {"type": "object", "required": ["command"], "properties": {"command": {"type": "string"}}},
)
# Without a run to go by: tokens of the first request besides what is shown, of what is shown, of each call with its
# answer, and how many requests there are.
BY_RULE: Mapping[Arm, tuple[int, int, int, int]] = {
    "holdall": (1_200, 250, 350, 4), "shell": (700, 700, 350, 4), "head-tail": (120, CUT_TOKENS, 0, 1),
}  # fmt: skip
_WRITTEN_BY_RULE = 80  # tokens of a reply


class CeilingReached(Exception):
    """The next request could cost more than is allowed."""


@dataclass(frozen=True, slots=True)
class Way:
    """How the questions are put. `notice` is the most tokens of a notice; None for the product's own."""

    model: str
    arm: Arm
    collection: str
    notice: int | None = None
    confined: bool = True
    max_turns: int = MAX_TURNS

    @property
    def file_name(self) -> str:
        model = Path(self.model.partition("?")[0].rpartition(":")[2]).name
        parts = (model, self.arm, self.collection, *([f"notice-{self.notice}"] if self.notice else []))
        return f"answers-{'-'.join(_plain(part) for part in parts)}.jsonl"


@dataclass(frozen=True, slots=True)
class Answered:
    """One question. `synthetic`: the model never reported, and its last words count."""

    task: str
    type: str
    asked: str  # a hash of question and right answer: both differ where outputs are made anew
    model: str
    arm: Arm
    collection: str
    notice: int | None
    confined: bool
    right: bool
    gold: str
    answer: str
    synthetic: bool
    requests: int
    calls: tuple[str, ...]
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: float | None
    seconds: float
    why: str = ""  # there is no answer

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Forecast:
    questions: int
    tokens: int
    cost: float | None  # None where no price is known
    by: str

    def problem(self, tokens: int, cost: float) -> str:
        if self.tokens > tokens:
            return f"{self.tokens:,} tokens are expected, over the ceiling of {tokens:,}: --max-tokens raises it"
        if self.cost is not None and self.cost > cost:
            return f"${self.cost:.2f} are expected, over the ceiling of ${cost:.2f}: --max-cost raises it"
        return ""

    def __str__(self) -> str:
        cost = "no price is known" if self.cost is None else f"${self.cost:.2f}"
        return f"{self.questions} questions, about {self.tokens:,} tokens ({self.by}), {cost}"


def forecast(way: Way, questions: int, done: Sequence[Answered], price: Price | None) -> Forecast:
    if done:
        read, written = fmean(one.input_tokens for one in done), fmean(one.output_tokens for one in done)
        by = f"as the {len(done)} answered before"
    else:
        base, shown, step, requests = BY_RULE[way.arm]
        read = sum(base + (way.notice or shown) + step * number for number in range(requests))
        written, by = _WRITTEN_BY_RULE * requests, "by a rule of thumb"
    usage = Usage(round(read * questions), round(written * questions))
    return Forecast(questions, usage.tokens, None if price is None else price.cost(usage), by)


class Metered(ModelWrapper):
    """Counts what every request used, those of a try that is repeated too, and refuses one past the ceiling."""

    def __init__(self, model: Model, *, tokens: int, cost: float) -> None:
        super().__init__(model)
        self.usage, self.requests = Usage(), 0
        self._tokens, self._cost = tokens, cost

    @property
    def max_output(self) -> int:
        """An answer is a few words, thinking apart: what is reserved for a reply is missing in a small window."""
        return min(MAX_REPLY, self.inner.max_output, self.window // 16)

    async def ask(self, request: Request) -> Reply:
        written = reply_limit(self, request)
        ahead = Usage(request_tokens(request), written)
        if self.usage.tokens + ahead.tokens > self._tokens:
            raise CeilingReached(f"{self.usage.tokens:,} tokens are used of {self._tokens:,}")
        if self.price is not None and (self.usage.cost or 0.0) + self.price.cost(ahead) > self._cost:
            raise CeilingReached(f"${self.usage.cost or 0.0:.4f} are used of ${self._cost:.2f}")
        reply = await self.inner.ask(request)
        used = reply.usage
        if not used.tokens:  # a server that counts nothing
            used = Usage(ahead.input_tokens, estimated_tokens(reply.text), cost=used.cost)
        self.requests += 1
        self.usage += used
        return reply


def share(tasks: Sequence[Task], most: int | None) -> list[Task]:
    """So many of them, evenly spread."""
    if most is None or most >= len(tasks):
        return list(tasks)
    return [tasks[number * len(tasks) // most] for number in range(most)]


def read_results(file: Path) -> list[Answered]:
    """What was answered before. A line that a killed run has not finished is left out."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    found: list[Answered] = []
    for line in lines:
        try:
            entry: dict[str, Any] = json.loads(line)
            entry["calls"] = tuple(entry["calls"])
            found.append(Answered(**entry))
        except (ValueError, TypeError, KeyError):
            continue
    return found


def all_results(folder: Path) -> list[Answered]:
    return [one for file in sorted(folder.glob("answers-*.jsonl")) for one in read_results(file)]


def is_answered(task: Task, done: Sequence[Answered]) -> bool:
    return any((one.task, one.asked) == (task.id, _asked(task)) for one in done)


async def ask_all(
    way: Way,
    model: Metered,
    tasks: Sequence[Task],
    outputs: Mapping[str, Output],
    file: Path,
    say: Callable[[str], None],
) -> None:
    """Each task that is not in the file yet; its line is written as soon as it is answered. Raises CeilingReached."""
    file.parent.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        if is_answered(task, read_results(file)):
            continue
        one = await ask(way, model, task, outputs[task.output])
        _append(file, one)
        verdict = "right" if one.right else f"wrong: {' '.join(one.answer.split())[:80]!r}"
        say(f"{task.id}: {verdict}, {one.requests} requests, {one.tokens:,} tokens, {one.seconds:.0f} s")


def _append(file: Path, one: Answered) -> None:
    """On a line of its own, also after one that a killed run has not finished."""
    torn = file.exists() and not file.read_bytes().endswith(b"\n")
    with file.open("a", encoding="utf-8") as lines:
        lines.write(("\n" if torn else "") + json.dumps(asdict(one), ensure_ascii=False) + "\n")


async def ask(way: Way, model: Metered, task: Task, output: Output) -> Answered:
    started, before, requests = time.perf_counter(), model.usage, model.requests
    why, text, synthetic, calls = "", "", False, ()
    try:
        with tempfile.TemporaryDirectory(prefix="holdall-asked-") as folder:
            if way.arm == "head-tail":
                text = await _cut(model, task, output)
            else:
                text, synthetic, calls = await _in_loop(way, model, task, output, Path(folder))
    except ModelOverflow as problem:  # the model cannot: any other fault is the machine's or the provider's
        why = str(problem)
    used = model.usage
    return Answered(
        task.id, task.type, _asked(task), way.model, way.arm, way.collection, way.notice, way.confined,
        judge.answers(task, text), "; ".join(task.gold), text[:2_000], synthetic, model.requests - requests, calls,
        used.input_tokens - before.input_tokens, used.output_tokens - before.output_tokens,
        used.cached_tokens - before.cached_tokens,
        None if used.cost is None else round(used.cost - (before.cost or 0.0), 6),
        round(time.perf_counter() - started, 1), why,
    )  # fmt: skip


async def _cut(model: Metered, task: Task, output: Output) -> str:
    """Both ends in one request; half of a window that is smaller."""
    spans = clamps.both_ends(min(CUT_TOKENS, model.window // 2))(output.data)
    parts = [output.data[span.start : span.end].decode("utf-8", "replace") for span in spans]
    missing = len(output.data) - sum(span.end - span.start for span in spans)
    shown = f"\n[… {missing:,} bytes left out …]\n".join(parts)
    asked = f"{output.tool} returned {len(output.data):,} bytes:\n{shown}\n\nQuestion: {task.question}"
    return (await Retrying(model).ask(Request((System(PROMPT), User(asked))))).text


async def _in_loop(
    way: Way, model: Metered, task: Task, output: Output, folder: Path
) -> tuple[str, bool, tuple[str, ...]]:
    given: dict[str, Any] = {} if way.notice is None else {"notice_max_tokens": way.notice}
    # The shell's answers pass as they are: Holdall itself has neither tools nor instructions then.
    settings = Settings(**given) if way.arm == "holdall" else Settings(dialect="clamp")
    tools = Toolbox()

    def open_bag(session: str, parent: str, _: Model) -> Holdall:
        return Holdall.open(home=str(folder / "home"), session=session, parent=parent, settings=settings)

    async with open_bag("bench", "", model) as bag:
        if way.arm == "holdall":
            shown = str((await bag.take(output.content, tool=output.tool)).content)
        else:
            file = folder / (output.file or f"{output.id}.txt")
            file.write_bytes(output.data)
            file.chmod(0o444)
            shell = Shell(folder, file, confined=way.confined)
            tools = Toolbox([AgentTool(_SHELL, shell.run)])
            shown = _previewed(output, shell)
        agent = Agent("bench", PROMPT, model, open_bag, tools, max_turns=way.max_turns)
        report = await run_agent(agent, bag, f"{shown}\n\nQuestion: {task.question}")
        said = messages_in(bag.records.transcript_lines())
    calls = tuple(
        f"{call.name} {json.dumps(call.arguments, ensure_ascii=False, default=str)}"[:1_000]
        for message in said if isinstance(message, Assistant) for call in message.calls
    )  # fmt: skip
    text = report.text.partition("\nIts last words were:\n")[2] if report.synthetic else report.text
    return text, report.synthetic, calls


def _previewed(output: Output, shell: Shell) -> str:
    first = output.data[:PREVIEW_BYTES].decode("utf-8", "ignore")
    return (
        f"{output.tool} returned {len(output.data):,} bytes, all of them in the file {shell.shown_path}. "
        f"The first {PREVIEW_BYTES:,} bytes:\n{first}"
    )


def request_tokens(request: Request) -> int:
    texts = [message.text for message in request.messages]
    texts += [
        f"{call.name} {call.arguments}" for one in request.messages if isinstance(one, Assistant) for call in one.calls
    ]
    texts += [f"{tool.name} {tool.description} {json.dumps(dict(tool.schema))}" for tool in request.tools]
    texts += [json.dumps(dict(request.schema))] if request.schema else []
    return estimated_tokens("\n".join(texts))


def _asked(task: Task) -> str:
    return hashlib.sha256("\0".join((task.question, *task.gold)).encode()).hexdigest()[:12]


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in name).strip("-")
