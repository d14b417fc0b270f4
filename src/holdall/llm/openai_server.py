"""A server of the user's own that speaks OpenAI's chat API. Only `llm.providers` imports this."""

import os
from typing import Any

from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from holdall.llm.model_names import MODEL_KEY
from holdall.values.errors import NoSuchModel

# The limit of a reply under the name that every such server knows; OpenAI's newer one is ignored by some.
_MAX_TOKENS_PROFILE = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)


def model_at(known_as: str, url: str) -> Model[Any]:
    """`known_as` is `openai:NAME`. No key but its own goes there: this provider reads no OPENAI_API_KEY."""
    provider, _, model = known_as.partition(":")
    if provider != "openai" or not model:
        raise NoSuchModel(
            f"{known_as}@{url}: a server of your own is named openai:NAME@URL; it speaks OpenAI's chat API."
        )
    key = os.environ.get(MODEL_KEY)
    server = OpenAICompatibleProvider("own-server", base_url=url, api_key=key, profile=_MAX_TOKENS_PROFILE)
    return OpenAIChatModel(model, provider=server)
