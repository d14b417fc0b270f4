"""The client's own model, for questions about kept outputs: a client that lets servers sample needs no key of ours."""

from typing import Any

from holdall.gateway.client import Client
from holdall.gateway.messages import entries, table
from holdall.llm.sampling import Role, Sampled, SampledModel

_METHOD = "sampling/createMessage"


def model_of(client: Client) -> SampledModel:
    async def create_message(messages: list[tuple[Role, str]], *, system: str, max_tokens: int) -> Sampled:
        params: dict[str, Any] = {
            "messages": [{"role": role, "content": {"type": "text", "text": text}} for role, text in messages],
            "maxTokens": max_tokens,
        }
        result = await client.ask(_METHOD, params | ({"systemPrompt": system} if system else {}))
        stopped, model = result.get("stopReason"), result.get("model")
        return Sampled(_text(result.get("content")), stopped if isinstance(stopped, str) else None, str(model or ""))

    return SampledModel(create_message)


def _text(content: object) -> str:
    blocks = entries(content) or [content]
    return "\n".join(text for block in blocks if isinstance(text := table(block).get("text"), str))
