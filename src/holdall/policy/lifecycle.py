"""The life of a slow call, and when a model may be called again.

Everything that can change the state of a call is in TRANSITIONS below. This module never starts, awaits or cancels
anything; `background` does.
"""

from collections.abc import Collection, Mapping
from typing import Literal, get_args

from holdall.values.errors import UsageError

# When a model may be called again (S3 decision 22, as SPEC 9 reads it). A pure rule over calls and responses.


Response = Literal["output", "size notice", "failure", "retrieval", "running notice", "queued notice"]

# A running or queued notice satisfies the provider, but tells the model nothing that it could continue with.
NOT_NEW: frozenset[Response] = frozenset(("running notice", "queued notice"))


def may_run(calls: Collection[str], responses: Mapping[str, Response], seen: Collection[str]) -> bool:
    """Whether every call has a response, and one of them is new.

    `calls` are the ids of the model's tool calls, `seen` the ids whose response it has had. Without calls there is
    nothing to wait for: the caller starts the conversation.
    """
    if any(call not in responses for call in calls):
        return False
    return any(kind not in NOT_NEW and call not in seen for call, kind in responses.items())


# The life of a call: everything that can change its state is in TRANSITIONS below.


CallState = Literal["queued", "running", "ready", "failed", "cancelled", "timed out", "interrupted"]
Step = Literal["started", "finished", "raised", "aborted", "overdue", "lost"]
STATES: tuple[CallState, ...] = get_args(CallState)
STEPS: tuple[Step, ...] = get_args(Step)

# A call that has ended stays as it ended. Its clock runs from its dispatch, so it may be overdue in the queue.
TRANSITIONS: dict[CallState, dict[Step, CallState]] = {
    "queued": {"started": "running", "aborted": "cancelled", "overdue": "timed out", "lost": "interrupted"},
    "running": {
        "finished": "ready", "raised": "failed", "aborted": "cancelled", "overdue": "timed out", "lost": "interrupted",
    },
    "ready": {},
    "failed": {},
    "cancelled": {},
    "timed out": {},
    "interrupted": {},
}  # fmt: skip


class IllegalStep(UsageError):
    """Nothing was changed."""

    def __init__(self, state: CallState, step: Step) -> None:
        self.state = state
        self.step = step
        super().__init__(f"a call that is {state} cannot have {step}.")


def after(state: CallState, step: Step) -> CallState:
    """The state that follows. Raises IllegalStep if there is none."""
    try:
        return TRANSITIONS[state][step]
    except KeyError:
        raise IllegalStep(state, step) from None


def has_ended(state: CallState) -> bool:
    return not TRANSITIONS[state]


def diagram() -> str:
    """The table as a Mermaid diagram, for the documentation."""
    names: dict[CallState, str] = {state: state.replace(" ", "_") for state in STATES}
    lines = ["stateDiagram-v2", *(f'    state "{state}" as {name}' for state, name in names.items() if state != name)]
    lines += ["    [*] --> queued: dispatched", "    [*] --> running: dispatched, a slot is free"]
    for state, steps in TRANSITIONS.items():
        lines += [f"    {names[state]} --> {names[following]}: {step}" for step, following in steps.items()]
        lines += [f"    {names[state]} --> [*]"] if not steps else []
    return "\n".join(lines)
