"""What the commands share: a parser whose complaints are errors, and how a message and an ending look."""

import argparse
import contextlib
import os
import sys
from typing import Any

USAGE = 2
"""Exit status of wrong usage and bad input."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ValueError(f"{message}; see `{self.prog} --help`.")


def one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def complain(text: str, status: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        print(f"omegalimit: {text}", file=sys.stderr, flush=True)
    return status


def reader_left() -> int:
    """The reader of the output has gone (`| head`): the rest goes nowhere, so that Python's own last flush is quiet."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
