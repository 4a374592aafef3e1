"""Chunks of points worked on side by side, in threads of one BLAS thread each."""

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

_BATCHES = 32  # a thread: of a million small tasks each by itself would cost more than its work

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
    """What a function makes of each task, in their order; after an error or `close` none begins.

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
        size = -(-len(tasks) // (_BATCHES * n_threads))
        batches = [tasks[k : k + size] for k in range(0, len(tasks), size)]

        ended = threading.Event()

        def run(batch):
            return [function(task) for task in batch if not ended.is_set()]

        with ThreadPoolExecutor(n_threads) as threads:
            try:
                for batch in threads.map(run, batches):
                    yield from batch
            finally:
                ended.set()


def n_threads_for(tasks: Sequence[Any], n_jobs: int | None) -> int:
    """How many threads share the tasks: no more than there are tasks, at least one."""
    return max(1, min(effective_n_jobs(-1 if n_jobs is None else n_jobs), len(tasks)))
