"""What a notice is built from, read once from the open output."""

from holdall.bag.core import Core
from holdall.store.ids import new_tag
from holdall.values.facts import Facts
from holdall.verbs.glimpse import glimpse
from holdall.wire.view import View


async def view_of(core: Core, facts: Facts, room: int | None = None) -> View:
    """`room` is what the notice may take, where that is less than notices may take anyway."""
    most = core.settings.notice_max_tokens
    return await core.on(
        facts.handle,
        lambda reader: glimpse(
            reader,
            new_tag,
            outlined=core.dialect.outlined,
            tokenizer=core.tokenizer,
            most_tokens=most if room is None else min(most, room),
            long_handle=core.dialect.long_handles,
            paragraphs=core.dialect.paragraphs,
        ),
    )
