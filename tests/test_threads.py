"""Tasks shared among threads."""

import threading
import time
from contextlib import closing
from functools import partial

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bdr_stan.threads import limited_blas, map_in_threads


def blas_threads(*_):
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("n_jobs", [1, 3, None])
def test_results_come_in_the_order_of_the_tasks(n_jobs):
    def late(i):
        time.sleep(0.002 * (5 - i))
        return i

    assert list(map_in_threads(late, range(5), n_jobs)) == [0, 1, 2, 3, 4]
    assert list(map_in_threads(late, [], n_jobs)) == []
    assert list(map_in_threads(str, range(1000), n_jobs)) == [str(i) for i in range(1000)]


def test_one_task_starts_no_thread():
    (found,) = map_in_threads(lambda _: threading.current_thread(), [0], 3)
    assert found is threading.current_thread()
    several = set(map_in_threads(lambda _: threading.current_thread(), range(3), 3))
    assert threading.current_thread() not in several


def test_blas_has_one_thread_in_each_of_ours():
    with threadpool_limits(2, user_api="blas"):
        for n_jobs in (1, 2):
            assert list(map_in_threads(blas_threads, range(3), n_jobs)) == [{1}] * 3
        assert blas_threads() == {2}
        with limited_blas(None):
            assert blas_threads() == {2}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_after_an_error_or_close_none_begins(n_jobs):
    begun = []

    def slow(i, error=None):
        begun.append(i)
        time.sleep(0.005)
        if error is not None:
            raise error

    with closing(map_in_threads(slow, range(300), n_jobs)) as results:
        next(results)
    assert len(begun) < 100
    begun.clear()
    with pytest.raises(ValueError, match="no such task"):
        next(map_in_threads(partial(slow, error=ValueError("no such task")), range(300), n_jobs))
    assert len(begun) < 100


def test_number_of_threads_is_checked():
    with pytest.raises(ValueError, match="n_jobs == 0"):
        list(map_in_threads(str, range(3), 0))
