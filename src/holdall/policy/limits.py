"""How much of an output may stand in the context as it is. All numbers have one home: here, by dialect."""

from dataclasses import dataclass

from holdall.values.settings import Settings, ToolPolicy


@dataclass(frozen=True, slots=True)
class Limits:
    """None means that this number does not decide. An output exactly at a limit fits."""

    bytes: int | None = None
    chars: int | None = None
    lines: int | None = None
    tokens: int | None = None


BY_DIALECT: dict[str, Limits] = {
    "holdall": Limits(bytes=50 * 1024, lines=2000, tokens=10_000),
    "extract": Limits(bytes=12 * 1024),
    "refs": Limits(bytes=16 * 1024, chars=4000),
    "async": Limits(tokens=10_000),
    "clamp": Limits(bytes=50 * 1024, lines=2000),
    "legacy": Limits(bytes=12 * 1024),
}


def limits_of(settings: Settings, base: Limits | None = None, policy: ToolPolicy | None = None) -> Limits:
    """The dialect's limits, each replaced by the setting that names another, and that by the tool's own."""
    base = base or BY_DIALECT[settings.dialect]
    own = policy or ToolPolicy()
    return Limits(
        bytes=own.max_inline_bytes or settings.max_inline_bytes or base.bytes,
        chars=own.max_inline_chars or settings.max_inline_chars or base.chars,
        lines=own.max_inline_lines or settings.max_inline_lines or base.lines,
        tokens=own.max_inline_tokens or settings.max_inline_tokens or base.tokens,
    )
