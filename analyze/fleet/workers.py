"""Several recordings read at once, each by a process of its own, here or on a cluster."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, as_completed
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

import psutil

from iotrace.analyze.library import MEMORY_LIMIT_BYTES
from iotrace.schemas import IotraceError
from iotrace.schemas.stored import Place, brought

from .incidents import incidents_of
from .shared import HostIncidents
from .summary import HostSummary, Unread, summarise

_WORKER_BYTES: Final = MEMORY_LIMIT_BYTES + (1 << 30)
_KILLED: Final = "the process that read it was killed, as a system short of memory does"

_Found = TypeVar("_Found")
_Where = TypeVar("_Where", bound=Place)
Done = Callable[[int], None]
"""Is told how many have been read."""


def summaries(
    paths: Sequence[Place], done: Done = lambda _count: None, executor: Executor | None = None
) -> list[HostSummary | Unread]:
    """What is kept of each recording, in the order of ``paths``; see `read_each`."""
    return read_each(summarise, paths, done, executor)


def incidents_of_each(
    paths: Sequence[Place], done: Done = lambda _count: None, executor: Executor | None = None
) -> list[HostIncidents | Unread]:
    """The slow windows of each recording, in the order of ``paths``; see `read_each`."""
    return read_each(incidents_of, paths, done, executor)


@dataclass(frozen=True, slots=True)
class HostTold:
    """Both of a recording, for a report."""

    path: str
    summary: HostSummary
    slow: HostIncidents


def told_of_each(
    paths: Sequence[Place], done: Done = lambda _count: None, executor: Executor | None = None
) -> list[HostTold | Unread]:
    """What is kept of each recording and its slow windows, in the order of ``paths``; see `read_each`."""
    return read_each(_tell, paths, done, executor)


def _tell(place: Place) -> HostTold | Unread:
    """Both, of a recording that is brought here once."""
    name = str(place)
    try:
        with brought(place) as path:
            summary, slow = summarise(path), incidents_of(path)
    except IotraceError as problem:
        return Unread(name, problem.message)
    if isinstance(summary, Unread) or isinstance(slow, Unread):
        problem_of = summary if isinstance(summary, Unread) else slow
        assert isinstance(problem_of, Unread)
        return Unread(name, problem_of.problem.replace(str(path), name))
    return HostTold(name, replace(summary, path=name), replace(slow, path=name))


def read_each(
    read: Callable[[_Where], _Found | Unread],
    paths: Sequence[_Where],
    done: Done = lambda _count: None,
    executor: Executor | None = None,
) -> list[_Found | Unread]:
    """What ``read``, which can be pickled, gives for each path, in their order; ``done`` is told how many are there.

    Without an ``executor``, such as a Dask client's, processes of this machine read, as many at once as there are
    processors and memory for. A recording whose process dies is tried once more by itself; over a lost worker Dask
    tries again elsewhere. One over which ``read`` itself goes wrong is not read, and costs the others nothing.
    """
    guarded = partial(_guarded, read)
    if executor is not None:
        found = _read(executor, guarded, paths, done)
    else:
        with _processes(_processes_at_once(len(paths))) as pool:
            found = _read(pool, guarded, paths, done)
    for path in [path for path in paths if path not in found]:
        if executor is None:
            with _processes(1) as pool:
                found |= _read(pool, guarded, [path], lambda _count: None)
        found.setdefault(path, Unread(str(path), f"'{path}' was not read: {_KILLED}"))
        done(len(found))
    return [found[path] for path in paths]


def _guarded(read: Callable[[_Where], _Found | Unread], path: _Where) -> _Found | Unread:
    """Where ``read`` runs, so that what goes wrong with processes and networks is not taken for the recording's."""
    try:
        return read(path)
    except IotraceError:
        raise
    except Exception as problem:  # noqa: BLE001 - a defect of ours that shows with one recording
        what = f"{type(problem).__name__}: {problem}"
        return Unread(str(path), f"'{path}' was not read: iotrace itself went wrong over it: {what}")


def _read(
    executor: Executor, read: Callable[[_Where], _Found | Unread], paths: Sequence[_Where], done: Done
) -> dict[_Where, _Found | Unread]:
    """By path; those whose process died, and of a pool that broke all that were to be read after it, are missing."""
    found: dict[_Where, _Found | Unread] = {}
    waiting: dict[Future[_Found | Unread], _Where] = {executor.submit(read, path): path for path in paths}
    try:
        for future in as_completed(waiting):
            try:
                found[waiting[future]] = future.result()
            except Exception as problem:
                if not _is_death(problem):
                    raise
            else:
                done(len(found))
    except BaseException:
        for future in waiting:
            future.cancel()
        executor.shutdown(wait=False)
        raise
    return found


def _is_death(problem: Exception) -> bool:
    """Whether a process died over it. Dask, which need not be installed, says so by the name of its error."""
    return isinstance(problem, BrokenExecutor | CancelledError) or type(problem).__name__ == "KilledWorker"


def _processes_at_once(wanted: int) -> int:
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(wanted, processors, psutil.virtual_memory().total // _WORKER_BYTES))


def _processes(workers: int) -> Executor:
    # Not at the top: no other command needs it at its start.
    import multiprocessing  # noqa: PLC0415
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    # Threads of DuckDB and Arrow do not survive a fork.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
