"""What notices are built from: of one output, read once while it is open; of the session, what can be fetched."""

from collections.abc import Collection, Sequence
from functools import partial

from holdall.bag.core import Core
from holdall.store.ids import new_tag
from holdall.store.protocol import OutputReader
from holdall.values.errors import StoreFault
from holdall.values.outputs import Facts
from holdall.verbs.glimpse import glimpse, with_paragraphs
from holdall.wire.answers import StillRunning, line_of
from holdall.wire.dialect import View
from holdall.wire.system_notice import FailedTool, ReadyTool, RunningTool, Work

_MOST_LISTED = 20


async def view_of(core: Core, facts: Facts, room: int | None = None) -> View:
    """`room` is what the notice may take, where that is less than notices may take anyway."""
    return await core.on(facts.handle, partial(_look, core, room))


def view_at_once(core: Core, facts: Facts, room: int | None) -> View | None:
    """The same in this thread, of what was kept a moment ago; None where that failed: whoever asks again hears why."""
    try:
        return core.at(facts.handle, partial(_look, core, room), facts)
    except (StoreFault, OSError):
        return None


def _look(core: Core, room: int | None, reader: OutputReader) -> View:
    most = core.settings.notice_max_tokens
    view = glimpse(
        reader,
        new_tag,
        outlined=core.dialect.outlined,
        tokenizer=core.tokenizer,
        most_tokens=most if room is None else min(most, room),
        long_handle=core.dialect.long_handles,
        extracts=core.models.configured,
    )
    return with_paragraphs(reader, view, new_tag) if core.dialect.paragraphs else view


def work_of(core: Core, running: Sequence[StillRunning], went_on: Collection[str], *, listed: bool) -> Work:
    """In the dialect of S3 all that is kept is ready to be retrieved; in ours what went to the background is.

    `listed` lists what is kept, too.
    """
    newest = list(core.kept.values())[-_MOST_LISTED:]
    ended = [one for one in newest if one.state not in ("running", "queued")]
    told = ended if core.dialect.name == "async" else [one for one in ended if one.handle in went_on]
    return Work(
        running=[RunningTool(one.tool, one.handle, one.seconds) for one in running if not one.queued],
        queued=[RunningTool(one.tool, one.handle, one.seconds) for one in running if one.queued],
        ready=[_ready(core, facts) for facts in told if facts.is_whole],
        failed=[_failed(core, facts) for facts in told if not facts.is_whole],
        kept=[line_of(facts, core.handle_of(facts)) for facts in newest] if listed else [],
    )


def _failed(core: Core, facts: Facts) -> FailedTool:
    return FailedTool(facts.origin.tool, core.handle_of(facts), facts.error or facts.state)


def _ready(core: Core, facts: Facts) -> ReadyTool:
    limit = core.limits_for(facts.origin.tool).tokens
    exceeds = limit is not None and facts.measure.tokens > limit
    retrievals = core.journal.coverage(facts.handle).retrievals
    return ReadyTool(facts.origin.tool, core.handle_of(facts), facts.measure.tokens, exceeds, retrievals)
