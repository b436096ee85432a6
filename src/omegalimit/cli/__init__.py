"""The command `omegalimit`. It holds no logic: options in, the library asked, a table, a record or JSON out."""

from ._main import main

__all__ = ["main"]
