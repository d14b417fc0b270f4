"""The model of an MCP client that supports sampling. No key is needed.

The protocol is not known here: `create_message` carries plain values over and brings plain values back. Such a client
calls no tools, follows no schema and counts no tokens, so tokens are estimated and have no price. Whether it may be
called is the client's to decide, and its user's; the switch for real models does not reach it.
"""

from typing import Literal, Protocol

from holdall.llm.catalogue import DEFAULT_WINDOW
from holdall.llm.protocol import Request, check_request, estimated_tokens, in_one_line, reply_limit
from holdall.values.chat import Assistant, Message, Reply, System, ToolResult, Usage, User
from holdall.values.errors import ModelBusy, ModelFault
from holdall.values.record import record
from holdall.wire.actions import as_plain_messages

Role = Literal["user", "assistant"]
_LENGTH = ("maxTokens", "max_tokens", "length")
_REFUSED = ("refusal", "content_filter")
_MAX_OUTPUT = 4_096


@record
class Sampled:
    """What the client brought: the text, why it stopped in the client's words, and the model that it chose."""

    text: str
    stop_reason: str | None = None
    model: str = ""


class CreateMessage(Protocol):
    async def __call__(self, messages: list[tuple[Role, str]], *, system: str, max_tokens: int) -> Sampled:
        """May raise anything: time-outs and lost connections are retried, other errors are not."""
        ...


class SampledModel:
    calls_tools = False
    keeps_schema = False
    price = None

    def __init__(
        self,
        create_message: CreateMessage,
        *,
        name: str = "sampling",
        window: int = DEFAULT_WINDOW,
        max_output: int = _MAX_OUTPUT,
    ) -> None:
        """No client tells the size of its model's window: the default is what any current model has."""
        self.name = name
        self.window = window
        self.max_output = max_output
        self._create_message = create_message

    async def ask(self, request: Request) -> Reply:
        check_request(self, request)
        plain = as_plain_messages(request.messages)
        system = "\n\n".join(message.text for message in plain if isinstance(message, System))
        turns = [_turn(message) for message in plain if not isinstance(message, System)]
        try:
            sampled = await self._create_message(turns, system=system, max_tokens=reply_limit(self, request))
        except ModelFault:
            raise
        except (TimeoutError, ConnectionError) as lost:
            raise ModelBusy(f"the client did not sample: {in_one_line(str(lost)) or 'it took too long'}") from lost
        except Exception as refused:  # whatever a client's library raises
            raise ModelFault(
                f"the client did not sample: {in_one_line(str(refused)) or type(refused).__name__}"
            ) from refused
        read = estimated_tokens(system) + sum(estimated_tokens(text) for _, text in turns)
        return Reply(
            sampled.text,
            usage=Usage(read, estimated_tokens(sampled.text)),
            stop="length"
            if sampled.stop_reason in _LENGTH
            else "refused"
            if sampled.stop_reason in _REFUSED
            else "end",
            model=sampled.model or self.name,
        )

    async def close(self) -> None:
        """The connection is the client's."""


def _turn(message: Message) -> tuple[Role, str]:
    match message:
        case Assistant(text):
            return "assistant", text
        case User(text) | ToolResult(text=text) | System(text):
            return "user", text
