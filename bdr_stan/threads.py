"""Parallel map over tasks, in threads of one BLAS thread each."""

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

_BATCHES = 32  # per thread: one future for each of a million small tasks would cost too much

Task = TypeVar("Task")
Result = TypeVar("Result")


@cache
def _blas():
    """Loaded BLAS libraries, cached: the search is slower than work on few points."""
    return ThreadpoolController()


def limited_blas(n_threads: int | None = 1) -> AbstractContextManager[Any]:
    """Limit BLAS to `n_threads` threads; None leaves the number unchanged."""
    return _blas().limit(limits=n_threads, user_api="blas")


def map_in_threads(
    function: Callable[[Task], Result], tasks: Sequence[Task], n_jobs: int | None = None
) -> Generator[Result, None, None]:
    """Yield `function(task)` in the order of the tasks; after an error or `close` no task starts.

    `n_jobs` is as in joblib, None for all cores. A single task or thread runs in the calling
    thread, which is cheaper.
    """
    n_threads = n_threads_for(tasks, n_jobs)
    # One BLAS thread per thread of ours: small products gain nothing from more.
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


def n_threads_for(tasks: Sequence[Any], n_jobs: int | None = None) -> int:
    """Number of threads for the tasks: at most one per task, at least one."""
    return max(1, min(effective_n_jobs(-1 if n_jobs is None else n_jobs), len(tasks)))
