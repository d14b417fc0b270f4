"""What notices are built from: of one output, read once while it is open; of the session, what can be fetched."""

from holdall.bag.core import Core
from holdall.store.ids import new_tag
from holdall.store.protocol import OutputReader
from holdall.values.facts import Facts
from holdall.verbs.glimpse import glimpse
from holdall.verbs.paragraphs import with_paragraphs
from holdall.wire.answers import line_of
from holdall.wire.system_notice import ReadyTool, Work
from holdall.wire.view import View

_MOST_LISTED = 20


async def view_of(core: Core, facts: Facts, room: int | None = None) -> View:
    """`room` is what the notice may take, where that is less than notices may take anyway."""
    most = core.settings.notice_max_tokens

    def look(reader: OutputReader) -> View:
        view = glimpse(
            reader,
            new_tag,
            outlined=core.dialect.outlined,
            tokenizer=core.tokenizer,
            most_tokens=most if room is None else min(most, room),
            long_handle=core.dialect.long_handles,
        )
        return with_paragraphs(reader, view, new_tag) if core.dialect.paragraphs else view

    return await core.on(facts.handle, look)


def work_of(core: Core, *, listed: bool) -> Work:
    """In the dialect of S3 all that is kept is ready to be retrieved; in ours it is listed where that is asked for."""
    newest = list(core.kept.values())[-_MOST_LISTED:]
    ready = [_ready(core, facts) for facts in newest] if core.dialect.name == "async" else []
    return Work(ready=ready, kept=[line_of(facts, core.handle_of(facts)) for facts in newest] if listed else [])


def _ready(core: Core, facts: Facts) -> ReadyTool:
    limit = core.limits_for(facts.origin.tool).tokens
    exceeds = limit is not None and facts.measure.tokens > limit
    retrievals = core.journal.coverage(facts.handle).retrievals
    return ReadyTool(facts.origin.tool, core.handle_of(facts), facts.measure.tokens, exceeds, retrievals)
