"""Functions of many arguments computed by Dask, their results in order."""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from threadpoolctl import threadpool_limits


def in_order(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    shared: Any,
    *,
    client: Any = None,
) -> Iterator[Any]:
    """Results of ``function(*arguments[k], shared)`` in the order of k, computed by Dask.

    Delayed objects among the arguments are computed first; `shared` is sent once to each worker.
    Without `client`, Dask uses the running client or else its default scheduler, usually threads.
    """
    from dask import compute, config, delayed

    client = check_client(client) or _running_client()
    shared = delayed(shared, name=f"bdr-stan-{uuid4().hex}", traverse=False)
    call = delayed(function, pure=False)
    tasks = [call(*given, shared) for given in arguments]
    # Dask's threads on this machine are as many as its cores.
    with threadpool_limits(1, user_api="blas"):
        if client is None:
            yield from compute(*tasks)
            return
        # Tasks include a few numbers per bag: for millions of bags Dask would warn.
        with config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            futures = deque(client.compute(tasks))
        try:
            while futures:
                yield futures[0].result()
                futures.popleft()  # frees the result on its worker
        finally:
            client.cancel(list(futures))


def check_client(client: Any) -> Any:
    """A running Dask client, or None; raises for anything else."""
    if client is None:
        return None
    if not hasattr(client, "compute") or not hasattr(client, "status"):
        raise TypeError(f"client must be a distributed.Client, found a {type(client).__name__}")
    if client.status != "running":
        raise ValueError(
            f"the Dask client is {client.status}: connect again, and make the bags with the new one"
        )
    return client


def _running_client():
    distributed = sys.modules.get("distributed")  # imported wherever there is a client
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None
