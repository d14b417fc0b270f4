"""The ephemeral text at the end of a request: the turn, the context, what runs, what is ready, what to do next.

Its shape is S3's, to the letter; a dialect has its own words for its tools. It is never kept.
"""

from collections.abc import Sequence

from holdall.text.escape import foreign
from holdall.text.numbers import roughly
from holdall.values.record import record


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


@record
class StatusWords:
    """How a dialect says which of its tools fetch what is ready."""

    retrieve: str = (
        "Read async tool outputs using context_read(handle), context_grep(handle, pattern) or wait_for_tool_output()"
    )
    use_retrieve: str = (
        "Use context_grep, context_query, context_read or context_tail with the handle (the id) to retrieve."
    )
    wait: str = "Wait for running tools using wait_for_tool_output()"
    use_wait: str = "Use wait_for_tool_output() to block until a running tool completes."


OUR_WORDS = StatusWords()


def system_notice(
    work: Work,
    *,
    words: StatusWords = OUR_WORDS,
    turn: int,
    max_turns: int | None = None,
    tokens_used: int | None = None,
    window: int | None = None,
    mark: str = "",
) -> str:
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
        lines += ["", "## Kept Outputs", *(f"- {one}" for one in work.kept)]
    lines += ["", "---", "", "You now need to decide your next move:", "1. Call tools to advance your task"]
    waits = bool(work.running or work.queued)
    if work.ready or work.failed:
        lines += [f"2. {words.retrieve}", "3. Provide your final report/answer", "", words.use_retrieve, words.use_wait]
    elif waits:
        lines += [f"2. {words.wait}", "3. Provide your final report/answer", "", words.use_wait]
    else:
        lines += ["2. Provide your final report/answer"]
    lines += ["", mark] if mark else []
    return "\n".join(lines)


def _status(work: Work) -> list[str]:
    lines: list[str] = []
    if work.running:
        shown = [f"- {foreign(one.tool)} (id: {one.id}, running {one.seconds:.1f}s)" for one in work.running]
        lines += ["", f"### Running ({len(work.running)})", *shown]
    if work.queued:
        shown = [f"- {foreign(one.tool)} (id: {one.id}, queued {one.seconds:.1f}s)" for one in work.queued]
        lines += ["", f"### Queued ({len(work.queued)})", *shown]
    if work.ready:
        lines += ["", f"### Ready ({len(work.ready)})", *(_ready(one) for one in work.ready)]
    if work.failed:
        shown = [f"- {foreign(one.tool)} (id: {one.id}, {foreign(one.reason)})" for one in work.failed]
        lines += ["", f"### Failed ({len(work.failed)})", *shown]
    return lines


def _ready(one: ReadyTool) -> str:
    parts = [f"id: {one.id}", f"~{roughly(one.tokens).replace('k', 'K')} tokens"]
    if one.exceeds:
        parts.append("exceeds threshold")
    if one.retrievals:
        parts.append(f"{one.retrievals} retrieval{'' if one.retrievals == 1 else 's'}")
    return f"- {foreign(one.tool)} ({', '.join(parts)})"
