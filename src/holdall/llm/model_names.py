"""From the name of a model to the model. What an implementation needs is imported when its name is asked for.

    provider:model          openai:gpt-5, anthropic:claude-sonnet-4-5, whatever pydantic-ai knows; also provider/model
    openai:NAME@URL         a server that speaks OpenAI's chat API
    gguf:PATH               a file on this machine
    scripted:FILE           replies from a file

Options follow a question mark: `gguf:PATH?context=4096&threads=4`, `openai:NAME@URL?window=8192&tools=no`.
"""

import difflib
import importlib
import importlib.util
import logging
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from holdall.llm.catalogue import Price
from holdall.llm.protocol import Model
from holdall.text.escape import without_passwords
from holdall.values.errors import MissingExtra, NoSuchModel
from holdall.values.patterns import lazy_pattern

FORMS = (
    "A model is named provider:model (as openai:gpt-5), openai:NAME@URL (a server that speaks OpenAI's chat API), "
    "gguf:PATH (a file on this machine) or scripted:FILE (replies from a file)."
)
MODEL_KEY = "HOLDALL_MODEL_KEY"  # the variable with the key for openai:NAME@URL
_OURS = ("gguf", "scripted")
_OPTIONS = lazy_pattern(r"\?(\w+=[^&?=]*(?:&\w+=[^&?=]*)*)\Z")
_SLASHED = lazy_pattern(r"(?!gateway/)(?P<form>[A-Za-z][\w.-]*)/(?P<rest>.+)", re.ASCII)
VARIABLES = {
    **dict.fromkeys(("openai", "openai-chat", "openai-responses"), ("OPENAI_API_KEY", "OPENAI_BASE_URL")),
    "anthropic": ("ANTHROPIC_API_KEY",), "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",), "cohere": ("CO_API_KEY",), "deepseek": ("DEEPSEEK_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",), "xai": ("XAI_API_KEY",), "cerebras": ("CEREBRAS_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",), "together": ("TOGETHER_API_KEY",), "huggingface": ("HF_TOKEN",),
    "moonshotai": ("MOONSHOTAI_API_KEY",), "zai": ("ZAI_API_KEY",),
}  # fmt: skip
"""Where the providers that most people use have their key: looked at when a session is opened, without a library."""
_YES_NO = {"yes": True, "no": False}
_LONGEST_SHOWN = 200


def model_named(
    name: str, *, window: int | None = None, max_output: int | None = None, price: Price | None = None
) -> Model:
    """Raises NoSuchModel, which says what there is; MissingExtra, which says what to install.

    What is given here goes before what the name's options and the catalogue say.
    """
    form, rest = _form_of(name)
    file, (rest, options) = file_of(name), _split(rest)
    given = {"window": window, "max_output": max_output, "price": price}
    match form:
        case "scripted":
            return importlib.import_module("holdall.llm.scripted").scripted_from(
                file, **_read(name, options, given, {})
            )
        case "gguf":
            read = _read(name, options, given, {"context": int, "threads": int})
            read.pop("price", None)  # it costs nothing
            if (asked := read.pop("window", None)) is not None:
                read["context"] = asked
            return importlib.import_module("holdall.llm.gguf").GgufModel(file, **read)
        case _:
            return _of_provider(name, form, rest, _read(name, options, given, {"tools": _yes_no, "schema": _yes_no}))


def file_of(name: str) -> Path | None:
    """The file that a name means, if it means one: what the user is asked about has to be what is opened."""
    form, _, rest = name.partition(":")
    return Path(os.path.expanduser(_split(rest)[0])) if form in _OURS else None


def check_name(name: str) -> None:
    """Raises NoSuchModel for a name that no key, package or file could make one.

    A library is loaded only for a provider that few people use, or that there is not.
    """
    form, rest = _form_of(name)
    if form not in (*_OURS, *VARIABLES) and importlib.util.find_spec("pydantic_ai") is not None:
        _check_provider(name, form, rest)


def problem_with(name: str) -> str:
    """What is wrong with a name: its form, its provider, a file or a key that is not there; empty if nothing is.

    It asks no server. A library is loaded only for a provider that few people use, or that there is not.
    """
    try:
        form, rest = _form_of(name)
        if (path := file_of(name)) is not None:
            return "" if path.is_file() else f"there is no file {path}"
        if importlib.util.find_spec("pydantic_ai") is None or form not in VARIABLES:
            _check_provider(name, form, rest)
    except (NoSuchModel, MissingExtra) as problem:
        return str(problem)
    variables = () if url_of(name) else VARIABLES.get(form, ())
    return f"{variables[0]} is not set" if variables and not any(map(os.environ.get, variables)) else ""


def warn_of(name: str) -> None:
    """Log what is wrong with the name of a model for extraction, when a session is opened."""
    if problem := problem_with(name):
        told = "extraction_model %s cannot be used (%s): a question about an output gets both its ends"
        logging.getLogger("holdall").warning(told, _shown(name), problem)


def _form_of(name: str) -> tuple[str, str]:
    """`anthropic/NAME` is `anthropic:NAME`. A file is named with a colon only: one in a checkout is found by that."""
    form, _, rest = name.partition(":")
    if slashed := _SLASHED.fullmatch(name):
        form, rest = slashed["form"], slashed["rest"]
    is_file = slashed is not None and (form in _OURS or name.lower().endswith(".gguf"))
    if not form or not rest or not name.isprintable() or is_file:
        raise NoSuchModel(_unknown(name))
    return form, rest


def url_of(name: str) -> str:
    """Of openai:NAME@URL; empty if the name has none. Some names have an @ of their own."""
    at = max(name.find("@http://"), name.find("@https://"))
    return _split(name[at + 1 :])[0] if at >= 0 else ""


def _check_provider(name: str, form: str, rest: str) -> Any:
    """The module of providers, if this is one of them."""
    if near := difflib.get_close_matches(form, _OURS, n=1, cutoff=0.75):
        raise NoSuchModel(f'{_unknown(name)} Did you mean "{near[0]}:{rest}"?')
    providers: Any = importlib.import_module("holdall.llm.providers")
    if not providers.is_known(form):
        told = _unknown(name, near=providers.known_providers(), rest=rest)
        raise NoSuchModel(told if told.endswith("?") else f"{told} Providers: {', '.join(VARIABLES)}, and more.")
    return providers


def _of_provider(name: str, form: str, rest: str, options: dict[str, Any]) -> Model:
    providers = _check_provider(name, form, rest)
    url = url_of(name)
    if "//" in rest.removesuffix(f"@{url}") or "\\" in rest:
        # Some providers take a URL for a name, and send their key to it: nobody would have been asked about that.
        raise NoSuchModel(f"{_shown(name)}: the name of a model is no URL. A server is named openai:NAME@URL.")
    for told, meant in (("tools", "calls_tools"), ("schema", "keeps_schema")):
        if told in options:
            options[meant] = options.pop(told)
    model: Model = providers.ProviderModel(f"{form}:{rest}", **options)
    return model


def _split(rest: str) -> tuple[str, dict[str, str]]:
    found = _OPTIONS.search(rest)
    if found is None:
        return rest, {}
    return rest[: found.start()], dict(pair.split("=", 1) for pair in found[1].split("&"))


def _read(
    name: str, options: dict[str, str], given: dict[str, Any], own: dict[str, Callable[[str], Any]]
) -> dict[str, Any]:
    readers: dict[str, Callable[[str], Any]] = {"window": int, "max_output": int, **own}
    read: dict[str, Any] = {}
    for key, value in options.items():
        if key not in readers:
            raise NoSuchModel(f'{_shown(name)}: there is no option "{key}" here. Options: {", ".join(readers)}.')
        try:
            read[key] = readers[key](value)
        except ValueError:
            kind = "a number" if readers[key] is int else "yes or no"
            raise NoSuchModel(f'{_shown(name)}: {key} is "{value}"; it must be {kind}.') from None
    return read | {key: value for key, value in given.items() if value is not None}


def _yes_no(value: str) -> bool:
    if value not in _YES_NO:
        raise ValueError(value)
    return _YES_NO[value]


def _unknown(name: str, *, near: Iterable[str] = (), rest: str = "") -> str:
    text = f'no model is named "{_shown(name)}". {FORMS}'
    if name.lower().endswith(".gguf") and ":" not in name:
        return f'{text} Did you mean "gguf:{_shown(name)}"?'
    matches = difflib.get_close_matches(name.partition(":")[0], list(near), n=1)
    return f'{text} Did you mean "{matches[0]}:{_shown(rest)}"?' if matches else text


def _shown(text: str) -> str:
    return " ".join(without_passwords(text)[:_LONGEST_SHOWN].split())
