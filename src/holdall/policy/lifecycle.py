"""The life of a call: everything that can change its state is in TRANSITIONS below.

This module never starts, awaits or cancels anything; `background` does.
"""

from typing import Literal, get_args

from holdall.values.errors import WrongUse

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


class IllegalStep(WrongUse):
    """Nothing was changed."""

    def __init__(self, state: CallState, step: Step) -> None:
        self.state = state
        self.step = step
        super().__init__(f"a call that is {state} cannot have {step}.")


def after(state: CallState, step: Step) -> CallState:
    """The state that follows. Raises IllegalStep where there is none."""
    try:
        return TRANSITIONS[state][step]
    except KeyError:
        raise IllegalStep(state, step) from None


def has_ended(state: CallState) -> bool:
    return not TRANSITIONS[state]


def diagram() -> str:
    """The table as a Mermaid diagram, for the documentation."""
    names: dict[CallState, str] = {state: state.replace(" ", "_") for state in STATES}
    lines = ["stateDiagram-v2", "    [*] --> queued: dispatched", "    [*] --> running: dispatched, a slot is free"]
    for state, steps in TRANSITIONS.items():
        lines += [f"    {names[state]} --> {names[following]}: {step}" for step, following in steps.items()]
        lines += [f"    {names[state]} --> [*]"] if not steps else []
    return "\n".join(lines)
