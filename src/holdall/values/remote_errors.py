"""Faults of what is outside: language models and MCP servers. Each says who failed, and what it said."""

from holdall.values.errors import StoreFault
from holdall.values.words import flat


class ModelFault(StoreFault):
    """The message says what the provider said, in one line."""


class ModelBusy(ModelFault):
    """`retry_after` is in seconds, where the provider named it."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class ModelOverflow(ModelFault):
    """The request is longer than the model can take."""


class UpstreamFault(StoreFault):
    """`said` is the end of what the server wrote beside its messages, on one line and without its secrets."""

    def __init__(self, server: str, what: str, *, way_out: str = "", said: str = "") -> None:
        self.server = server
        self.what = what
        self.said = said
        words = f' It last wrote: "{said}".' if said else ""
        super().__init__(f'MCP server "{flat(server[:100])}" {what}.{words}{" " + way_out if way_out else ""}')


class UpstreamOverdue(UpstreamFault):
    """It was told that nobody waits any longer; what it has done until then is not known."""


class UpstreamRefused(UpstreamFault):
    """`code`, `reason` and `data` are as the server sent them; the message shows the beginning of the reason."""

    def __init__(self, server: str, what: str, *, code: int, reason: str, data: object = None) -> None:
        self.code = code
        self.reason = reason
        self.data = data
        super().__init__(server, what)


class TooLongForModel(ModelOverflow):
    """Recovery did not make the conversation fit."""

    def __init__(self, rounds: int, said: str) -> None:
        super().__init__(
            f"the conversation is too long for the model, and {rounds} rounds of recovery did not make it fit: {said}. "
            "Nothing is lost: use a model with a larger window, and resume the session."
        )
