"""When a model may be called again (S3 decision 22, as SPEC 9 reads it). A pure rule over calls and responses."""

from collections.abc import Collection, Mapping
from typing import Literal

Response = Literal["output", "size notice", "failure", "retrieval", "running notice", "queued notice"]

# A running or queued notice satisfies the provider, but tells the model nothing that it could go on with.
NOT_NEW: frozenset[Response] = frozenset(("running notice", "queued notice"))


def may_run(calls: Collection[str], responses: Mapping[str, Response], seen: Collection[str]) -> bool:
    """Whether every call has a response, and one of them is new.

    `calls` are the ids of the model's tool calls, `seen` the ids whose response it has had. Without calls there is
    nothing to wait for: whoever starts a conversation, or was told something by a person, calls the model by itself.
    """
    if any(call not in responses for call in calls):
        return False
    return any(kind not in NOT_NEW and call not in seen for call, kind in responses.items())
