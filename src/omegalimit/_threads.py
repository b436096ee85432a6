"""BLAS on one thread."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import threadpoolctl

_P = ParamSpec("_P")
_T = TypeVar("_T")


@functools.cache
def _pools() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()


def one_blas_thread() -> Any:
    """A context in which BLAS runs on one thread.

    The matrices here are small: on a busy machine two threads of OpenBLAS wait for each other (a nuclear problem of
    d = 128 took 10 s instead of 0.2 s), and one thread gives the same digits everywhere.
    """
    return _pools().limit(limits=1, user_api="blas")


def on_one_blas_thread(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function, run in `one_blas_thread`."""

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with one_blas_thread():
            return function(*args, **kwargs)

    return run


def pools() -> dict[str, int]:
    """The number of threads that each numerical library's pool has now, by the library's name."""
    return {found["prefix"]: found["num_threads"] for found in _pools().info()}
