"""Chunks of points worked on side by side, in threads of one BLAS thread each."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from functools import cache
from typing import Any, TypeVar, cast

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

Task = TypeVar("Task")
Result = TypeVar("Result")


@cache
def _blas():
    """BLAS libraries that are loaded; looking for them takes longer than the work on few points."""
    return ThreadpoolController()


def limited_blas(n_threads: int | None = 1) -> AbstractContextManager[Any]:
    """BLAS with so many threads of its own, one by default; None leaves them as they are."""
    return _blas().limit(limits=n_threads, user_api="blas")


def map_in_threads(
    function: Callable[[Task], Result], tasks: Sequence[Task], n_jobs: int | None
) -> Generator[Result, None, None]:
    """What a function makes of each task, in their order; closed early, it starts no more.

    Parameters
    ----------
    function : callable
        Called in this thread where there is one task or one thread, which costs less than to
        start another.
    tasks : sequence
    n_jobs : int or None
        Threads, as joblib counts them; None is all cores.

    Yields
    ------
    function(task)
    """
    n_threads = n_threads_for(tasks, n_jobs)
    # One BLAS thread in each of ours: small products gain nothing from more.
    with limited_blas():
        if n_threads == 1:
            yield from map(function, tasks)
            return
        with (
            ThreadPoolExecutor(n_threads) as threads,
            closing(cast(Any, threads.map(function, tasks))) as results,
        ):
            yield from results


def n_threads_for(tasks: Sequence[Any], n_jobs: int | None) -> int:
    """How many threads share the tasks: no more than there are tasks, at least one."""
    return max(1, min(effective_n_jobs(-1 if n_jobs is None else n_jobs), len(tasks)))
