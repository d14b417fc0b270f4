"""A server of the user's own that speaks OpenAI's chat API. Only `llm.providers` imports this."""

import os
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from holdall.llm.model_names import MODEL_KEY
from holdall.values.errors import NoSuchModel

# The limit of a reply under the name that every such server knows; OpenAI's newer one is ignored by some.
_MAX_TOKENS_PROFILE = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)


class _PlainClient(AsyncOpenAI):
    """Without the headers that OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS bring: they are meant for
    OpenAI, or for a proxy before it, and this is another server.
    """

    @property
    def default_headers(self) -> dict[str, Any]:
        left_out = {"openai-organization", "openai-project", *map(str.lower, self._custom_headers)}
        kept = {name: value for name, value in super().default_headers.items() if name.lower() not in left_out}
        return {**kept, "Authorization": f"Bearer {self.api_key}"}


def model_at(known_as: str, url: str) -> Model[Any]:
    """`known_as` is `openai:NAME`. No key but its own goes there, nor anything else that is meant for OpenAI."""
    provider, _, model = known_as.partition(":")
    if provider != "openai" or not model:
        raise NoSuchModel(
            f"{known_as}@{url}: a server of your own is named openai:NAME@URL; it speaks OpenAI's chat API."
        )
    key = os.environ.get(MODEL_KEY)
    server = OpenAICompatibleProvider("own-server", base_url=url, api_key=key, profile=_MAX_TOKENS_PROFILE)
    server.client.__class__ = _PlainClient  # made and closed by the provider, which takes no class
    return OpenAIChatModel(model, provider=server)
