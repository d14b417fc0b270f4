"""The dialects without tools: `clamp` (S4) shows the beginning, `legacy` (S3, S0 d.25) the two ends.

`clamp` keeps the whole and says its handle after the suffix. `legacy` is for when Holdall is switched off: it keeps
nothing, and its marker counts what is gone. Their texts bear no mark of the session: without tools and instructions
there is nothing that a false one could lead to.
"""

from holdall.policy.decide import Limits
from holdall.wire.clamp import clamp_result, fitted, suffix_for
from holdall.wire.dialect import Cut, Dialect, View, no_call
from holdall.wire.legacy import Truncation, all_gone
from holdall.wire.results import take_apart

_LEAST = 256  # bytes that are shown, however few tokens there is room for


def clamped(cut: Cut) -> object:
    """The beginning and S4's suffix. Where only the number of tokens is over, what can be shown is still bounded.

    Where the limit is shorter than what has to be said, that is said and nothing is shown.
    """
    gone = "" if cut.handle else cut.why or "nothing is stored"
    if gone and cut.total_bytes is not None:
        gone = f"{gone.removesuffix('.')}; there were {cut.total_bytes:,} bytes in all"
    over = cut.over
    suffix = suffix_for(
        over.bytes, over.lines, max_chars=over.chars, max_tokens=over.tokens, room=cut.room, handle=cut.handle,
        in_part=cut.in_part, gone=gone,
    )  # fmt: skip
    shown = clamp_result(cut.result, cut.limits, suffix=suffix, tag=cut.tag)
    parts = take_apart(shown)
    if parts is None:
        return shown
    if cut.incomplete and shown is cut.result:
        return parts.with_text((parts.text or "") + suffix)
    said = suffix.strip().rpartition("\n")[2]
    return parts.with_text(suffix.strip()) if shown is not cut.result and said not in (parts.text or "") else shown


def _truncated(cut: Cut) -> object:
    parts = take_apart(cut.result)
    if parts is None or not isinstance(parts.text, str):
        return cut.result
    text = Truncation(parts.text, cut.limits.lines)
    most, tokens_over = text.bytes if cut.limits.bytes is None else cut.limits.bytes, cut.tokens_over
    if tokens_over is None:
        made = text.to(most)
    else:  # without its spaces JSON has other tokens, so its beginning does not tell how many bytes fit
        most = min(text.bytes - 1, *(limit for limit in (cut.over.bytes, cut.over.chars) if limit is not None))
        made = fitted(most, least=_LEAST, make=text.to, over=lambda made: tokens_over(made.text))[1]
    says = not made.is_cut or "truncated …]" in made.text
    return parts.with_text(made.text if says else all_gone(parts.text))


def _nothing(view: View) -> str:
    return f"The output is kept; handle: {view.handle}"


CLAMP = Dialect(
    name="clamp",
    limits=Limits(bytes=50 * 1024, lines=2000),
    notice=_nothing,
    shorten=clamped,
    counts_room=False,
    go_on=no_call,
)

LEGACY = Dialect(
    name="legacy",
    limits=Limits(bytes=12 * 1024),
    notice=_nothing,
    shorten=_truncated,
    stores=False,
    go_on=no_call,
)
