"""What a conversation takes of the model's window: counted once, message by message."""

from hypothesis import given
from hypothesis import strategies as st

from holdall.guard.budget import Budget, PrefixSum
from holdall.values.chat import Assistant, Message, ToolCall, ToolResult, User
from holdall.wire.agent_texts import FINAL_REPORT, TASK_STATUS
from tests.requirements import requirement

_MESSAGES = st.lists(
    st.builds(User, st.text(max_size=30))
    | st.builds(Assistant, st.text(max_size=30), st.just((ToolCall("a", "fetch", {"n": 1}),)))
    | st.builds(ToolResult, st.just("a"), st.just("fetch"), st.text(max_size=30)),
    max_size=20,
)


@requirement("budget:scales-with-window")
def test_what_is_left_is_the_window_less_the_reply_and_what_is_there() -> None:
    budget = Budget(10_000, 1000, len)
    assert budget.left([]) == 9000
    assert budget.left([User("x" * 94)]) == 8900
    assert budget.used([], (FINAL_REPORT,)) < budget.used([], (FINAL_REPORT, TASK_STATUS))
    assert Budget(20_000, 1000, len).left([]) == 19_000


def test_each_message_is_priced_once_however_long_the_conversation() -> None:
    priced: list[Message] = []

    def price(message: Message) -> int:
        priced.append(message)
        return 1

    total = PrefixSum(price)
    messages: list[Message] = []
    for turn in range(100):
        messages += [Assistant("a"), User(f"{turn}")]
        assert total.of(messages) == len(messages)
    assert len(priced) == 200


@given(_MESSAGES, _MESSAGES)
def test_the_sum_is_that_of_the_messages_whatever_became_of_them(before: list[Message], after: list[Message]) -> None:
    budget, fresh = Budget(1000, 10, len), Budget(1000, 10, len)
    budget.used(before)
    grown = [*before, *after]
    assert budget.used(grown) == Budget(1000, 10, len).used(grown)
    budget.forget()
    assert budget.used(after) == fresh.used(after)
