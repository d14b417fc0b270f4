"""Stack traces of Python, Java, JavaScript, Go and Rust: which exception, how often, and the innermost frames."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from holdall.text.outline.model import cut
from holdall.text.outline.sample import Sample

_MOST = 300  # traces that are looked at
_LONGEST = 40_000  # bytes of one …
_FRAMES = 120  # … and lines
_PYTHON = b"Traceback (most recent call last):"
_FILE = re.compile(rb'File "(?P<file>[^"\n]{1,300})", line (?P<line>\d+)(?:, in (?P<name>[^\n]{1,100}))?')
_AT = re.compile(rb"[ \t]{1,16}(?:at (?P<frame>[^\n]{1,300})|\.\.\. \d+ (?:more|common)|Caused by: )")
_GO_FRAME = re.compile(rb"^\t(?P<frame>\S+\.go:\d+)", re.MULTILINE)
_THROWN = re.compile(rb"\b[\w.$]*(?:Exception|Error|Throwable|Failure)\b[^\n]{0,300}")


@dataclass(slots=True)
class Trace:
    language: str
    message: str
    frames: list[str]  # innermost first
    start: int
    end: int
    times: int = 1


def traces(sample: Sample) -> list[Trace]:
    """Distinct traces in the order of the text, each with how often it was seen."""
    known: dict[tuple[str, str], Trace] = {}
    for start, data in sample.pieces:
        for trace in _in_piece(data):
            key = trace.message, trace.frames[0] if trace.frames else ""
            if key in known:
                known[key].times += 1
            elif len(known) < _MOST:
                trace.start += start
                trace.end += start
                known[key] = trace
    return list(known.values())


def told(trace: Trace, sample: Sample) -> str:
    times = f" ×{trace.times:,}{'+' if trace.times >= _MOST else ''}" if trace.times > 1 else ""
    frames = "".join(f" ← {cut(frame, 70)}" for frame in trace.frames[:2])
    return f"{sample.place(trace.start)} {cut(trace.message, 160)}{times}{frames}"


def _in_piece(data: bytes) -> Iterator[Trace]:
    yield from _python(data)
    yield from _at_lines(data)
    yield from _panics(data)


def _python(data: bytes) -> Iterator[Trace]:
    at = data.find(_PYTHON)
    for _ in range(_MOST):
        if at < 0:
            return
        start = data.rfind(b"\n", 0, at) + 1
        lead = data[start:at] if at - start < 64 else b""
        frames, message = list[bytes](), b""
        for line in _lines(data, data.find(b"\n", at) + 1 or len(data)):
            rest = line.removeprefix(lead)
            found = _FILE.search(rest)
            if found:
                frames.append(b"%b:%b in %b" % (found[1].rsplit(b"/", 1)[-1], found[2], found[3] or b"?"))
            elif rest[:1] not in (b" ", b"\t") and rest.strip():
                message = rest
                break
        stop = data.find(message, at) + len(message) if message else at + len(_PYTHON)
        text = _text(message) or "Traceback"
        yield Trace("python", text, [_text(frame) for frame in reversed(frames[-3:])], start, stop)
        at = data.find(_PYTHON, max(stop, at + 1))


def _at_lines(data: bytes) -> Iterator[Trace]:
    at = 0
    places = {sign: data.find(sign) for sign in (b"\n\tat ", b"\n    at ")}
    for _ in range(_MOST):
        # What is not there is not looked for again.
        places = {sign: place if place >= at else data.find(sign, at) for sign, place in places.items() if place >= 0}
        found = min((place for place in places.values() if place >= 0), default=-1)
        if found < 0:
            return
        start = data.rfind(b"\n", 0, found) + 1
        thrown = _THROWN.search(data, max(start, found - 2000), found)
        end, frames = found + 1, list[str]()
        for line in islice(_lines(data, found + 1), _FRAMES):
            match = _AT.match(line)
            if not match and not line.startswith(b"Caused by: "):
                break
            end += len(line) + 1
            if match and match["frame"]:
                frames.append(_text(match["frame"]))
        at = max(end - 1, found + 1)
        if thrown and frames:
            language = "java" if ".java" in frames[0] or ".kt" in frames[0] else "javascript"
            yield Trace(language, _text(thrown[0]), frames[:3], start, end)


def _panics(data: bytes) -> Iterator[Trace]:
    for sign, language in ((b"panic: ", "go"), (b"' panicked at ", "rust")):
        at = data.find(sign)
        for _ in range(_MOST):
            if at < 0:
                break
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            frames = [_text(match["frame"]) for match in _GO_FRAME.finditer(data, end, end + 4000)][:3]
            if language == "rust" or (at == start and b"goroutine " in data[end : end + 4000]):
                yield Trace(language, _text(data[start:end]), frames, start, end)
            at = data.find(sign, end)


def _lines(data: bytes, at: int) -> Iterator[bytes]:
    stop = min(len(data), at + _LONGEST)
    while at < stop:
        end = data.find(b"\n", at, stop)
        end = stop if end < 0 else end
        yield data[at:end].rstrip(b"\r")
        at = end + 1


def _text(data: bytes) -> str:
    return cut(data[:400].decode("utf-8", "replace").strip(), 300)
