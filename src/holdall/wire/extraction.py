"""The answer to a question about an output, as a model reads it in each dialect.

What a model wrote and what Holdall proved are kept apart: every quote stands with its byte range and "verified", or
with the words that it is not in what the model read. A model that was fed hostile bytes may write lines that look like
ours: its text is inside a fence or in JSON, and where there is neither, such lines are escaped. Each answer fits its
bounds, and says what was left out for that.
"""

import functools
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace

from holdall.formats.kinds import PACKED
from holdall.text.escape import foreign, one_line, quoted
from holdall.text.excerpt import beginning, ending, first_bytes
from holdall.text.marks import read_alike
from holdall.text.numbers import plural
from holdall.text.utf8 import decode
from holdall.values.errors import HoldallError, ModelFault
from holdall.values.extraction import Extraction, FailedChunk, Snippet, holds_nul
from holdall.values.handles import MEMBER
from holdall.values.patterns import lazy_pattern
from holdall.values.spans import Span
from holdall.wire.answers import Frame

Fits = Callable[[str], bool]
_MAX_FAILED = 5
_MAX_PATTERNS = 8
_LONGEST_START = 200  # characters of a line that tell whether it begins like ours
_LEAST = 64  # characters of an answer, or bytes of both ends of an output: less is not worth showing
_MAX_THERE = 300  # characters of what a model says there is instead
_UNKNOWN = "\u00a4"  # in place of a letter that might be drawn like any sign
_LIKE = {"i": "l1|", "l": "i1|", "o": "0"}


def _read_as(words: str) -> str:
    """A pattern for our words where letters may be others that look like them: no list of those is complete, so that
    any sign will do that is not of ASCII.
    """

    def letter(found: re.Match[str]) -> str:
        return f"[{found[0]}{_LIKE.get(found[0], '')}\u0080-\U0010ffff]"

    return re.sub(r"(?<!\\)[a-z]", letter, words)


# How our own lines begin where there is no fence: with `>` or `(`, or with these words. Of their first four signs one
# is of ASCII: there are texts without any.
_OUR_WORDS = lazy_pattern(
    r"(?=[^\x00-\x7f]{0,3}[ -~])(?:"
    + _read_as(
        r"abstract from tool output|tooloutput failed for|warning:|no content matching query|(?:un)?verified\b|bytes \d"
        r"|lines? \d|the model wrote:|\d+ more quotes?\b|none of the quotes|the model quoted nothing|not searched:"
        r"|searched \d"
    )
    + ")"
)
# And how they end: with a verdict behind a place, behind a dot, or in brackets.
_VERDICT = lazy_pattern(_read_as("verified"))
_BEFORE_VERDICT = lazy_pattern(
    rf"(?:\b{_read_as('(?:byte|line)s?')}\W{{0,3}}\d[^a-z]{{0,40}}(?:{_read_as('lines?')}[^a-z]{{0,40}})?"
    rf"|(?:\(|[^\w\s!-/:-@^-~\u2010-\u201f]) ?)(?:{_read_as('un')})?\Z"
)
_BRACKET = lazy_pattern(r" ?[])]")
_LONGEST_PLACE = 100  # signs of it that are looked at
_MARKUP = str.maketrans("", "", "*_~`")  # of Markdown, inside of words
_NUMBERED = lazy_pattern(r"\s*\d{1,3}[.)]\s")
_SIGNS = lazy_pattern(r"[^\w\s]{1,20}(?=\s)")
# Whose letters look like letters, syllables or words. Of others some look like brackets and arrows.
_SCRIPTS = lazy_pattern(
    "LATIN|GREEK|CYRILLIC|ARMENIAN|GEORGIAN|HEBREW|(?:EXTENDED )?ARABIC|DEVANAGARI|BENGALI|GURMUKHI|GUJARATI|ORIYA"
    "|TAMIL|TELUGU|KANNADA|MALAYALAM|SINHALA|THAI|LAO|TIBETAN|MYANMAR|KHMER|ETHIOPIC|HANGUL|CJK|IDEOGRAPHIC|HIRAGANA"
    "|KATAKANA|BOPOMOFO|MICRO SIGN|MASCULINE|FEMININE"
)
_DECORATION = frozenset("*_~`#+-\u2022\u2013\u2014")  # what Markdown puts before a line
_PLAIN_STARTS = frozenset("\"'[]{}|/\\$@&%!?.,:;=<)^\u2026\u201c\u201d\u2018\u2019\u00ab")
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")  # letters and signs of which nothing is seen
_OTHER_ENDS = lazy_pattern("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # of lines, besides a newline
_CONTROLS = lazy_pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")  # with them a line begins otherwise than it reads
CHECKS = {
    "exact": "verified",
    "loose": "verified but for white space and escapes",
    "near": "unverified: the model changed it; this is a similar place",
    "none": "unverified: not in what the model read",
}


def cut_note(text: str, keep: int) -> str:
    """The beginning of `text`, about `keep` bytes, and how much is gone."""
    part = first_bytes(text, keep)
    return f"{part.text}\n[cut here: {part.omitted:,} more characters]"


def model_text(text: str) -> str:
    """What a model wrote, or an output holds, outside of a fence: a line that reads like one of ours gets a `\\`."""
    text = _CONTROLS.sub(lambda found: one_line(found[0]), text.replace("\r\n", "\n"))
    return "\n".join(f"\\{line}" if _reads_like_ours(line) else line for line in text.split("\n"))


def model_text_below(ours: str) -> str:
    """An answer whose first line is ours, and those below are of a model: that nothing was found, and what there is."""
    head, end, said = ours.partition("\n")
    return f"{head}{end}{model_text(said)}"


def _reads_like_ours(line: str) -> bool:
    return _begins_like_ours(line) or _ends_like_ours(_alike(line))


def _begins_like_ours(line: str) -> bool:
    """Signs that cannot be seen, and those that only look like ours, do not make another line of it: whatever begins
    with a sign that is not known to be another is taken for ours.
    """
    numbered = _NUMBERED.match(line)
    for at, sign in enumerate(line):
        is_skipped = sign in _DECORATION or sign in _FILLERS or unicodedata.category(sign)[0] in "CMZ"
        if is_skipped or (numbered is not None and at < numbered.end()):
            continue
        first = unicodedata.normalize("NFKC", sign)[:1]
        if not first.isalnum():
            signs = _SIGNS.match(line, at)  # `=> x` is as near to `> x` as `-> x` is
            last = unicodedata.normalize("NFKC", signs[0][-1])[:1] if signs else ""
            return first not in _PLAIN_STARTS or not (last in _PLAIN_STARTS or last in _DECORATION or last in "()")
        start = line[at : at + _LONGEST_START]
        return not _is_familiar(first) or _OUR_WORDS.match(_alike(start)) is not None
    return False


def _ends_like_ours(text: str) -> bool:
    for found in _VERDICT.finditer(text):
        if not any(sign.isascii() for sign in found[0][:4]):
            continue
        before, after = (
            text[max(0, found.start() - _LONGEST_PLACE) : found.start()],
            text[found.end() : found.end() + 2],
        )
        if _BEFORE_VERDICT.search(before) or (before[-2:] in (", ", "; ", ": ") and _BRACKET.match(after)):
            return True
    return False


def _alike(text: str) -> str:
    """As it looks: in the usual signs and small letters, without those of which nothing is seen and those of
    Markdown.
    """
    if not text.isascii():
        text = text.translate({ord(sign): _look_of(sign) for sign in set(text) if not sign.isascii()})
    return text.translate(_MARKUP).lower()


@functools.lru_cache(4096)
def _look_of(sign: str) -> str:
    if sign in _FILLERS or unicodedata.category(sign)[0] in "CM":
        return ""
    return "".join(one if _is_familiar(one) else _UNKNOWN for one in read_alike(sign))


def _is_familiar(sign: str) -> bool:
    """Whether it is no letter, or one of those that nobody takes for a bracket or an arrow."""
    return sign.isascii() or not sign.isalnum() or _SCRIPTS.match(unicodedata.name(sign, "")) is not None


def quote_lines(text: str) -> str:
    """A quote outside of a fence: each of its lines begins with `> `."""
    text = _OTHER_ENDS.sub(lambda found: one_line(found[0]), text.removesuffix("\n").replace("\r\n", "\n"))
    return "> " + text.replace("\n", "\n> ")


def coverage(extraction: Extraction) -> str:
    """What was searched, in one clause."""
    size = extraction.source_bytes
    if extraction.strategy == "full-chunked":
        return f"searched {extraction.chunks_searched:,} of {plural(extraction.chunks_total, 'chunk')}"
    if extraction.strategy == "read-grep":
        told = _looked(extraction.searched, extraction.scanned, extraction.patterns, size)
        return f"searched with Read and Grep; {told}"
    read = _bytes(extraction.end_spans)
    if read == size:
        return f"not searched: all of its {plural(size, 'byte')} are shown"
    return f"not searched: {read:,} of {size:,} bytes, its beginning and its end, are shown"


def _looked(read: Sequence[Span], scanned: Sequence[Span], patterns: Sequence[str], size: int) -> str:
    """What was read of an output of this size, and what Grep went over."""
    told = f"{_bytes(read):,} of {size:,} bytes were read"
    if not patterns:
        return told
    listed = ", ".join(quoted(foreign(one)) for one in patterns[:_MAX_PATTERNS])
    more = f" and {len(patterns) - _MAX_PATTERNS} more" if len(patterns) > _MAX_PATTERNS else ""
    over = "all of it" if _bytes(scanned) >= size else f"{_bytes(scanned):,} bytes of it"
    return f"{told}; Grep went over {over} for {listed}{more}"


def _bytes(spans: Sequence[Span]) -> int:
    return sum(span.end - span.start for span in spans)


def nothing_found(searched: int, total: int, failed: Sequence[FailedChunk], there: Sequence[str]) -> str:
    """Not found is an answer: it says what was searched and what there is instead. First, what was not searched."""
    told = f"No content matching query found in tool output. Searched {searched:,} of {plural(total, 'chunk')}."
    if failed:
        others = f"{searched:,} of {plural(total, 'chunk')}"
        told = f"{not_searched(failed)} In the other {others} no content matching query was found."
    about = [line for line in dict.fromkeys(text.strip() for text in there) if line]
    if about:
        told += "\nWhat there is:\n" + "\n".join(f"- {one_line(line, _MAX_THERE)}" for line in about)
    return told


def nothing_found_by_search(
    calls: int, read: Sequence[Span], scanned: Sequence[Span], patterns: Sequence[str], size: int, there: str
) -> str:
    """The same for a model that searched with tools."""
    told = (
        f"No content matching query found in tool output. Searched with {plural(calls, 'call')} of Read and Grep; "
        f"{_looked(read, scanned, patterns, size)}."
    )
    return f"{told}\nWhat there is:\n- {one_line(there, _MAX_THERE)}" if there else told


def not_searched(failed: Sequence[FailedChunk]) -> str:
    listed = "; ".join(f"bytes {one.span.start}:{one.span.end} ({foreign(one.why)})" for one in failed[:_MAX_FAILED])
    more = f"; and {len(failed) - _MAX_FAILED} more" if len(failed) > _MAX_FAILED else ""
    return f"Not searched: {listed}{more}."


def why_of(fault: HoldallError) -> str:
    """Of a provider's words no more than of any others: a document can make a model or its server say anything."""
    said = str(fault)
    return foreign(said) if isinstance(fault, ModelFault) and fault.is_foreign else said


def no_summary_warning(why: str) -> str:
    return f"The findings of the chunks could not be summed up ({one_line(why.rstrip('.'))}); they follow one by one."


def overruled_warning(said: str) -> str:
    """The model that summed up has read no bytes: what those found that did is shown all the same."""
    words = f" and wrote {quoted(foreign(said))}" if said.strip() else ""
    return (
        f"The model that summed up found nothing relevant in the findings of the chunks{words}; they follow one by one."
    )


def cut_warning(chunks: Sequence[Span] = ()) -> str:
    """`chunks`: those that the model had more to say about; none where it is the whole answer that was cut off."""
    if not chunks:
        return "The model's answer was cut off at its output limit: its end is missing."
    listed = ", ".join(f"{one.start}:{one.end}" for one in chunks[:_MAX_FAILED])
    more = f" and {len(chunks) - _MAX_FAILED} more" if len(chunks) > _MAX_FAILED else ""
    about = plural(len(chunks), "chunk")
    return f"What the model found in {about} was cut off at its output limit: more may be in bytes {listed}{more}."


def fallback_warning(strategy: str, why: str, *, whole: bool = False) -> str:
    """`whole`: the output is so short that nothing of it is left out."""
    why = one_line(why.rstrip("."))
    follows = "the output itself" if whole else "only the beginning and the end of the output"
    return f"WARNING: {strategy} failed ({why}). What follows is {follows}."


def not_text(handle: str, kind: str) -> str:
    """Why no model could read it."""
    if kind in PACKED:
        return f"it is {kind} data, not text; what is packed in it has handles that begin with {handle}{MEMBER}"
    return "it is binary data, not text"


NOT_UTF8_WARNING = "The output is not all UTF-8: the model was given \ufffd for what is not."


def unusable_model(*, missing: bool) -> str:
    """Why no model could be asked. Its name and what is wrong with it are in the log: they are the host's affair."""
    return "no model is configured for extraction" if missing else "the model for extraction cannot be used"


def omitted_middle(omitted: int, start: int, end: int) -> str:
    return f"[… {omitted:,} bytes are left out here: bytes {start}:{end} …]"


def joined_ends(ends: Sequence[bytes], total: int) -> str:
    """Both ends of an output of `total` bytes with a mark between them that says what is missing; or all of it."""
    # One end of binary data often happens to be UTF-8: both are told alike.
    told = [_hexadecimal(end) if holds_nul(ends) else decode(end)[0] for end in ends]
    if len(ends) < 2:
        return "".join(told)
    start, end = len(ends[0]), total - len(ends[1])
    return f"{told[0]}\n{omitted_middle(end - start, start, end)}\n{told[1]}"


def own_answer(extraction: Extraction, frame: Frame) -> str:
    """The answer, then each quote with its byte range and whether it is verified."""
    reader = f"answer of {_named(extraction.model) or 'no model'}, which read it"
    head = [
        reader if extraction.strategy != "truncate" and extraction.source_bytes else "",  # of nothing, none is asked
        extraction.strategy,
        coverage(extraction),
        "" if extraction.found is not False else "nothing found in those" if extraction.failed else "nothing found",
        _confidence(extraction),
        "found before, from the cache" if extraction.cached else "",
    ]

    quotes = extraction.snippets
    parts = [extraction.warning, frame.around(head, extraction.answer, "")]
    parts += [_own_quote(snippet, frame) for snippet in quotes]
    parts += _after(extraction)
    if quotes and quotes[0].check != "none":
        span = quotes[0].span
        parts.append(frame.next("read", {"bytes": f"{max(0, span.start - 500)}:{span.end + 500}"}))
    return "\n".join(part for part in parts if part)


def s0_answer(extraction: Extraction, tool: str, frame: Frame) -> str:
    """S0 §2, to the letter: the header, an empty line, the abstract.

    In the abstract our own lines begin with `>` or `(`, and no line of the model's does. What is the output itself,
    and no answer about it, is inside a fence.
    """
    said = frame.fenced if extraction.strategy == "truncate" else model_text if extraction.found else model_text_below
    quotes = (f"{quote_lines(snippet.text)}\n  ({_where(snippet)})" for snippet in extraction.snippets)
    body = [said(extraction.answer), *quotes, *(f"({one})" for one in _after(extraction))]
    body.append(f"({coverage(extraction)}{_after_comma(_confidence(extraction))})")
    abstract = "\n".join(part for part in body if part)
    warning = f"{extraction.warning}\n\n" if extraction.warning else ""
    named = f"{foreign(tool) or 'UNKNOWN'} WITH HANDLE {frame.handle}, STRATEGY:{extraction.strategy}:"
    return f"ABSTRACT FROM TOOL OUTPUT {named}\n\n{warning}{abstract}"


def s3_answer(extraction: Extraction, handle: str = "") -> str:
    """S3's ExtractionResult as JSON. Of what is packed in an output it says under which id its ranges can be sliced."""
    packed = {"source_id": handle} if MEMBER in handle else {}
    return json.dumps(extraction.to_json() | packed, ensure_ascii=False)


def fitting(extraction: Extraction, tell: Callable[[Extraction], str], fits: Fits) -> tuple[str, Extraction]:
    """As much of it as fits, as `tell` words it, and what that is: quotes are left out first, from the end; then both
    ends of an output become shorter, or the answer does. What still does not fit cannot be told in less.
    """
    shown = extraction
    while not fits(text := tell(shown)):
        if shown.snippets:
            few = len(shown.snippets) // 2
            shown = replace(shown, snippets=extraction.snippets[:few], left_out=extraction.snippets[few:])
        elif (size := sum(map(len, shown.ends))) > _LEAST:
            top, bottom = shown.ends[0], shown.ends[-1]
            ends = beginning(top, size * 3 // 8).data, ending(bottom, size * 3 // 8).data
            shown = replace(shown, ends=ends, answer=joined_ends(ends, shown.source_bytes))
        elif len(shown.answer) > _LEAST and not shown.ends:
            answer = cut_note(extraction.answer, len(shown.answer.encode("utf-8", "replace")) // 2)
            if len(answer) >= len(shown.answer):  # the note about what is cut has a length of its own
                break
            shown = replace(shown, answer=answer)
        else:
            break
    return text, shown


def _hexadecimal(data: bytes) -> str:
    """Bytes that are no text are told in hexadecimal numbers, as `read` tells them."""
    return f"[not text; as hexadecimal bytes:]\n{data.hex(' ')}"


def _named(model: str) -> str:
    """Without the folder or the address that it is at: that is the host's affair."""
    form, _, rest = model.partition("@")[0].partition(":")
    return rest.rpartition("/")[2] if rest and form in ("gguf", "scripted") else model.partition("@")[0]


def _own_quote(snippet: Snippet, frame: Frame) -> str:
    return f"Quote, {_where(snippet)}:\n{frame.fenced(snippet.text)}"


def _where(snippet: Snippet) -> str:
    check = CHECKS[snippet.check]
    return check if snippet.check == "none" else f"bytes {snippet.span.start}:{snippet.span.end}, {check}"


def _after(extraction: Extraction) -> list[str]:
    parts: list[str] = []
    quotes = (*extraction.snippets, *extraction.left_out)
    if extraction.left_out:
        parts.append(f"{plural(len(extraction.left_out), 'more quote')} did not fit into this answer.")
    if extraction.unchecked:
        parts.append(f"{plural(extraction.unchecked, 'more quote')} of the model were not checked, and are left out.")
    if quotes and not any(one.verified for one in quotes):
        parts.append("None of the quotes stands in the output as it is: do not rely on this answer.")
    if extraction.found and not quotes:
        parts.append("The model quoted nothing from the output: nothing here proves this answer.")
    if extraction.failed and extraction.found:  # where none was read, the warning says it
        parts.append(not_searched(extraction.failed))
    return parts


def _confidence(extraction: Extraction) -> str:
    return "" if extraction.confidence is None else f"the model's confidence: {extraction.confidence:g}"


def _after_comma(text: str) -> str:
    return f"; {text}" if text else ""
