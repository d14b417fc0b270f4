"""Stack traces of Python, Java, JavaScript, Go and Rust: which exception, how often, and the innermost frames."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import stringzilla

from holdall.text.outline.model import cut
from holdall.text.outline.sample import Sample

_MOST = 120  # traces of each language that are looked at, over all that was read
_LONGEST = 40_000  # bytes of one …
_FRAMES = 120  # … and lines
_LINE = 4000  # bytes in which the ends of a line are looked for
_PYTHON = b"Traceback (most recent call last):"
_FILE = re.compile(rb'File "(?P<file>[^"\n]{1,300})", line (?P<line>\d+)(?:, in (?P<name>[^\n]{1,100}))?')
_AT = re.compile(rb"[ \t]{1,16}at (?P<frame>[^\n]{1,300})")
_BLOCK = re.compile(rb"(?:(?:[ \t]{1,16}(?:at |\.\.\. \d|Caused by: )|Caused by: )[^\n]{0,2000}(?:\n|\Z)){1,120}")
_GO_FRAME = re.compile(rb"\n\t(?P<frame>\S+\.go:\d+)")
_THROWN = re.compile(rb"\b[\w.$]{0,200}(?:Exception|Error|Throwable|Failure)\b[^\n]{0,300}")


@dataclass(slots=True)
class Trace:
    language: str
    message: str
    frames: list[str]  # innermost first
    start: int
    end: int
    times: int = 1
    more: bool = False  # not all that was read was looked at for it


def traces(sample: Sample) -> list[Trace]:
    """Distinct traces in the order of the text, each with how often it was seen."""
    known: dict[tuple[str, str], Trace] = {}
    most = max(4, _MOST // max(1, len(sample.pieces)))
    more = not sample.whole
    for start, data in sample.pieces:
        for find in (_python, _at_lines, _go, _rust):
            found = list(islice(find(data), most))
            more |= len(found) == most
            for trace in found:
                key = trace.message, trace.frames[0] if trace.frames else ""
                if key in known:
                    known[key].times += 1
                else:
                    trace.start += start
                    trace.end += start
                    known[key] = trace
    for trace in known.values():
        trace.more = more
    return sorted(known.values(), key=lambda trace: trace.start)


def told(trace: Trace, sample: Sample) -> str:
    times = f" ×{trace.times:,}{'+' if trace.more else ''}" if trace.times > 1 else ""
    frames = "".join(f" ← {cut(frame, 70)}" for frame in trace.frames[:2])
    return f"{sample.place(trace.start)} {cut(trace.message, 160)}{times}{frames}"


def _python(data: bytes) -> Iterator[Trace]:
    at = stringzilla.find(data, _PYTHON)
    while at >= 0:
        start = _line_start(data, at)
        lead = data[start:at] if at - start < 64 else b""
        frames, message = list[bytes](), b""
        for line in islice(_lines(data, _line_end(data, at) + 1), 2 * _FRAMES):
            rest = line.removeprefix(lead)
            found = _FILE.search(rest)
            if found:
                frames.append(b"%b:%b in %b" % (found[1].rsplit(b"/", 1)[-1], found[2], found[3] or b"?"))
            elif rest[:1] not in (b" ", b"\t") and rest.strip():
                message = rest
                break
        stop = data.find(message, at, at + 2 * _LONGEST) + len(message) if message else at + len(_PYTHON)
        text = _text(message) or "Traceback"
        yield Trace("python", text, [_text(frame) for frame in reversed(frames[-3:])], start, stop)
        at = stringzilla.find(data, _PYTHON, max(stop, at + 1))


def _at_lines(data: bytes) -> Iterator[Trace]:
    at = 0
    places = {sign: stringzilla.find(data, sign) for sign in (b"\n\tat ", b"\n    at ")}
    for _ in range(_MOST * 2):
        # What is not there is not looked for again.
        places = {
            sign: place if place >= at else stringzilla.find(data, sign, at)
            for sign, place in places.items()
            if place >= 0
        }
        found = min((place for place in places.values() if place >= 0), default=-1)
        if found < 0:
            return
        start = _line_start(data, found)
        thrown = _THROWN.search(data, max(start, found - 2000), found)
        block = _BLOCK.match(data, found + 1)
        end = block.end() if block else found + 1
        frames = [_text(each["frame"]) for each in islice(_AT.finditer(data, found + 1, min(end, found + 1200)), 3)]
        at = max(end - 1, found + 1)
        if thrown and frames:
            language = "java" if ".java" in frames[0] or ".kt" in frames[0] else "javascript"
            yield Trace(language, _text(thrown[0]), frames, start, end)


def _go(data: bytes) -> Iterator[Trace]:
    return _panics(data, b"panic: ", "go")


def _rust(data: bytes) -> Iterator[Trace]:
    return _panics(data, b"' panicked at ", "rust")


def _panics(data: bytes, sign: bytes, language: str) -> Iterator[Trace]:
    at = stringzilla.find(data, sign)
    for _ in range(_MOST * 2):
        if at < 0:
            return
        start, end = _line_start(data, at), _line_end(data, at)
        if language == "rust" or (at == start and b"goroutine " in data[end : end + 4000]):
            frames = [_text(match["frame"]) for match in islice(_GO_FRAME.finditer(data, end, end + 4000), 3)]
            yield Trace(language, _text(data[start:end]), frames, start, end)
        at = stringzilla.find(data, sign, end)


def _line_start(data: bytes, at: int) -> int:
    """Where the line of a byte starts, or what is shown of it."""
    low = max(0, at - _LINE)
    return max(low, data.rfind(b"\n", low, at) + 1)


def _line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at, at + _LINE)
    return min(len(data), at + _LINE) if end < 0 else end


def _lines(data: bytes, at: int) -> Iterator[bytes]:
    stop = min(len(data), at + _LONGEST)
    while at < stop:
        end = data.find(b"\n", at, stop)
        end = stop if end < 0 else end
        yield data[at:end].rstrip(b"\r")
        at = end + 1


def _text(data: bytes) -> str:
    return cut(data[:400].decode("utf-8", "replace").strip(), 300)
