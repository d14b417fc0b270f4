"""The ephemeral text at the end of a request: the turn, the context, what runs, what is ready, what to do next.

Its shape is S3's, to the letter; a dialect has its own words for its tools. It is never kept.
"""

from collections.abc import Callable, Sequence

from holdall.text.escape import foreign, reason_in
from holdall.text.numbers import roughly
from holdall.values.record import record

UNNAMED = "unknown"  # a tool, where nobody said which
_MOST_UNFINISHED = 20  # calls that are listed, of those that run and of those that wait


@record
class RunningTool:
    tool: str
    id: str
    seconds: float


@record
class ReadyTool:
    tool: str
    id: str
    tokens: int
    exceeds: bool = False
    retrievals: int = 0


@record
class FailedTool:
    tool: str
    id: str
    reason: str


@record
class Work:
    """Background calls, and what is kept: only after a compaction or a resume are outputs listed."""

    running: Sequence[RunningTool] = ()
    queued: Sequence[RunningTool] = ()
    ready: Sequence[ReadyTool] = ()
    failed: Sequence[FailedTool] = ()
    kept: Sequence[str] = ()
    more_ready: int = 0  # that are not listed
    more_failed: int = 0
    more_kept: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.running or self.queued or self.ready or self.failed or self.kept)


@record
class StatusWords:
    """How a dialect says which of its tools fetch what is ready, and wait; empty where it has none."""

    retrieve: str = ""
    use_retrieve: str = ""
    wait: str = ""
    use_wait: str = ""


TO_WAIT = "Wait for running tools using wait_for_tool_output()"
USE_WAIT = "Use wait_for_tool_output() to block until a running tool completes."
OUR_WORDS = StatusWords(
    "Read async tool outputs using context_read(handle), context_grep(handle, pattern) or wait_for_tool_output()",
    "Use context_grep, context_query, context_read or context_tail with the handle (the id) to retrieve.",
    TO_WAIT,
    USE_WAIT,
)


def system_notice(
    work: Work,
    *,
    words: StatusWords = OUR_WORDS,
    turn: int,
    max_turns: int | None = None,
    tokens_used: int | None = None,
    window: int | None = None,
    marked: Callable[[str], str] = str,
    final: bool = False,
) -> str:
    """In the `final` turn no tool can be called, so none is named. `marked` adds the mark of real notices."""
    lines = [
        "# System Notice",
        "",
        f"This is turn {turn} of {max_turns}." if max_turns else f"This is turn {turn}.",
    ]
    if tokens_used is not None and window:
        lines.append(f"Your context window is {round(100 * tokens_used / window)}% full.")
    status = _status(work)
    if status:
        lines += ["", "## Async Tool Status", *status]
    if work.kept:
        lines += ["", "## Kept Outputs", *(f"- {one}" for one in work.kept), *_more(work.more_kept)]
    moves, uses = ([], []) if final else _moves(work, words)
    moves.append("Provide your final report/answer")
    lines += ["", "---", "", "You now need to decide your next move:"]
    lines += [f"{number}. {move}" for number, move in enumerate(moves, 1)]
    lines += ["", *uses] if uses else []
    return marked("\n".join(lines))


def _moves(work: Work, words: StatusWords) -> tuple[list[str], list[str]]:
    """What can be done besides to report, and with which tools."""
    moves, uses = ["Call tools to advance your task"], list[str]()
    if work.ready or work.failed:
        moves, uses = [*moves, words.retrieve], [words.use_retrieve, words.use_wait]
    elif work.running or work.queued:
        moves, uses = [*moves, words.wait], [words.use_wait]
    return [move for move in moves if move], [use for use in uses if use]


def _status(work: Work) -> list[str]:
    lines: list[str] = []
    if work.running:
        lines += ["", f"### Running ({len(work.running)})", *_unfinished(work.running, "running")]
    if work.queued:
        lines += ["", f"### Queued ({len(work.queued)})", *_unfinished(work.queued, "queued")]
    if work.ready:
        shown = [*map(_ready, work.ready), *_more(work.more_ready)]
        lines += ["", f"### Ready ({len(work.ready) + work.more_ready})", *shown]
    if work.failed:
        shown = [f"- {foreign(one.tool) or UNNAMED} (id: {one.id}, {reason_in(one.reason)})" for one in work.failed]
        lines += ["", f"### Failed ({len(work.failed) + work.more_failed})", *shown, *_more(work.more_failed)]
    return lines


def _unfinished(calls: Sequence[RunningTool], state: str) -> list[str]:
    shown = [
        f"- {foreign(one.tool) or UNNAMED} (id: {one.id}, {state} {one.seconds:.1f}s)"
        for one in calls[:_MOST_UNFINISHED]
    ]
    left_out = len(calls) - len(shown)
    return [*shown, *_more(left_out)]


def _more(left_out: int) -> list[str]:
    return [f"… and {left_out:,} more"] if left_out else []


def _ready(one: ReadyTool) -> str:
    parts = [f"id: {one.id}", f"~{roughly(one.tokens).replace('k', 'K')} tokens"]
    if one.exceeds:
        parts.append("exceeds threshold")
    if one.retrievals:
        parts.append(f"{one.retrievals} retrieval{'' if one.retrievals == 1 else 's'}")
    return f"- {foreign(one.tool) or UNNAMED} ({', '.join(parts)})"
