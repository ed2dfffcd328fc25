"""Finds one job among many."""

from __future__ import annotations

from typing import Sequence

from ._errors import BursarError
from ._job import Job


def find_job(jobs: Sequence[Job], start: str) -> Job:
    """The job with this id, or the only one whose id begins so. Upper and lower case are the same."""
    matches = [job for job in jobs if start and job.job_id.lower().startswith(start.lower())]
    exact = [job for job in matches if job.job_id.lower() == start.lower()]
    if len(exact or matches) == 1:
        return (exact or matches)[0]
    if not matches:
        raise BursarError("job_unknown", f'No job of yours has an id that begins with "{start}". `jobs()` lists them.')
    names = ("…, " if len(matches) > 5 else "") + ", ".join(job.job_id for job in matches[-5:])
    raise BursarError(
        "job_ambiguous", f'{len(matches)} jobs have an id that begins with "{start}": {names}. Give more of it.'
    )


def newest_job(jobs: Sequence[Job]) -> Job:
    if not jobs:
        raise BursarError("job_unknown", "You have no jobs yet.")
    return max(jobs, key=lambda job: job.data["id"])
