"""Every byte of an output into the store, whatever its form; cancelled or not, what has come is kept."""

import asyncio
from collections.abc import AsyncIterable, Callable, Sequence
from typing import cast

from holdall.bag.core import Core
from holdall.store.protocol import Progress
from holdall.store.sources import Pump, Source
from holdall.values.outputs import Facts, Origin


async def keep(
    core: Core,
    output: object,
    origin: Origin,
    *,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
    then: Callable[[Facts], object] | None = None,
) -> Facts:
    """On return it is durable and has a handle. `then` gets its facts in the thread that stored it."""
    core.check_open()
    pump: Pump | None = None
    if isinstance(output, AsyncIterable):
        pump = Pump(cast("AsyncIterable[object]", output), asyncio.get_running_loop())
        output = iter(pump)
    source = Source(output)

    def store() -> Facts:
        facts = core.store.put(core.session, source, origin, notes=lambda: (*notes, *source.notes), progress=progress)
        if then is not None:
            then(facts)
        return facts

    work = asyncio.ensure_future(asyncio.to_thread(store))
    try:
        facts = await asyncio.shield(work)
    except asyncio.CancelledError:
        # What has come is kept before the cancellation goes on: it may be all there will ever be.
        if pump is not None:
            pump.stop()
        await asyncio.wait([work])
        raise
    core.kept[facts.handle] = facts
    return facts
