"""What a model reads after a wait: which calls have ended, which still run, and how to go on."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdall.text.numbers import plural
from holdall.values.outputs import Facts


@dataclass(frozen=True, slots=True)
class StillRunning:
    tool: str
    handle: str
    seconds: float
    queued: bool = False


@dataclass(frozen=True, slots=True)
class Waited:
    """`ended` are the calls that have, since the last wait; `matched` the handle in whose output the pattern stands."""

    ended: Sequence[Facts] = ()
    running: Sequence[StillRunning] = ()
    matched: str = ""
    timed_out: bool = False


def s3_wait(waited: Waited) -> str:
    """S3's words."""
    if not waited.ended and not waited.running:
        return "No async tools running."
    lines: list[str] = []
    if waited.ended:
        lines += ["Completed tools:", *(f"- {_s3_line(facts)}" for facts in waited.ended)]
    if waited.timed_out and waited.running:
        lines += ["Still running:", *(_running(one) for one in waited.running)]
    return "\n".join(lines)


def our_wait(waited: Waited) -> str:
    if waited.matched:
        call = f'context_tail(handle="{waited.matched}")'
        return f"The pattern stands in what {waited.matched} has written.\nNext: {call}"
    if not waited.ended and not waited.running:
        return "No async tools running."
    lines: list[str] = []
    if waited.ended:
        lines += ["Ended:", *(f"- {_line(facts)}" for facts in waited.ended)]
    if waited.running:
        lines += ["Still running:", *(_running(one) for one in waited.running)]
    handle = waited.ended[0].handle if waited.ended else waited.running[0].handle
    lines.append(f'Next: context_tail(handle="{handle}") · context_grep(handle="{handle}", pattern="…")')
    return "\n".join(lines)


def _s3_line(facts: Facts) -> str:
    failed = "" if facts.state == "ready" else f", {facts.state}: {facts.error}" if facts.error else f", {facts.state}"
    return f"{facts.origin.tool} (id: {facts.handle}, size: {_size(facts.measure.bytes)}{failed})"


def _line(facts: Facts) -> str:
    size = f"{plural(facts.measure.bytes, 'byte')}, {plural(facts.measure.lines, 'line')}"
    state = "" if facts.state == "ready" else f", {facts.state}" + (f": {facts.error}" if facts.error else "")
    return f"{facts.origin.tool or 'the tool'} (handle: {facts.handle}, {size}{state})"


def _running(one: StillRunning) -> str:
    state = "queued" if one.queued else "running"
    return f"- {one.tool or 'the tool'} (id: {one.handle}, {state} {one.seconds:.1f}s)"


def _size(number: int) -> str:
    """`45KB`, as S3 writes it."""
    return f"{number // 1024}KB" if number >= 1024 else f"{number}B"
