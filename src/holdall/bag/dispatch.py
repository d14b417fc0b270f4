"""How another tool is dispatched: its references are replaced first, and whatever it raises is its outcome."""

from collections.abc import Mapping
from typing import Any

from holdall.bag import references
from holdall.bag.calling import Calling
from holdall.bag.calls import outcome_of
from holdall.bag.references import Passed
from holdall.values.errors import HoldallError
from holdall.values.facts import Origin


class Dispatching(Calling):
    async def outcome_of(self, call: object, origin: Origin, schema: Mapping[str, Any] | None) -> object:
        """What a call gives. A reference that cannot be put in its place is an outcome too: the call is not made."""
        try:
            arguments = await references.resolve(self, origin.arguments, origin.tool, schema)
        except HoldallError as problem:
            return problem
        return await outcome_of(call, arguments)

    async def passed_by_reference(self, arguments: object, *, tool: str = "") -> tuple[Passed, ...]:
        """For whoever approves a call: handle, size and hash of what its references would bring in."""
        return await references.preview(self, arguments, tool)
