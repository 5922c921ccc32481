"""Several recordings read at once, each by a process of its own."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future, as_completed
from pathlib import Path
from typing import Final, TypeVar

import psutil

from iotrace.analyze.library import MEMORY_LIMIT_BYTES

from .incidents import incidents_of
from .shared import HostIncidents
from .summary import HostSummary, Unread, summarise

_WORKER_BYTES: Final = MEMORY_LIMIT_BYTES + (1 << 30)
_KILLED: Final = "the process that read it was killed, as a system short of memory does"


_Found = TypeVar("_Found")


def summaries(
    paths: Sequence[Path], done: Callable[[int], None] = lambda _count: None
) -> list[HostSummary | Unread]:
    """What is kept of each recording, in the order of ``paths``; ``done`` is told how many have been read."""
    return read_each(summarise, paths, done)


def incidents_of_each(
    paths: Sequence[Path], done: Callable[[int], None] = lambda _count: None
) -> list[HostIncidents | Unread]:
    """The slow windows of each recording, in the order of ``paths``; ``done`` is told how many have been read."""
    return read_each(incidents_of, paths, done)


def read_each(
    read: Callable[[Path], _Found | Unread], paths: Sequence[Path], done: Callable[[int], None]
) -> list[_Found | Unread]:
    """What ``read``, which can be pickled, gives for each path, in their order; ``done`` is told how many are there.

    As many are read at once as there are processors and memory for. A recording whose process dies is tried once more
    by itself.
    """
    workers = min(
        len(paths), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    workers = max(1, min(workers, psutil.virtual_memory().total // _WORKER_BYTES))
    found = _read(read, paths, workers, done)
    for path in [path for path in paths if path not in found]:
        found |= _read(read, [path], 1, lambda _count: None) or {path: Unread(str(path), _KILLED)}
        done(len(found))
    return [found[path] for path in paths]


def _read(
    read: Callable[[Path], _Found | Unread], paths: Sequence[Path], workers: int, done: Callable[[int], None]
) -> dict[Path, _Found | Unread]:
    """By path; those whose process died, and all that were to be read after it, are missing."""
    found: dict[Path, _Found | Unread] = {}
    # Not at the top: no other command needs it at its start.
    import multiprocessing  # noqa: PLC0415
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    # Threads of DuckDB and Arrow do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting: dict[Future[_Found | Unread], Path] = {pool.submit(read, path): path for path in paths}
        try:
            for future in as_completed(waiting):
                found[waiting[future]] = future.result()
                done(len(found))
        except BrokenExecutor:
            pass
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found
