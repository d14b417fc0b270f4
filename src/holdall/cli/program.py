"""The program around the commands."""

import sys
from typing import Any

import typer

from holdall.cli import streams
from holdall.cli.options import FAULT, common, complain


class Program(typer.Typer):
    """Every command, also those of typer's own (help, completion), with streams that can be counted on."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        streams.prepare()
        try:
            try:
                return super().__call__(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            streams.drop_output()
        except streams.NotPrinted as problem:
            streams.drop_output()
            complain(problem, as_json=common.as_json)
            sys.exit(FAULT)
