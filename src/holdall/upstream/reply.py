"""What a server answered: the exact result for whoever passes it on, and the SDK's types for whoever reads it."""

from dataclasses import dataclass
from typing import Any

from holdall.upstream.sdk import types
from holdall.values.errors import UpstreamFault


@dataclass(frozen=True, slots=True)
class Reply:
    """`result` is the JSON that came: with unknown fields, in its order, not checked against any schema.

    Texts in it may hold lone surrogates, where a server cut through a character or sent bytes that are no UTF-8.
    """

    server: str
    method: str
    revision: str
    result: dict[str, Any]

    def typed(self) -> "types.CallToolResult | types.InputRequiredResult":
        """The result of `tools/call` as the SDK has it. Raises UpstreamFault where it is none."""
        wanted = self.result.get("resultType") == "input_required"
        kind = types.InputRequiredResult if wanted else types.CallToolResult
        try:
            return kind.model_validate(self.result, by_name=False)
        except ValueError as problem:
            raise UpstreamFault(
                self.server,
                "gave a result that is not of the form which MCP describes",
                way_out="Report it to whoever wrote that server.",
            ) from problem
