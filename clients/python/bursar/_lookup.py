"""Selects one job among the newest ones whose ids begin like the one that is asked for."""

from __future__ import annotations

from typing import Sequence

from ._errors import BursarError
from ._job import Job

MAX_CANDIDATES = 5


def select_job(candidates: Sequence[Job], has_more: bool, start: str) -> Job:
    """The job with this id, or the only candidate."""
    exact = [job for job in candidates if job.job_id == start.upper()]
    if len(exact or candidates) == 1:
        return (exact or candidates)[0]
    if not candidates:
        raise BursarError("job_unknown", f'No job of yours has an id that begins with "{start}". `jobs()` lists them.')
    names = ", ".join(job.job_id for job in candidates)
    count = f"More than {len(candidates)}" if has_more else str(len(candidates))
    raise BursarError("job_ambiguous", f'{count} jobs have an id that begins with "{start}": {names}. Give more of it.')


def newest_job(newest_first: Sequence[Job]) -> Job:
    if not newest_first:
        raise BursarError("job_unknown", "You have no jobs yet.")
    return newest_first[0]
