"""The seam for work that maps over traces: any `concurrent.futures.Executor` fits.

Locally it is a pool of processes; a cluster's executor (Ray, Dask) serves without a change.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager


@contextmanager
def executor(workers: int) -> Iterator[Executor | None]:
    """A pool of `workers` processes, or None for one: the work then stays in this process."""
    if workers == 1:
        yield None
        return
    # Forking a process that already runs threads can deadlock; a fresh one cannot.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        try:
            yield pool
        except BaseException:
            # Without this, workers would finish what nobody waits for any more.
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise
